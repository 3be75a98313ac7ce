package outputschema

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// reader finds the ends of JSON values in any text. It checks the structure only, not UTF-8 or duplicate keys.
// A search goes on where the one before ended, or one string earlier. In fenced blocks it goes on at the next fence; a
// value has one only within a string. So no byte is read more than a few times.
type reader struct {
	text   []byte
	closed []span // complete containers within the value that was read last, outermost only
}

type span struct{ begin, end int }

// lenient skips checks that cost time and are done later.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// value reads the JSON value at begin and returns the offset after it. If there is none, it returns where the search
// for another goes on; closed has the complete parts. A container that is open there would end there as well if it
// were read alone.
func (r *reader) value(begin int) (after int, ok bool) {
	r.closed = r.closed[:0]
	d := jsontext.NewDecoder(bytes.NewBuffer(r.text[begin:]), lenient...)
	var open []int // where the open containers start
	var kind jsontext.Kind
	end, last := begin, begin // the ends of the last token and the one before it
	for {
		token, err := d.ReadToken()
		if err != nil {
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
			return end, true
		}
	}
}
