package fuzz

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator generates random schemas and values from small vocabularies, so that they often match.
type generator struct {
	*rand.Rand
	named bool // inside a schema with its own $id, where # is relative to it
}

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

// chance returns true in n of 100 cases.
func (g generator) chance(n int) bool { return g.IntN(100) < n }

func (g generator) number() string {
	return g.one("0", "1", "1.0", "-1", "2", "3", "10", "0.5", "0.01", "0.07", "1e2", "100", "-0", "1.5", "12.25",
		"9007199254740993", "9007199254740992",
		"9007199254740992.0", "0.1", "0.3", "1e-2", "123456789012345678901234567890", "123456789012345678901234567891",
		"-2.5e3", "7")
}

func (g generator) positive() string {
	return g.one("1", "2", "3", "0.5", "0.01", "0.1", "1.5", "1e-3", "7", "4294967297", "12345678901234567891")
}

func (g generator) size() string { return g.one("0", "1", "2", "3", "2.0", "1e1") }

func (g generator) text() string {
	return quote(g.one("", "a", "b", "ab", "abc", "x-1", "x-2", "é", "😀", "😀😀", "A", "true", "1", "null", "2026-11-21",
		"2026-02-30", "127.0.0.1", "::1", "a b", "a/b", "~",
		"\u0000", "12:00:00Z"))
}

