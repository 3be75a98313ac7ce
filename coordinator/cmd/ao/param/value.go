package param

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// value returns the JSON value of all arguments for one key.
func (s Schema) value(key string, given []Argument) (json.RawMessage, error) {
	facets := s.property(key)
	types := typesOf(facets)
	if len(given) == 1 {
		switch g := given[0]; g.kind {
		case raw:
			return json.RawMessage(g.text), nil
		case text:
			return quote(g.text), nil
		case bare:
			if len(types) > 0 && !slices.Contains(types, "boolean") {
				return nil, fmt.Errorf("parameter %s needs a value: it is %s; write %s=…", key, nouns(types), key)
			}
			return json.RawMessage("true"), nil
		default:
			return s.convert(key, g.text, facets)
		}
	}
	var texts []string
	for _, g := range given {
		if g.kind != typed {
			return nil, fmt.Errorf("parameter %s is given %d times; only %s=… can be repeated, to build an array", key,
				len(given), key)
		}
		texts = append(texts, g.text)
	}
	if len(types) > 0 && !slices.Contains(types, "array") {
		return nil, fmt.Errorf("parameter %s is given %d times, but it is %s, not an array; give it once", key,
			len(given), nouns(types))
	}
	return s.array(key, texts, facets)
}

// convert converts a text to the first type that fits. It stays a string if the schema allows strings or names no type.
func (s Schema) convert(key, typed string, facets []facet) (json.RawMessage, error) {
	if v, ok := enumValue(facets, typed); ok {
		return v, nil
	}
	types := typesOf(facets)
	if len(types) == 0 || slices.Contains(types, "string") {
		return quote(typed), nil
	}
	var failed error
	for _, r := range conversions {
		if !slices.Contains(types, r.kind) {
			continue
		}
		if r.kind == "array" {
			v, err := s.array(key, []string{typed}, facets)
			if err == nil {
				return v, nil
			}
			failed = err
			continue
		}
		if v, ok := r.read(strings.TrimSpace(typed)); ok {
			return v, nil
		}
	}
	if failed != nil && len(types) == 1 {
		return nil, failed
	}
	return nil, fmt.Errorf("parameter %s must be %s, got %.60q; write %s=%s", key, nouns(types), typed, key,
		example(types))
}

// conversions are the types in the order in which they are tried.
var conversions = []struct {
	kind, noun, example string
	read                func(string) (json.RawMessage, bool)
}{
	{"null", "null", "null", func(s string) (json.RawMessage, bool) { return json.RawMessage(s), s == "null" }},
	{"boolean", "a boolean", "true", boolean},
	{"integer", "an integer", "5", number},
	{"number", "a number", "0.5", number},
	{"object", "an object", `'{"key":"value"}'`, func(s string) (json.RawMessage, bool) { return composite(s, '{') }},
	{"array", "an array", "a,b", nil},
	{"string", "a string", "text", nil},
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func number(s string) (json.RawMessage, bool) { return json.RawMessage(s), jsonNumber.MatchString(s) }

var truth = map[string]string{
	"true": "true", "yes": "true", "on": "true", "1": "true",
	"false": "false", "no": "false", "off": "false", "0": "false",
}

func boolean(s string) (json.RawMessage, bool) {
	v, ok := truth[strings.ToLower(s)]
	return json.RawMessage(v), ok
}

func composite(s string, open byte) (json.RawMessage, bool) {
	return json.RawMessage(s), len(s) > 0 && s[0] == open && json.Valid([]byte(s))
}

// array builds an array from texts. Each text is a JSON array or a comma-separated list; if the items are objects or
// arrays themselves, each text is one item.
func (s Schema) array(key string, texts []string, facets []facet) (json.RawMessage, error) {
	var items []json.RawMessage
	for _, t := range texts {
		if whole, ok := composite(strings.TrimSpace(t), '['); ok &&
			!slices.Contains(typesOf(s.items(facets, len(items))), "array") {
			var elements []json.RawMessage
			if err := json.Unmarshal(whole, &elements); err != nil {
				return nil, fmt.Errorf("parameter %s: %w", key, err)
			}
			items = append(items, elements...)
			continue
		}
		parts := []string{t}
		switch {
		case t == "":
			parts = nil
		case !holdCommas(typesOf(s.items(facets, len(items)))):
			parts = strings.Split(t, ",")
		}
		for _, p := range parts {
			of := s.items(facets, len(items))
			v, err := s.convert(key, p, of)
			if err != nil {
				return nil, fmt.Errorf("parameter %s[%d] must be %s, got %.60q; write %s=%s, or %s:=JSON for the "+
					"whole array", key, len(items), nouns(typesOf(of)), p, key, example(typesOf(of)), key)
			}
			items = append(items, v)
		}
	}
	return append(append([]byte{'['}, bytes.Join(joined(items), []byte{','})...), ']'), nil
}

func joined(items []json.RawMessage) [][]byte {
	all := make([][]byte, len(items))
	for i, v := range items {
		all[i] = v
	}
	return all
}

// holdCommas reports whether values of these types can contain commas.
func holdCommas(types []string) bool {
	return len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return t != "object" && t != "array" })
}

// enumValue returns the enum member that was typed: a string as it is, or another value as JSON.
func enumValue(facets []facet, typed string) (json.RawMessage, bool) {
	var other json.RawMessage
	for _, f := range facets {
		for _, v := range f.enum() {
			var s string
			switch {
			case json.Unmarshal(v, &s) == nil && v[0] == '"':
				if s == typed {
					return v, true
				}
			case compact(v) == typed:
				other = v
			}
		}
	}
	return other, other != nil
}

func compact(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return string(v)
	}
	return b.String()
}

func nouns(types []string) string {
	var all []string
	for _, r := range conversions {
		if slices.Contains(types, r.kind) {
			all = append(all, r.noun)
		}
	}
	return strings.Join(all, " or ")
}

func example(types []string) string {
	for _, r := range conversions {
		if slices.Contains(types, r.kind) && (r.kind != "null" || len(types) == 1) {
			return r.example
		}
	}
	return "…"
}
