package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ao/shared/schema"
)

// registry is named schemas, as Embed looks them up.
type registry map[string]string

func (r registry) lookup(name string) (json.RawMessage, error) {
	if name == "unreachable" {
		return nil, errors.New("no answer")
	}
	if text, ok := r[name]; ok {
		return json.RawMessage(text), nil
	}
	return nil, nil
}

var shared = registry{
	"severity": `{"enum":["low","high"]}`,
	"finding":  `{"type":"object","required":["severity"],"properties":{"severity":{"$ref":"schema:severity"}}}`,
	// its references into itself stay such, also where the root is one
	"tree": `{"$ref":"#/definitions/node","definitions":{"node":{"properties":{"of":{"$ref":"#/definitions/node"},` +
		`"n":{"type":"integer"}}}}}`,
	"list": `{"type":"array","items":{"$ref":"#/definitions/item"},"definitions":{"item":{"type":"string"}}}`,
	"owned": `{"$id":"http://example.com/owned","items":{"$ref":"#/definitions/n"},"definitions":{"n":{` +
		`"type":"null"}}}`,
	"twin": `{"$id":"http://example.com/owned","type":"string"}`,
	"absolute": `{"$id":"http://example.com/absolute","items":{"$ref":"http://example.com/absolute#/definitions/n"},` +
		`"definitions":{"n":{"type":"null"}}}`,
	"nothing": `false`,
	"alias":   `{"$ref":"schema:severity"}`,
	"again":   `{"$ref":"schema:alias"}`,
	"one":     `{"properties":{"a":{"$ref":"schema:two"}}}`,
	"two":     `{"items":{"$ref":"schema:one"}}`,
	"self":    `{"$ref":"schema:self"}`,
	"ping":    `{"$ref":"schema:pong"}`,
	"pong":    `{"$ref":"schema:ping"}`,
	"lost":    `{"$ref":"schema:gone"}`,
	"wrong":   `{"type":"objekt"}`,
	"large":   `{"description":"` + strings.Repeat("x", 200<<10) + `"}`,
	"larger":  `{"description":"` + strings.Repeat("x", 100<<10) + `"}`,
}

func TestEmbed(t *testing.T) {
	for _, tt := range []struct{ raw, good, bad string }{
		{`{"$ref":"schema:severity"}`, `"low"`, `"mid"`},
		{`{"$ref":"schema:again"}`, `"low"`, `"mid"`},
		{`{"type":"array","items":{"$ref":"schema:finding"}}`, `[{"severity":"high"}]`, `[{"severity":"x"}]`},
		{`{"properties":{"a":{"$ref":"schema:severity"},"b":{"$ref":"schema:severity"}}}`, `{"a":"low"}`, `{"b":1}`},
		{`{"properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"$ref":"schema:severity"}}}`,
			`{"a":"low"}`, `{"a":1}`},
		{`{"properties":{"a":{"$ref":"schema:tree"}},"definitions":{"node":false}}`, `{"a":{"of":{"n":1}}}`,
			`{"a":{"of":{"of":{"n":"1"}}}}`},
		{`{"not":{"$ref":"schema:list"}}`, `[1]`, `["a"]`},
		{`{"items":{"$ref":"schema:list#/definitions/item"}}`, `["a"]`, `[1]`},
		{`{"items":{"$ref":"schema:owned#/definitions/n"}}`, `[null]`, `[1]`},
		{`{"items":[{"$ref":"schema:owned"},{"$ref":"schema:twin"}]}`, `[[null],"a"]`, `[[null],1]`},
		{`{"items":{"$ref":"schema:absolute"}}`, `[[null]]`, `[[1]]`},
		{`{"properties":{"a":{"$ref":"schema:owned"}}}`, `{"a":[null]}`, `{"a":[1]}`},
		{`{"properties":{"a":{"$ref":"schema:nothing"}}}`, `{}`, `{"a":1}`},
		{`{"$id":"http://example.com/x/","properties":{"a":{"$ref":"schema:severity"}}}`, `{"a":"low"}`, `{"a":1}`},
		// its own definition of that name is another one
		{`{"definitions":{"schema:severity":{"type":"null"}},"items":{"$ref":"schema:severity"}}`, `["low"]`, `[null]`},
		// data is no schema
		{`{"const":{"$ref":"schema:gone"}}`, `{"$ref":"schema:gone"}`, `1`},
		{`{"properties":{"$ref":{"type":"string"}},"examples":[{"$ref":"schema:gone"}]}`, `{"$ref":"schema:x"}`,
			`{"$ref":1}`},
		{`{"type":"string"}`, `"a"`, `1`},
	} {
		t.Run(tt.raw, func(t *testing.T) {
			whole, err := schema.Embed(json.RawMessage(tt.raw), shared.lookup)
			if err != nil {
				t.Fatal(err)
			}
			s, err := schema.Compile(whole)
			if err != nil {
				t.Fatalf("%s: %v", whole, err)
			}
			if wrong := s.Check(json.RawMessage(tt.good)); wrong != nil {
				t.Errorf("%s refuses %s: %v", whole, tt.good, wrong)
			}
			if s.Check(json.RawMessage(tt.bad)) == nil {
				t.Errorf("%s accepts %s", whole, tt.bad)
			}
		})
	}
}

