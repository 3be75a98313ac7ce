package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// kind is one of JSON's six kinds of value.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

// value is a JSON value as it was sent: its members in their order, its numbers as written. (A map of any would lose
// both.)
type value struct {
	kind  kind
	raw   string         // a number's literal, a string's text, "true" or "false"
	names []string       // of an object's members, in order
	kids  []value        // an array's items, an object's members
	index map[string]int // of names, where there are many
}

// limits limit what is read, before it is processed.
type limits struct{ bytes, depth, values int }

const (
	maxLiteral  = 64  // characters of a number
	maxExponent = 308 // either way, as a 64-bit float has it
	manyNames   = 16  // more members than that are found through an index
)

// get finds an object's member.
func (v *value) get(name string) (*value, bool) {
	if v.index != nil {
		i, ok := v.index[name]
		if !ok {
			return nil, false
		}
		return &v.kids[i], true
	}
	for i, n := range v.names {
		if n == name {
			return &v.kids[i], true
		}
	}
	return nil, false
}

// canonical appends a text that two values share exactly if JSON Schema calls them equal: 1 and 1.0 are, whatever the
// order of members.
func (v *value) canonical(dst []byte) []byte {
	switch v.kind {
	case null:
		return append(dst, 'n')
	case boolean:
		return append(dst, v.raw[0])
	case number:
		return decimalOf(v.raw).canonical(dst)
	case text:
		return quoted(dst, v.raw)
	case array:
		dst = append(dst, '[')
		for i := range v.kids {
			dst = v.kids[i].canonical(dst)
		}
		return append(dst, ']')
	}
	order := make([]int, len(v.names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(v.names[a], v.names[b]) })
	dst = append(dst, '{')
	for _, i := range order {
		dst = v.kids[i].canonical(quoted(dst, v.names[i]))
	}
	return append(dst, '}')
}

// quoted appends a string behind its length, so that none can imitate what follows it.
func quoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendInt(dst, int64(len(s)), 10)
	dst = append(dst, ':')
	return append(dst, s...)
}

// unfit says why a text was not read: where, and what is wrong there.
type unfit struct {
	at   path
	what string
}

// read turns a document into a value and counts what is in it. What breaks a limit, repeats a member or is no JSON is
// refused.
func read(raw []byte, lim limits) (v value, count int, bad *unfit) {
	switch {
	case len(raw) > lim.bytes:
		return value{}, 0,
			&unfit{what: fmt.Sprintf("is too large: %d bytes, at most %d are allowed", len(raw), lim.bytes)}
	case !utf8.Valid(raw):
		return value{}, 0, &unfit{what: "is not readable as JSON: it is not valid UTF-8"}
	case !strictjson.Valid(raw):
		return value{}, 0, &unfit{what: "is not readable as JSON: " +
			fault.Describe(json.Unmarshal(raw, &json.RawMessage{}))}
	}
	r := reader{text: string(raw), lim: lim}
	bad = r.value(&v, 0)
	return v, r.count, bad
}

// reader takes apart a text that is known to be JSON; strings without escapes stay parts of it.
type reader struct {
	text  string
	at    int
	count int
	lim   limits
	path  path
	seen  func() // called where a value begins; may be nil
}

func (r *reader) refuse(format string, args ...any) *unfit {
	return &unfit{at: slices.Clone(r.path), what: fmt.Sprintf(format, args...)}
}

func (r *reader) space() {
	for r.at < len(r.text) && r.text[r.at] <= ' ' {
		r.at++
	}
}

func (r *reader) value(v *value, depth int) *unfit {
	if r.count++; r.count > r.lim.values {
		return &unfit{what: fmt.Sprintf("has too many values: at most %d are allowed", r.lim.values)}
	}
	r.space()
	if r.seen != nil {
		r.seen()
	}
	switch c := r.text[r.at]; c {
	case '{':
		return r.object(v, depth+1)
	case '[':
		return r.array(v, depth+1)
	case '"':
		v.kind, v.raw = text, r.string()
	case 't', 'f':
		v.kind, v.raw = boolean, "true"
		if c == 'f' {
			v.raw = "false"
		}
		r.at += len(v.raw)
	case 'n':
		r.at += len("null")
	default:
		return r.number(v)
	}
	return nil
}

