// Package param makes the parameters of a run out of what a person typed: values get the type that the agent's schema
// names, and the order of the keys and the digits of the numbers stay as they were typed.
package param

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ao/shared/strictjson"
)

type kind uint8

const (
	typed kind = iota // key=value: the schema says what it is
	raw               // key:=JSON
	bare              // key alone: true
	text              // a string whatever the schema says
)

// Argument is one parameter as it was typed.
type Argument struct {
	Key  string
	text string
	kind kind
}

// Parse reads key=value, key:=JSON, or a key alone, which stands for true.
func Parse(arg string) (Argument, error) {
	if !utf8.ValidString(arg) {
		return Argument{}, fmt.Errorf("parameter %.60q is not UTF-8; JSON can carry nothing else", arg)
	}
	key, value, ok := strings.Cut(arg, "=")
	g := Argument{Key: key, text: value}
	switch before, isRaw := strings.CutSuffix(key, ":"); {
	case !ok:
		g.kind = bare
	case isRaw:
		g.Key, g.kind = before, raw
		if err := strictjson.Check([]byte(value)); err != nil {
			return Argument{}, fmt.Errorf("parameter %s: %s; for plain text write %s=…", g.Key, withoutSubject(err), g.Key)
		}
	}
	if g.Key == "" {
		return Argument{}, fmt.Errorf("parameter %.60q has no name; write name=value, or name:=JSON", arg)
	}
	return g, nil
}

// Text is a parameter that is a string whatever it looks like.
func Text(key, value string) (Argument, error) {
	if !utf8.ValidString(value) {
		return Argument{}, fmt.Errorf("%s is not UTF-8; JSON can carry nothing else", key)
	}
	return Argument{Key: key, text: value, kind: text}, nil
}

// ParseObject reads a JSON object whose members come before those given one by one. The error does not say where it came from.
func ParseObject(doc []byte) ([]strictjson.Member, error) {
	if err := strictjson.Check(doc); err != nil {
		return nil, errors.New(withoutSubject(err))
	}
	members, err := strictjson.Members(doc)
	if err != nil {
		return nil, fmt.Errorf(`must be a JSON object such as {"url":"…"}, got %.40s`, bytes.TrimSpace(doc))
	}
	return members, nil
}

// NeedsSchema tells whether any of these needs the agent's schema to be read.
func NeedsSchema(given []Argument) bool {
	return slices.ContainsFunc(given, func(g Argument) bool { return g.kind == typed || g.kind == bare })
}

// Object is the parameters: the members of base, then those given, in the order they were typed. One that is in both
// takes its place from base and its value from given. A key given several times is an array.
func Object(base []strictjson.Member, given []Argument, s Schema) (json.RawMessage, error) {
	members := slices.Clone(base)
	var keys []string
	byKey := map[string][]Argument{}
	for _, g := range given {
		if byKey[g.Key] == nil {
			keys = append(keys, g.Key)
		}
		byKey[g.Key] = append(byKey[g.Key], g)
	}
	for _, key := range keys {
		value, err := s.value(key, byKey[key])
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == key })
		if at < 0 {
			members = append(members, strictjson.Member{Key: key, Value: value})
			continue
		}
		members[at].Value = value
	}
	return strictjson.Object(members), nil
}

// quote is s as JSON, with nothing escaped that need not be.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string can always be written
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// withoutSubject is what package wire says of a text, where it is no request's body.
func withoutSubject(err error) string {
	s := err.Error()
	for _, subject := range []string{"The body is ", "The body "} {
		if rest, ok := strings.CutPrefix(s, subject); ok {
			return rest
		}
	}
	return s
}
