package outputschema

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// reader finds the ends of JSON values in any text. It checks the structure only, not UTF-8 or duplicate keys.
// The bytes it reads in all are limited by its budget.
type reader struct {
	text   []byte
	budget int
	closed []span // complete containers within the value that was read last, outermost only
}

// newReader makes a reader with a budget of 16 times the text: a text may be made to be read again and again.
func newReader(text string) *reader {
	return &reader{text: []byte(text), budget: 16*len(text) + 64<<10}
}

type span struct{ begin, end int }

// lenient skips checks that cost time and are done later.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// value reads the JSON value at begin and returns the offset after it. If there is none, it returns where the search
// for another goes on; closed has the complete parts. A container that is open there would end there as well if it
// were read alone.
func (r *reader) value(begin int) (after int, ok bool) {
	r.closed = r.closed[:0]
	if r.budget < 0 {
		return begin, false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(r.text[begin:]), lenient...)
	var open []int // where the open containers start
	var kind jsontext.Kind
	end, last := begin, begin // the ends of the last token and the one before it
	for {
		token, err := d.ReadToken()
		if err != nil {
			r.budget -= examined(err, len(r.text)-begin)
			if kind == '"' { // its first quotation mark may be one of the text: search in it, too
				end = last
			}
			return max(end, begin+1), false
		}
		last, end, kind = end, begin+int(d.InputOffset()), token.Kind()
		switch kind {
		case '{', '[':
			open = append(open, end-1)
		case '}', ']':
			from := open[len(open)-1]
			open = open[:len(open)-1]
			for n := len(r.closed); n > 0 && r.closed[n-1].begin > from; n-- {
				r.closed = r.closed[:n-1]
			}
			r.closed = append(r.closed, span{from, end})
		}
		if len(open) == 0 {
			r.budget -= end - begin
			return end, true
		}
	}
}

// examined is how many of size bytes were read before err.
func examined(err error, size int) int {
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		return int(at.ByteOffset) + 1
	}
	return size
}