// TestEmbedReads: what models are shown. A schema without named ones keeps its bytes.
func TestEmbedReads(t *testing.T) {
	for raw, want := range map[string]string{
		` {"type": "string"}`:     ` {"type": "string"}`,
		`{"$ref":"schema:again"}`: shared["severity"],
		`{"$ref":"schema:finding"}`: `{"type":"object","required":["severity"],"properties":{"severity":{"$ref":` +
			`"schema:severity"}},"definitions":{"schema:severity":{"$id":"schema:severity","enum":["low","high"]}}}`,
	} {
		if got, err := schema.Embed(json.RawMessage(raw), shared.lookup); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v\nwant %s", raw, got, err, want)
		}
	}
}

func TestEmbedRefuses(t *testing.T) {
	many := make([]string, 65)
	lots := registry{}
	for i := range many {
		many[i] = fmt.Sprintf(`{"$ref":"schema:n%d"}`, i)
		lots[fmt.Sprintf("n%d", i)] = `{}`
		lots[fmt.Sprintf("chain%d", i)] = fmt.Sprintf(`{"items":{"$ref":"schema:chain%d"}}`, i+1)
	}
	const at = "Schema validation error at $.items['$ref']: "
	for _, tt := range []struct {
		of        registry
		raw, want string
	}{
		{shared, `{"items":{"$ref":"schema:gone"}}`,
			at + `'schema:gone' refers to nothing: there is no schema of the name 'gone'`},
		{shared, `{"items":{"$ref":"schema:lost"}}`, at + `'schema:lost' refers to nothing: there is no schema of ` +
			`the ` +
			`name 'gone'`},
		{shared, `{"items":{"$ref":"schema:"}}`, `there is no schema of the name ''`},
		{shared, `{"items":{"$ref":"schema:one"}}`, at + `'schema:one' leads to schemas that refer to each other ` +
			`in a ` +
			`circle: one → two → one`},
		{shared, `{"$ref":"schema:self"}`, `circle: self → self`},
		{shared, `{"$ref":"schema:ping"}`, `circle: ping → pong → ping`},
		{shared, `{"items":{"$ref":"schema:wrong"}}`, at + `'schema:wrong' needs schema 'wrong', which is wrong: ` +
			`Schema ` +
			`validation error at $.type: 'objekt' is not one of`},
		{shared, `{"anyOf":[{"$ref":"schema:large"},{"$ref":"schema:larger"}]}`, `makes the schema too large: with ` +
			`all ` +
			`that it refers to it has at least`},
		{shared, `{"items":{"$ref":"schema:finding#/nowhere"}}`, `refers to nothing: there is no 'nowhere'`},
		{shared, `{"items":{"$ref":"schema:unreachable"}}`, `no answer`},
		{shared, `{"items":{"$ref":"schema:finding"},"type":5}`, `$.type: 5 is not`},
		{shared, `{"items":` + strings.Repeat(`{"items":`, 64) + `{"$ref":"schema:finding"}` + strings.Repeat("}", 65),
			`is nested too deeply`},
		{lots, `{"anyOf":[` + strings.Join(many, ",") + `]}`, `'schema:n64' is one too many: a schema may need at ` +
			`most ` +
			`64 named ones`},
		{lots, `{"items":{"$ref":"schema:chain0"}}`, `is one too many`},
	} {
		t.Run(tt.raw[:min(len(tt.raw), 60)], func(t *testing.T) {
			got, err := schema.Embed(json.RawMessage(tt.raw), tt.of.lookup)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.200s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

// TestEmbedLimitsFirst: a schema beyond the limits is refused before anything in it is looked up. What many references
// lead to is looked up and counted once.
func TestEmbedLimitsFirst(t *testing.T) {
	looked := 0
	count := func(string) (json.RawMessage, error) { looked++; return json.RawMessage(shared["large"]), nil }
	refs := `[` + strings.Repeat(`{"$ref":"schema:large"},`, 10_000)
	if _, err := schema.Embed(json.RawMessage(`{"anyOf":`+refs+`true]}`), count); err == nil || looked != 0 {
		t.Errorf("too many values: %v after %d lookups", err, looked)
	}
	if _, err := schema.Embed(json.RawMessage(`{"anyOf":`+refs[:24*1000+1]+`true]}`),
		count); err != nil || looked != 1 {
		t.Errorf("1000 references to one schema: %v after %d lookups", err, looked)
	}
}
