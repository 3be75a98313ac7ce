package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Appender is what writes itself behind b, as encoding/json would write its struct.
type Appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// Builder writes a JSON object member by member: what Encode writes of a struct, without looking its type over each
// time. It is for the records and answers that every run has; their tests hold it against Encode.
type Builder struct {
	b   []byte
	err error
}

// Build begins an object behind what b holds.
func Build(b []byte) Builder { return Builder{b: append(b, '{')} }

// End gives what b held, and the object. The error is that of the first member that cannot be written; then there is
// nothing.
func (o *Builder) End() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return append(o.b, '}'), nil
}

func (o *Builder) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), `":`...)
}

// Text is a string.
func (o *Builder) Text(name, v string) {
	o.name(name)
	o.b = appendText(o.b, v)
}

// Some is a string that is left out where it is empty.
func (o *Builder) Some(name, v string) {
	if v != "" {
		o.Text(name, v)
	}
}

// TextOrNull is a string, null where there is none.
func (o *Builder) TextOrNull(name string, v *string) {
	if v == nil {
		o.Null(name)
		return
	}
	o.Text(name, *v)
}

// Null is null.
func (o *Builder) Null(name string) {
	o.name(name)
	o.b = append(o.b, "null"...)
}

// True is a truth that is left out where it is none.
func (o *Builder) True(name string, v bool) {
	if v {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

// Int is a whole number.
func (o *Builder) Int(name string, v int) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, int64(v), 10)
}

// Count is a number that is left out where it is 0.
func (o *Builder) Count(name string, v uint64) {
	if v != 0 {
		o.name(name)
		o.b = strconv.AppendUint(o.b, v, 10)
	}
}

// Time is a moment, as encoding/json writes it.
func (o *Builder) Time(name string, t time.Time) {
	if y := t.Year(); y < 1 || y > 9999 {
		o.Value(name, t)
		return
	}
	o.name(name)
	o.b = append(t.AppendFormat(append(o.b, '"'), time.RFC3339Nano), '"')
}

// At is a moment that is left out where there is none.
func (o *Builder) At(name string, t *time.Time) {
	if t != nil {
		o.Time(name, *t)
	}
}

// Raw is JSON of somebody else, null where there is none: looked at, and put on one line.
func (o *Builder) Raw(name string, v json.RawMessage) {
	if v == nil {
		o.Null(name)
		return
	}
	o.name(name)
	switch {
	case bytes.IndexByte(v, ' ') >= 0 || manyLines(v):
		o.compact(name, v)
	case !Valid(v):
		o.fail(notJSON(name))
	default:
		o.b = append(o.b, v...)
	}
}

// Checked is JSON that was looked at when it was stored, null where there is none: put on one line.
func (o *Builder) Checked(name string, v json.RawMessage) {
	switch {
	case v == nil:
		o.Null(name)
	case manyLines(v):
		o.name(name)
		o.compact(name, v)
	default:
		o.AsIs(name, v)
	}
}

// manyLines reports whether JSON is laid out: with line ends or tabs, which no string of it holds.
func manyLines(v []byte) bool {
	return bytes.IndexByte(v, '\n') >= 0 || bytes.IndexByte(v, '\t') >= 0 || bytes.IndexByte(v, '\r') >= 0
}

func (o *Builder) compact(name string, v []byte) {
	b := bytes.NewBuffer(o.b)
	if json.Compact(b, v) != nil {
		o.fail(notJSON(name))
	}
	o.b = b.Bytes()
}

func notJSON(name string) error { return errors.New(name + " is not JSON") }

// AsIs is JSON of ours, byte for byte; it is left out where there is none.
func (o *Builder) AsIs(name string, v json.RawMessage) {
	if len(v) > 0 {
		o.name(name)
		o.b = append(o.b, v...)
	}
}

// Value is anything else, by encoding/json.
func (o *Builder) Value(name string, v any) {
	raw, err := Encode(v)
	o.fail(err)
	o.name(name)
	o.b = append(o.b, raw...)
}

// Texts is a list of strings that is left out where it is empty.
func (o *Builder) Texts(name string, all []string) {
	if len(all) == 0 {
		return
	}
	o.name(name)
	for i, v := range all {
		o.b = appendText(append(o.b, "[,"[min(i, 1)]), v)
	}
	o.b = append(o.b, ']')
}

// Open begins an object of its own: what follows is its members, until Close.
func (o *Builder) Open(name string) {
	o.name(name)
	o.b = append(o.b, '{')
}

// Close ends the object that was opened last.
func (o *Builder) Close() { o.b = append(o.b, '}') }

func (o *Builder) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// appendText writes a string. Most hold nothing that JSON writes otherwise.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			raw, _ := Encode(s) // a string can always be written
			return append(b, raw...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
