package param

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ao/shared/strictjson"
)

// Schema is an agent's parameters_schema, used to convert typed arguments. It does not validate; the coordinator
// does. The zero value knows no parameters.
type Schema struct {
	root          json.RawMessage
	unconditional bool // ignore anyOf, oneOf, then and else
}

// NewSchema returns the schema in an API document; null and empty mean none.
func NewSchema(raw json.RawMessage) Schema { return Schema{root: raw} }

// Implicit is the schema of an autonomous agent without its own, and of every resume.
var Implicit = NewSchema(json.RawMessage(`{"type":"object","required":["prompt"],` +
	`"properties":{"prompt":{"type":"string","minLength":1}},"additionalProperties":false}`))

// Field describes one parameter of an agent for people.
type Field struct {
	Name        string
	Type        string // "integer", "string|null", "array of string", "any"
	Required    bool
	Values      []string // of an enum
	Default     string   // as JSON
	Limits      string   // "minimum 1; maximum 5", in the schema's keywords; without Values and alternatives
	Description string
	Example     string // a value to type, as in name=EXAMPLE
}

// Fields returns the parameters that the schema names, in its order.
func (s Schema) Fields() []Field {
	var all []Field
	root := s.facets(s.root, 0)
	var required []string
	for _, f := range root {
		var names []string
		if json.Unmarshal(f["required"], &names) == nil {
			required = append(required, names...)
		}
	}
	for _, f := range root {
		properties, _ := strictjson.Members(f["properties"])
		for _, p := range properties {
			if slices.ContainsFunc(all, func(have Field) bool { return have.Name == p.Key }) {
				continue
			}
			all = append(all, s.field(p.Key, slices.Contains(required, p.Key)))
		}
	}
	return all
}

func (s Schema) field(name string, required bool) Field {
	facets := s.property(name)
	types := typesOf(facets)
	f := Field{Name: name, Required: required, Type: s.typeName(facets), Example: example(types)}
	for _, p := range facets {
		for _, v := range p.enum() {
			f.Values = append(f.Values, plain(v))
		}
		if f.Default == "" && p["default"] != nil {
			f.Default = compact(p["default"])
		}
		if f.Description == "" {
			_ = json.Unmarshal(p["description"], &f.Description) // ignored if not a string
		}
	}
	if len(f.Values) > 0 {
		f.Example = f.Values[0]
	}
	f.Limits = Schema{root: s.root, unconditional: true}.limits(name)
	return f
}

// bounds are the schema keywords that limit a value and fit on one line.
var bounds = []string{
	"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
	"format",
	"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
}

func (s Schema) limits(name string) string {
	facets := s.property(name)
	var all []string
	for _, of := range []struct {
		each   string
		facets []facet
	}{{"", facets}, {"each ", s.items(facets, 0)}} {
		for _, f := range of.facets {
			var values []string
			for _, v := range f.enum() {
				values = append(values, plain(v))
			}
			if len(values) > 0 && of.each != "" {
				all = append(all, of.each+"one of "+strings.Join(values, ", "))
			}
			for _, word := range bounds {
				if f[word] != nil {
					all = append(all, of.each+word+" "+plain(f[word]))
				}
			}
		}
	}
	return strings.Join(all, "; ")
}

func (s Schema) typeName(facets []facet) string {
	types := typesOf(facets)
	if len(types) == 0 {
		return "any"
	}
	names := slices.Clone(types)
	if i := slices.Index(names, "array"); i >= 0 {
		if of := typesOf(s.items(facets, 0)); len(of) > 0 {
			names[i] = "array of " + strings.Join(of, "|")
		}
	}
	return strings.Join(names, "|")
}

func plain(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil && v[0] == '"' {
		return s
	}
	return compact(v)
}

// facet is one schema object; the description of a value is often spread over several.
type facet map[string]json.RawMessage

func (f facet) enum() []json.RawMessage {
	var values []json.RawMessage
	if json.Unmarshal(f["enum"], &values) != nil {
		values = nil
	}
	if c := f["const"]; c != nil {
		values = append(values, c)
	}
	return values
}

const maxNesting = 16 // of references and combinations; a schema may refer to itself

// facets returns a schema and those it includes by reference and combination.
func (s Schema) facets(node json.RawMessage, depth int) []facet {
	var f facet
	if depth > maxNesting || json.Unmarshal(node, &f) != nil || f == nil {
		return nil
	}
	all := []facet{f}
	var ref string
	if json.Unmarshal(f["$ref"], &ref) == nil {
		all = append(all, s.facets(s.resolve(ref), depth+1)...)
	}
	combined, conditional := []string{"allOf", "anyOf", "oneOf"}, []string{"then", "else"}
	if s.unconditional {
		combined, conditional = combined[:1], nil
	}
	for _, word := range combined {
		var branches []json.RawMessage
		if json.Unmarshal(f[word], &branches) != nil {
			continue
		}
		for _, b := range branches {
			all = append(all, s.facets(b, depth+1)...)
		}
	}
	for _, word := range conditional {
		all = append(all, s.facets(f[word], depth+1)...)
	}
	return all
}

// resolve follows a reference within the schema; nil for any other.
func (s Schema) resolve(ref string) json.RawMessage {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer == "" {
		return s.root
	}
	node := s.root
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var list []json.RawMessage
		if json.Unmarshal(node, &list) == nil && list != nil {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(list) {
				return nil
			}
			node = list[i]
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(node, &members) != nil {
			return nil
		}
		node = members[token]
	}
	return node
}

// property returns everything the schema says about one parameter.
func (s Schema) property(key string) []facet {
	var named, matched, rest []facet
	for _, f := range s.facets(s.root, 0) {
		var properties map[string]json.RawMessage
		if json.Unmarshal(f["properties"], &properties) == nil && properties[key] != nil {
			named = append(named, s.facets(properties[key], 0)...)
		}
		patterns, _ := strictjson.Members(f["patternProperties"])
		for _, p := range patterns {
			if re, err := regexp.Compile(p.Key); err == nil && re.MatchString(key) {
				matched = append(matched, s.facets(p.Value, 0)...)
			}
		}
		rest = append(rest, s.facets(f["additionalProperties"], 0)...)
	}
	if all := append(named, matched...); len(all) > 0 {
		return all
	}
	return rest
}

// items returns everything the schemas of an array say about its i-th element.
func (s Schema) items(facets []facet, i int) []facet {
	var all []facet
	for _, f := range facets {
		var tuple []json.RawMessage
		switch {
		case json.Unmarshal(f["items"], &tuple) == nil && i < len(tuple):
			all = append(all, s.facets(tuple[i], 0)...)
		case tuple != nil:
			all = append(all, s.facets(f["additionalItems"], 0)...)
		default:
			all = append(all, s.facets(f["items"], 0)...)
		}
	}
	return all
}

// typesOf returns the types that facets name, in order; if none does, the types that their other members imply.
func typesOf(facets []facet) []string {
	var all []string
	add := func(t string) {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	for _, f := range facets {
		t := bytes.TrimSpace(f["type"])
		var one string
		var many []string
		switch {
		case len(t) == 0:
		case json.Unmarshal(t, &one) == nil:
			add(one)
		case json.Unmarshal(t, &many) == nil:
			for _, m := range many {
				add(m)
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, f := range facets {
		switch {
		case f["items"] != nil:
			add("array")
		case f["properties"] != nil:
			add("object")
		}
	}
	return all
}
