package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Appender appends its JSON to b, as encoding/json would write it.
type Appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// Builder writes a JSON object member by member: what Encode writes of a struct, without reflection. It is for
// the records and replies of every run; tests compare it with Encode.
type Builder struct {
	b   []byte
	err error
}

// Build starts an object after the content of b.
func Build(b []byte) Builder { return Builder{b: append(b, '{')} }

// End returns the content of b and the object. The error is that of the first member that could not be written.
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

// Text writes a string.
func (o *Builder) Text(name, v string) {
	o.name(name)
	o.b = appendText(o.b, v)
}

// OptText writes a string, unless it is empty.
func (o *Builder) OptText(name, v string) {
	if v != "" {
		o.Text(name, v)
	}
}

// TextOrNull writes a string, or null.
func (o *Builder) TextOrNull(name string, v *string) {
	if v == nil {
		o.Null(name)
		return
	}
	o.Text(name, *v)
}

// Null writes null.
func (o *Builder) Null(name string) {
	o.name(name)
	o.b = append(o.b, "null"...)
}

// OptTrue writes true, unless v is false.
func (o *Builder) OptTrue(name string, v bool) {
	if v {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

// Int writes a whole number.
func (o *Builder) Int(name string, v int) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, int64(v), 10)
}

// OptUint writes a number, unless it is 0.
func (o *Builder) OptUint(name string, v uint64) {
	if v != 0 {
		o.name(name)
		o.b = strconv.AppendUint(o.b, v, 10)
	}
}

// Time writes a time, as encoding/json does.
func (o *Builder) Time(name string, t time.Time) {
	if y := t.Year(); y < 1 || y > 9999 {
		o.Value(name, t)
		return
	}
	o.name(name)
	o.b = append(t.AppendFormat(append(o.b, '"'), time.RFC3339Nano), '"')
}

// OptTime writes a time, unless it is nil.
func (o *Builder) OptTime(name string, t *time.Time) {
	if t != nil {
		o.Time(name, *t)
	}
}

// Raw writes untrusted JSON, or null: it validates it and puts it on one line.
func (o *Builder) Raw(name string, v json.RawMessage) {
	if v == nil {
		o.Null(name)
		return
	}
	o.name(name)
	switch {
	case bytes.IndexByte(v, ' ') >= 0 || multiline(v):
		o.compact(name, v)
	case !Valid(v):
		o.fail(notJSON(name))
	default:
		o.b = append(o.b, v...)
	}
}

// StoredRaw writes JSON that was validated when it was stored, or null, on one line.
func (o *Builder) StoredRaw(name string, v json.RawMessage) {
	switch {
	case v == nil:
		o.Null(name)
	case multiline(v):
		o.name(name)
		o.compact(name, v)
	default:
		o.OptRaw(name, v)
	}
}

// multiline reports whether JSON has line ends or tabs, which none of its strings can contain.
func multiline(v []byte) bool {
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

// OptRaw writes our own JSON byte for byte, unless it is empty.
func (o *Builder) OptRaw(name string, v json.RawMessage) {
	if len(v) > 0 {
		o.name(name)
		o.b = append(o.b, v...)
	}
}

// Value writes any other value, by encoding/json.
func (o *Builder) Value(name string, v any) {
	raw, err := Encode(v)
	o.fail(err)
	o.name(name)
	o.b = append(o.b, raw...)
}

// OptTexts writes a list of strings, unless it is empty.
func (o *Builder) OptTexts(name string, all []string) {
	if len(all) == 0 {
		return
	}
	o.name(name)
	for i, v := range all {
		o.b = appendText(append(o.b, "[,"[min(i, 1)]), v)
	}
	o.b = append(o.b, ']')
}

// Open starts a nested object: its members follow, until Close.
func (o *Builder) Open(name string) {
	o.name(name)
	o.b = append(o.b, '{')
}

// Close ends the innermost nested object.
func (o *Builder) Close() { o.b = append(o.b, '}') }

func (o *Builder) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// escaped is the bytes that encoding/json may escape, or have to be looked at with others.
var escaped = func() (is [256]bool) {
	for c := range is {
		is[c] = c < ' ' || c == '"' || c == '\\' || c > '~'
	}
	return is
}()

// appendText writes a string. Most need no escaping.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if escaped[s[i]] {
			raw, _ := Encode(s) // a string can always be encoded
			return append(b, raw...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
