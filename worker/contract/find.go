package contract

import (
	"encoding/json"
	"strings"
	"unicode"

	"ao/shared/wire"
)

// maxLooks is how many values of one answer are compared with the schema; beside those, the last is.
const maxLooks = 10_000

// find takes the JSON value from an answer (contract section 6, rule 2), byte for byte as it stands there; nil: there is none. It is the whole text, else the
// first fenced block that fits, else the first fenced block that is JSON, else the first object or array in the text that fits,
// else the last one. strict: only the whole text counts. JSON is what wire.Check takes: no key twice, no trailing comma, no NaN.
// The time is proportional to the text's length, whatever is in it.
func find(text string, strict bool, fits func(json.RawMessage) bool) json.RawMessage {
	text = trim(text)
	if whole := json.RawMessage(text); wire.Check(whole) == nil {
		return whole
	}
	if strict {
		return nil
	}
	var first json.RawMessage
	looks := 0
	for block := range fenced(text) {
		raw := json.RawMessage(block)
		if looks++; looks > maxLooks {
			break
		}
		switch {
		case wire.Check(raw) != nil:
		case fits(raw):
			return raw
		case first == nil:
			first = raw
		}
	}
	if first != nil {
		return first
	}
	var last json.RawMessage
	late := make([]string, 0, 2*maxLate)
	for part := range bare(text) {
		if looks++; looks > maxLooks {
			if len(late) == cap(late) {
				late = append(late[:0], late[maxLate:]...)
			}
			late = append(late, part)
			continue
		}
		if raw := json.RawMessage(part); wire.Check(raw) == nil {
			if fits(raw) {
				return raw
			}
			last = raw
		}
	}
	for i := len(late) - 1; i >= 0; i-- {
		if raw := json.RawMessage(late[i]); wire.Check(raw) == nil {
			return raw
		}
	}
	return last
}

// maxLate is how many of the values are kept that come after maxLooks: the last one of them that is JSON may be wanted.
const maxLate = 64

// trim takes from a text what is around it: white space, and the mark that says it is UTF-8.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) })
}

// budget is how many bytes of a text are read in all, before it is given up: text that is made so that it is read again and again.
func budget(text string) int { return 16*len(text) + 64<<10 }

// bare gives the objects and arrays of a text, in their order, none that is in another. What is within one that is broken counts.
func bare(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		r := &reader{text: text, budget: budget(text)}
		for i := 0; r.budget >= 0; {
			n := strings.IndexAny(text[i:], "{[")
			if n < 0 {
				return
			}
			begin := i + n
			end, ok := r.value(begin)
			for _, s := range r.closed {
				if !yield(text[s.begin:s.end]) {
					return
				}
			}
			switch {
			case ok:
				i = end
			case r.last >= 0: // a quotation mark of the text may have been taken for one of JSON: what seems to be a string is looked at, too
				i = r.last + 1
			default: // what is open at the end would end there as well if it were read alone
				i = max(end, begin+1)
			}
		}
	}
}
