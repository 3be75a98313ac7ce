// Package param builds the parameters of a run from command-line arguments. Values get the types of the agent's
// schema; the order of keys and the digits of numbers stay as typed.
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
	typed kind = iota // key=value: the schema gives the type
	raw               // key:=JSON
	bare              // key alone: true
	text              // always a string
)

// Argument is one parameter as typed.
type Argument struct {
	Key  string
	text string
	kind kind
}

// Parse reads key=value, key:=JSON, or a key alone, which stands for true.
func Parse(arg string) (Argument, error) {
	if !utf8.ValidString(arg) {
		return Argument{}, fmt.Errorf("parameter %.60q is not valid UTF-8", arg)
	}
	key, value, ok := strings.Cut(arg, "=")
	g := Argument{Key: key, text: value}
	switch before, isRaw := strings.CutSuffix(key, ":"); {
	case !ok:
		g.kind = bare
	case isRaw:
		g.Key, g.kind = before, raw
		if err := strictjson.Check([]byte(value)); err != nil {
			return Argument{}, fmt.Errorf("parameter %s: %s; for plain text write %s=…", g.Key, withoutSubject(err),
				g.Key)
		}
	}
	if g.Key == "" {
		return Argument{}, fmt.Errorf("parameter %.60q has no name; write name=value, or name:=JSON", arg)
	}
	return g, nil
}

// Text returns a parameter that is always a string.
func Text(key, value string) (Argument, error) {
	if !utf8.ValidString(value) {
		return Argument{}, fmt.Errorf("%s is not valid UTF-8", key)
	}
	return Argument{Key: key, text: value, kind: text}, nil
}

// ParseObject parses a JSON object of parameters. The error does not name the source.
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

// NeedsSchema reports whether any argument needs the agent's schema.
func NeedsSchema(given []Argument) bool {
	return slices.ContainsFunc(given, func(g Argument) bool { return g.kind == typed || g.kind == bare })
}

// Object returns the parameters: the members of base, then the arguments in their order. A key in both keeps its
// place from base and takes the argument's value. A key given several times becomes an array.
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

// quote returns s as JSON with minimal escaping.
func quote(s string) json.RawMessage {
	raw, _ := strictjson.Encode(s) // a string
	return raw
}

// withoutSubject removes the subject from an error of package strictjson, which speaks of a request's body.
func withoutSubject(err error) string {
	s := err.Error()
	for _, subject := range []string{"The body is ", "The body "} {
		if rest, ok := strings.CutPrefix(s, subject); ok {
			return rest
		}
	}
	return s
}
