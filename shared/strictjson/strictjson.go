// Package strictjson reads untrusted JSON strictly and within limits, and keeps the order of keys and the
// digits of numbers. It writes our own JSON on one line, as encoding/json would.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ao/shared/fault"
)

// maxDepth is how deep untrusted JSON may nest.
const maxDepth = 64

// Member is a member of a JSON object, in the order sent.
type Member struct {
	Key   string
	Value json.RawMessage
}

// lenient accepts what encoding/json accepts: duplicate keys, and unpaired surrogates in escapes.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// unique is lenient without duplicate keys.
var unique = []jsontext.Options{jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(true)}

// Valid reports whether raw is exactly one JSON value, as encoding/json.Valid does, in a quarter of its time.
func Valid(raw []byte) bool { return jsontext.Value(raw).IsValid(lenient...) }

// TrimBOM returns raw without a UTF-8 byte order mark at its start, which some editors and runtimes write. Whatever
// reads JSON or text from outside calls it first.
func TrimBOM(raw []byte) []byte { return bytes.TrimPrefix(raw, []byte("\ufeff")) }

// Check reports whether raw is exactly one JSON value in UTF-8, no deeper than maxDepth, without a key twice in one
// object. The error is an Invalid fault that names the place.
func Check(raw []byte) error {
	flat := bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) <= maxDepth
	if flat && utf8.Valid(raw) && jsontext.Value(raw).IsValid(unique...) {
		return nil
	}
	return findError(raw)
}

// findError finds the first error in a value, token by token.
func findError(raw []byte) error {
	if !Valid(raw) {
		return unreadable(raw)
	}
	if !utf8.Valid(raw) {
		return fault.New(fault.Invalid, "",
			"The body is not JSON: it is not UTF-8; send it as UTF-8, and other bytes as base64")
	}
	for d := jsontext.NewDecoder(bytes.NewBuffer(raw), unique...); ; {
		_, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return duplicate(d, err)
		case d.StackDepth() > maxDepth+1:
			return fault.Newf(fault.Invalid, "%s nests deeper than %d levels; send it flatter",
				place(d, d.StackPointer()), maxDepth)
		}
	}
}

// duplicate names a duplicate key.
func duplicate(d *jsontext.Decoder, err error) error {
	var at jsontext.Pointer
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = wrong.JSONPointer
	}
	name := short(at.LastToken())
	return fault.Newf(fault.Invalid, "%s has the key %q twice; send each key once", place(d, at.Parent()), name).With(
		"field", name)
}

// place returns the path of a value, as $.a.b, without the indexes of arrays.
func place(d *jsontext.Decoder, at jsontext.Pointer) string {
	p, level := "$", 0
	for key := range at.Tokens() {
		level++
		if kind, _ := d.StackIndex(level); kind == '{' && key != "" && len(p) <= 80 {
			p += "." + short(key)
		}
	}
	return short(p)
}

// short shortens an untrusted name for a reply.
func short(path string) string {
	if len(path) > 80 {
		return strings.ToValidUTF8(path[:77], "") + "…"
	}
	return path
}

// unreadable returns why bytes are not one JSON value.
func unreadable(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	var v json.RawMessage
	switch err := d.Decode(&v); {
	case err == nil:
		return fault.Newf(fault.Invalid, "The body must be one JSON value; something follows it at byte %d",
			d.InputOffset())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Invalid, "", "The body is not JSON: it ends too early")
	default:
		return fault.New(fault.Invalid, "", "The body is not JSON: "+fault.Describe(err))
	}
}

// Members returns an object's members in the order sent. raw must have been checked; the values are slices of it.
func Members(raw json.RawMessage) ([]Member, error) {
	all := make([]Member, 0, 8)
	err := Scan(raw, func(key, value []byte) { all = append(all, Member{string(key), value}) })
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "A JSON object is needed here")
	}
	return all, nil
}

// Decode checks raw and reads it into the struct that into points to. The error names an unknown member (letter
// case counts) or a value of the wrong type. json.RawMessage fields keep what was sent, byte for byte; null
// leaves a field as it is.
func Decode(raw []byte, into any) error { return reader{}.read(raw, into) }

// DecodeAny is Decode that accepts half of a surrogate pair, and reads U+FFFD. A program that has cut its text in the
// middle of a character has done its work.
func DecodeAny(raw []byte, into any) error { return reader{halves: true}.read(raw, into) }

// DecodeFilled is Decode that also refuses empty strings, by the member's name. A field with the tag
// `empty:"kept"` accepts them.
func DecodeFilled(raw []byte, into any) error { return reader{filled: true}.read(raw, into) }

// reader decodes.
type reader struct {
	filled bool // no string may be empty
	halves bool // a text may have half of a surrogate pair
}

func (r reader) read(raw []byte, into any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return r.decode(raw, "", reflect.ValueOf(into).Elem())
}

