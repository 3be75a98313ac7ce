package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// Change is a new value for a member of an object.
type Change struct {
	Keys  []string        // the member's names; a new member gets the first
	Value json.RawMessage // nil: remove the member
}

// Edit changes members of an object and keeps every other byte: order, digits, space. raw must have been
// checked. A long or multiline value is indented like the text around it, if that has lines.
func Edit(raw []byte, changes []Change) ([]byte, error) {
	o, err := parseObject(raw)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		o.change(c)
	}
	return o.text(), nil
}

type part struct {
	key           string
	begin, colon  int // where the key begins, and the place after its colon
	value, end    int
	instead       []byte // another value
	added, absent bool
}

// object is the text of a JSON object, with its members.
type object struct {
	raw   []byte
	open  int // the place after the bracket
	parts []part
}

// parseObject finds the members of an object in its text.
func parseObject(raw []byte) (*object, error) {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return nil, errObject
	}
	o := &object{raw: raw, open: i + 1}
	for i = space(raw, i+1); i < len(raw) && raw[i] == '"'; {
		p := part{begin: i}
		end := stringEnd(raw, i)
		if end < 0 {
			return nil, errObject
		}
		p.key = string(unquote(raw[i:end]))
		p.colon = space(raw, end) + 1
		p.value = space(raw, p.colon)
		p.end = valueEnd(raw, p.value)
		if p.end <= p.value {
			return nil, errObject
		}
		o.parts = append(o.parts, p)
		i = space(raw, p.end)
		if i < len(raw) && raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return o, nil
}

// change changes the first member with one of the names, and removes the others.
func (o *object) change(c Change) {
	set := c.Value == nil
	for i := range o.parts {
		p := &o.parts[i]
		switch {
		case p.absent || !slices.Contains(c.Keys, p.key):
		case set:
			p.absent = true
		default:
			p.instead, set = c.Value, true
		}
	}
	if !set {
		o.parts = append(o.parts, part{key: c.Keys[0], instead: c.Value, added: true})
	}
}

func (o *object) original() int {
	n := 0
	for n < len(o.parts) && !o.parts[n].added {
		n++
	}
	return n
}

// lead returns the text before the first member.
func (o *object) lead() []byte {
	if o.original() == 0 {
		return nil
	}
	return o.raw[o.open:o.parts[0].begin]
}

// between returns the text before a later member.
func (o *object) between(i int) []byte {
	n := o.original()
	switch {
	case i < n && i > 0:
		return o.raw[o.parts[i-1].end:o.parts[i].begin]
	case n > 1:
		return o.between(n - 1)
	}
	return append([]byte{','}, o.lead()...)
}

// text writes the object with its changes.
func (o *object) text() []byte {
	n := o.original()
	out := append(bytes.Clone(o.raw[:o.open]), o.lead()...)
	first := true
	for i, p := range o.parts {
		if p.absent {
			continue
		}
		if !first {
			out = append(out, o.between(i)...)
		}
		first = false
		out = append(out, o.member(p)...)
	}
	if n == 0 {
		return append(out, o.raw[space(o.raw, o.open):]...)
	}
	return append(out, o.raw[o.parts[n-1].end:]...)
}

// member writes one member; of a changed one only the value is new.
func (o *object) member(p part) []byte {
	switch {
	case p.added:
		key, _ := Encode(p.key) // strings can always be encoded
		colon := []byte(":")
		if n := o.original(); n == 0 || o.parts[n-1].value > o.parts[n-1].colon {
			colon = []byte(": ")
		}
		return slices.Concat(key, colon, o.indentValue(p.instead))
	case p.instead != nil:
		return append(bytes.Clone(o.raw[p.begin:p.value]), o.indentValue(p.instead)...)
	}
	return o.raw[p.begin:p.end]
}

// maxLine is the longest object or array that is put on one line.
const maxLine = 100

func (o *object) indentValue(value []byte) []byte {
	lead := o.lead()
	at := bytes.LastIndexByte(lead, '\n')
	value = bytes.TrimSpace(value)
	if at < 0 || len(value) == 0 || value[0] != '{' && value[0] != '[' || len(value) <= maxLine &&
		bytes.IndexByte(value, '\n') < 0 {
		return value
	}
	indent := string(lead[at+1:])
	var b bytes.Buffer
	if json.Indent(&b, value, indent, cmp.Or(indent, "  ")) != nil {
		return value
	}
	if at > 0 && lead[at-1] == '\r' {
		return bytes.ReplaceAll(b.Bytes(), []byte{'\n'}, []byte("\r\n"))
	}
	return b.Bytes()
}