func (g generator) name() string {
	return g.one("a", "b", "c", "ab", "x-1", "x-2", "", "$ref", "é", "a/b", "~t", "type")
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (g generator) value(depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch g.IntN(kinds) {
	case 0:
		return g.one("null", "true", "false")
	case 1:
		return g.number()
	case 2, 3:
		return g.text()
	case 4:
		return "[" + g.several(4, func() string { return g.value(depth - 1) }) + "]"
	}
	return g.object(4, func() string { return g.value(depth - 1) })
}

// several returns a list of up to n items.
func (g generator) several(n int, each func() string) string {
	var all []string
	for range g.IntN(n + 1) {
		all = append(all, each())
	}
	return strings.Join(all, ",")
}

// object returns an object with up to n members.
func (g generator) object(n int, each func() string) string {
	var all []string
	seen := map[string]bool{}
	for range g.IntN(n + 1) {
		if name := g.name(); !seen[name] {
			seen[name] = true
			all = append(all, quote(name)+":"+each())
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

func (g generator) distinct(n int, each func() string) string {
	var all []string
	seen := map[string]bool{}
	for range n {
		if s := each(); !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	return strings.Join(all, ",")
}

func (g generator) pattern() string {
	return g.one("a", "^a", "b$", "^[a-c]+$", "^x-", "^x-\\d$", "^$", ".", "^.{2}$", "\\p{L}", "[^a]", "^(?:a|b)*$",
		"\\w", "^\\S+$", "1?")
}

func (g generator) definition() string { return fmt.Sprintf("d%d", g.IntN(4)) }

// keywords generate one member of a schema each; the first ones contain no schema.
var keywords []func(g generator, depth int) string

const withoutSchema = 23

func init() { // initialized here because keywords and schemas are recursive
	keywords = []func(g generator, depth int) string{
		func(g generator, _ int) string { return `"type":` + g.types() },
		func(g generator, _ int) string { return `"type":` + g.types() },
		func(g generator, _ int) string {
			return `"enum":[` + g.choices() + `]`
		},
		func(g generator, _ int) string { return `"const":` + g.value(2) },
		func(g generator, _ int) string { return `"multipleOf":` + g.positive() },
		func(g generator, _ int) string { return `"minimum":` + g.number() },
		func(g generator, _ int) string { return `"maximum":` + g.number() },
		func(g generator, _ int) string { return `"exclusiveMinimum":` + g.number() },
		func(g generator, _ int) string { return `"exclusiveMaximum":` + g.number() },
		func(g generator, _ int) string { return `"minLength":` + g.size() },
		func(g generator, _ int) string { return `"maxLength":` + g.size() },
		func(g generator, _ int) string { return `"pattern":` + quote(g.pattern()) },
		func(g generator, _ int) string {
			return `"format":` + g.one(`"date"`, `"ipv4"`, `"ipv6"`, `"time"`, `"json-pointer"`, `"unknown"`)
		},
		func(g generator, _ int) string { return `"minItems":` + g.size() },
		func(g generator, _ int) string { return `"maxItems":` + g.size() },
		func(g generator, _ int) string { return `"uniqueItems":` + g.one("true", "true", "false") },
		func(g generator, _ int) string { return `"additionalProperties":false` },
		func(g generator, _ int) string {
			return `"required":[` + g.distinct(2, func() string { return quote(g.name()) }) + `]`
		},
		func(g generator, _ int) string { return `"minProperties":` + g.size() },
		func(g generator, _ int) string { return `"maxProperties":` + g.size() },
		func(g generator, _ int) string {
			return `"dependencies":` + g.object(2, func() string { return `[` + quote(g.name()) + `]` })
		},
		func(g generator, _ int) string { return `"default":` + g.value(1) },
		func(g generator, _ int) string { return `"title":"x"` },
		func(g generator, d int) string { return `"items":` + g.schema(d-1) },
		func(g generator, d int) string { return `"items":[` + g.schema(d-1) + `,` + g.schema(d-1) + `]` },
		func(g generator, d int) string { return `"additionalItems":` + g.schema(d-1) },
		func(g generator, d int) string { return `"contains":` + g.schema(d-1) },
		func(g generator, d int) string {
			return `"properties":` + g.object(4, func() string { return g.schema(d - 1) })
		},
		func(g generator, d int) string {
			return `"properties":` + g.object(4, func() string { return g.schema(d - 1) })
		},
		func(g generator, d int) string {
			return `"patternProperties":{` + quote(g.pattern()) + `:` + g.schema(d-1) + `}`
		},
		func(g generator, d int) string { return `"additionalProperties":` + g.schema(d-1) },
		func(g generator, d int) string { return `"propertyNames":` + g.schema(d-1) },
		func(g generator, d int) string {
			return `"dependencies":` + g.object(2, func() string { return g.schema(d - 1) })
		},
		func(g generator, d int) string { return `"allOf":[` + g.schema(d-1) + `,` + g.schema(d-1) + `]` },
		func(g generator, d int) string { return `"anyOf":[` + g.schema(d-1) + `,` + g.schema(d-1) + `]` },
		func(g generator, d int) string { return `"oneOf":[` + g.schema(d-1) + `,` + g.schema(d-1) + `]` },
		func(g generator, d int) string { return `"not":` + g.schema(d-1) },
		func(g generator, d int) string {
			return `"if":` + g.schema(d-1) + g.one(`,"then":`+g.schema(d-1), `,"else":`+g.schema(d-1), ``)
		},
		func(g generator, d int) string { return `"then":` + g.schema(d-1) },
	}
}

// choices returns values that differ for JSON Schema, where 1 equals 1.0.
func (g generator) choices() string {
	return g.one(`1,"a",null`, `0,false,""`, `[],{}`, `"a"`, `1e2,"100",[1.0]`, `9007199254740993,{"a":1.0}`,
		`true,"true",[true]`, `"x-1"`) + "," + g.one(`"ab"`, `-7`, `[{"b":null}]`)
}

func (g generator) types() string {
	one := func() string {
		return g.one(`"null"`, `"boolean"`, `"integer"`, `"number"`, `"string"`, `"array"`, `"object"`)
	}
	if g.chance(70) {
		return one()
	}
	return `[` + g.distinct(3, one) + `]`
}

// reference returns a reference that resolves from anywhere.
func (g generator) reference() string {
	root := ""
	if g.named || g.chance(20) {
		root = g.one("http://example.com/", "/", "./")
	}
	return g.one("#", root+"#", root+"#/definitions/"+g.definition(), root+"#/definitions/"+g.definition(), root+"#n"+
		g.definition(),
		"http://example.com/"+g.definition(), g.definition(), root+"#/definitions/a~1b")
}

func (g generator) schema(depth int) string {
	switch {
	case g.chance(8):
		return g.one("true", "false", "{}")
	case g.chance(12):
		return `{"$ref":` + quote(g.reference()) + g.one(``, `,"type":"null"`) + `}`
	}
	return `{` + strings.Join(g.members(max(depth, 0)), ",") + `}`
}

// members returns one to four different keywords.
func (g generator) members(depth int) []string {
	var all []string
	seen := map[string]bool{}
	for range 1 + g.IntN(4) {
		from := keywords
		if depth == 0 {
			from = keywords[:withoutSchema]
		}
		text := from[g.IntN(len(from))](g, depth)
		var names map[string]json.RawMessage
		if err := json.Unmarshal([]byte("{"+text+"}"), &names); err != nil {
			panic(text)
		}
		fresh := true
		for name := range names {
			fresh = fresh && !seen[name]
		}
		if !fresh {
			continue
		}
		for name := range names {
			seen[name] = true
		}
		all = append(all, text)
	}
	return all
}

// document returns a schema with definitions for references by pointer, anchor and name.
func (g generator) document() string {
	definitions := []string{`"a/b":` + g.schema(1)}
	for i := range 4 {
		anchored := strings.Join(g.members(1), ",")
		named := strings.Join(generator{g.Rand, true}.members(1), ",")
		definitions = append(definitions, fmt.Sprintf(`"d%d":{"$id":"#nd%d",%s},"e%d":{"$id":"d%d",%s}`, i, i, anchored,
			i, i, named))
	}
	root := g.members(3)
	return `{"$id":"http://example.com/",` + strings.Join(append(root, `"definitions":{`+strings.Join(definitions, ",")+
		`}`), ",") + `}`
}

// damage replaces one value in a schema.
func (g generator) damage(document string) string {
	var at []int
	for i := range document {
		if document[i] == ':' && i+1 < len(document) {
			at = append(at, i+1)
		}
	}
	for range 20 {
		start := at[g.IntN(len(at))]
		d := json.NewDecoder(strings.NewReader(document[start:]))
		var old json.RawMessage
		if d.Decode(&old) != nil {
			continue
		}
		if changed := document[:start] + g.value(2) + document[start+int(d.InputOffset()):]; json.Valid(
			[]byte(changed)) {
			return changed
		}
	}
	return document
}