func (r reader) decode(raw json.RawMessage, path string, into reflect.Value) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		if path == "" {
			return fault.New(fault.Invalid, "", "The body must be a JSON object")
		}
		return fault.Newf(fault.Invalid, "%s must be a JSON object", path).With("field", path)
	}
	var wrong error
	known := fieldsOf(into.Type())
	err := Scan(raw, func(key, value []byte) {
		if wrong == nil {
			wrong = r.member(key, value, path, known, into)
		}
	})
	return cmp.Or(wrong, err)
}

// member reads a member into its field.
func (r reader) member(key, value []byte, path string, known *fields, into reflect.Value) error {
	f, ok := known.of[string(key)]
	if !ok {
		name := short(join(path, string(key)))
		return fault.Newf(fault.Invalid, "Unknown field %q; known are %s", name,
			strings.Join(known.names, ", ")).With("field", name)
	}
	name, field := join(path, f.name), into.FieldByIndex(f.index)
	if r.filled && !f.empty && string(value) == `""` && field.Kind() == reflect.String {
		return fault.Newf(fault.Invalid, "%s is empty: give a value, or leave it out", name).With("field", name)
	}
	return r.set(value, name, field)
}

// join returns the path of a member.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (r reader) set(raw json.RawMessage, name string, f reflect.Value) error {
	kept := f.Type() == reflect.TypeFor[json.RawMessage]()
	if string(raw) == "null" && !kept {
		return nil
	}
	custom := f.Addr().Type().Implements(unmarshaler)
	if !r.halves && !kept && raw[0] != '{' && HalfSurrogate(raw) {
		return fault.Newf(fault.Invalid, "%s has half of a surrogate pair, as \\ud800 is, which is no character; send "+
			"both halves, or leave it out", name).With("field", name)
	}
	if !kept {
		raw = Whole(raw)
	}
	switch {
	case f.Kind() == reflect.String && !custom && raw[0] == '"' && !r.halves:
		f.SetString(String(raw))
		return nil
	case kept:
		f.SetBytes(slices.Clone(raw))
		return nil
	case f.Kind() == reflect.Struct && !custom:
		return r.decode(raw, name, f)
	case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.Type().Implements(unmarshaler):
		f.Set(reflect.New(f.Type().Elem()))
		return r.decode(raw, name, f.Elem())
	case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct &&
		!reflect.PointerTo(f.Type().Elem()).Implements(unmarshaler):
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return fault.Newf(fault.Invalid, "%s must be a list", name).With("field", name)
		}
		f.Set(reflect.MakeSlice(f.Type(), len(items), len(items)))
		for i, item := range items {
			if err := r.decode(item, fmt.Sprintf("%s[%d]", name, i), f.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := json.Unmarshal(raw, f.Addr().Interface()); err != nil {
		if own, ok := errors.AsType[*fault.Fault](err); ok {
			return own
		}
		return fault.Newf(fault.Invalid, "%s must be %s, got %.60s", name, typeName(f.Type()), raw).With("field", name)
	}
	return nil
}

// HalfSurrogate reports whether a string of a JSON value has an escape like \ud800 without its other half. No text can
// keep it: encoding/json would store another character.
func HalfSurrogate(raw []byte) bool {
	return bytes.Contains(raw, []byte(`\u`)) && !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true))
}

// Whole writes a number like 60.0 or 6e1 without fraction and exponent. Other values are returned as they are.
func Whole(raw json.RawMessage) json.RawMessage {
	const exact = 16 // so short a number of less than 1e15 is equal to its float
	if len(raw) > exact || !bytes.ContainsAny(raw, ".eE") {
		return raw
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1e15 || f == 0 && bytes.ContainsAny(raw, "eE") {
		return raw
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list of " + strings.TrimPrefix(strings.TrimPrefix(typeName(t.Elem()), "a "), "an ") + "s"
	case reflect.Pointer:
		return typeName(t.Elem())
	}
	return "an object"
}

// fields are the members that a struct has.
type fields struct {
	of    map[string]member
	names []string
}

type member struct {
	name  string
	index []int
	empty bool // an empty string is accepted
}

var cache sync.Map // reflect.Type → *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := cache.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{of: map[string]member{}}
	for _, sf := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if tag == "" || tag == "-" || !sf.IsExported() {
			continue
		}
		f.of[tag] = member{tag, sf.Index, sf.Tag.Get("empty") == "kept"}
		f.names = append(f.names, tag)
	}
	cache.Store(t, f)
	return f
}

// Object writes members as one JSON object, in their order.
func Object(members []Member) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(appendText(out, m.Key), ':'), m.Value...)
	}
	return append(out, '}')
}

// Encode is json.Marshal that does not escape <, > and &. An Appender writes itself.
func Encode(v any) ([]byte, error) {
	if v, ok := v.(Appender); ok {
		return v.AppendJSON(nil)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