func (r *reader) deeper(depth int) *unfit {
	if depth > r.lim.depth {
		return &unfit{what: fmt.Sprintf("is nested too deeply: at most %d levels are allowed", r.lim.depth)}
	}
	r.at++
	r.space()
	return nil
}

func (r *reader) array(v *value, depth int) *unfit {
	v.kind = array
	if bad := r.deeper(depth); bad != nil {
		return bad
	}
	for i := 0; r.text[r.at] != ']'; i++ {
		r.path = append(r.path, step{index: i})
		v.kids = append(v.kids, value{})
		if bad := r.value(&v.kids[i], depth); bad != nil {
			return bad
		}
		r.path = r.path[:len(r.path)-1]
		r.next()
	}
	r.at++
	return nil
}

func (r *reader) object(v *value, depth int) *unfit {
	v.kind = object
	if bad := r.deeper(depth); bad != nil {
		return bad
	}
	for i := 0; r.text[r.at] != '}'; i++ {
		name := r.string()
		r.path = append(r.path, step{name: name, named: true})
		if _, twice := v.get(name); twice {
			return r.refuse("%s appears twice in this object", repr(name))
		}
		v.names = append(v.names, name)
		v.kids = append(v.kids, value{})
		switch {
		case v.index != nil:
			v.index[name] = i
		case len(v.names) > manyNames:
			v.index = make(map[string]int, 2*len(v.names))
			for i, n := range v.names {
				v.index[n] = i
			}
		}
		r.space()
		r.at++ // :
		if bad := r.value(&v.kids[i], depth); bad != nil {
			return bad
		}
		r.path = r.path[:len(r.path)-1]
		r.next()
	}
	r.at++
	return nil
}

// next steps over the comma between two items, if there is one.
func (r *reader) next() {
	if r.space(); r.text[r.at] == ',' {
		r.at++
		r.space()
	}
}

func (r *reader) string() string {
	start := r.at + 1
	for at := start; ; at++ {
		switch r.text[at] {
		case '"':
			r.at = at + 1
			return r.text[start:at]
		case '\\':
			return r.escaped(start)
		}
	}
}

func (r *reader) escaped(start int) string {
	end := start
	for r.text[end] != '"' {
		if r.text[end] == '\\' {
			end++
		}
		end++
	}
	r.at = end + 1
	var s string
	_ = json.Unmarshal([]byte(r.text[start-1:end+1]), &s) // the whole text is valid JSON already
	return s
}

func (r *reader) number(v *value) *unfit {
	start := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.at]) >= 0 {
		r.at++
	}
	v.kind, v.raw = number, r.text[start:r.at]
	if len(v.raw) > maxLiteral {
		r.at = start
		return r.refuse("%s is too long for a number: at most %d characters are allowed", cut(v.raw, 40), maxLiteral)
	}
	if i := strings.IndexAny(v.raw, "eE"); i >= 0 {
		if e, err := strconv.Atoi(v.raw[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			r.at = start
			return r.refuse("%s is out of range for a number: its exponent must lie between -%d and %d", v.raw,
				maxExponent, maxExponent)
		}
	}
	return nil
}

func (v *value) json(dst []byte) []byte {
	switch v.kind {
	case null:
		return append(dst, "null"...)
	case text:
		return quotedJSON(dst, v.raw)
	case array:
		dst = append(dst, '[')
		for i := range v.kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.kids[i].json(dst)
		}
		return append(dst, ']')
	case object:
		dst = append(dst, '{')
		for i, name := range v.names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.kids[i].json(append(quotedJSON(dst, name), ':'))
		}
		return append(dst, '}')
	}
	return append(dst, v.raw...)
}

func quotedJSON(dst []byte, s string) []byte {
	b, _ := strictjson.Encode(s) // a string always marshals
	return append(dst, b...)
}
