package param

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const crawler = `{"type":"object","required":["url","depth"],"properties":{
	"url":{"type":"string","format":"uri","description":"Where to begin"},
	"depth":{"type":"integer","default":2},
	"ratio":{"type":"number"},
	"verbose":{"type":"boolean"},
	"tags":{"type":"array","items":{"type":"string"}},
	"ports":{"type":"array","items":{"type":"integer"}},
	"points":{"type":"array","items":{"type":"array","items":{"type":"number"}}},
	"rows":{"type":"array","items":{"type":"object"}},
	"pair":{"type":"array","items":[{"type":"string"},{"type":"integer"}]},
	"opts":{"type":"object"},
	"maybe":{"type":["integer","null"]},
	"either":{"type":["string","integer"]},
	"one_or_many":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},
	"level":{"enum":["low","high",3,null]},
	"fixed":{"const":7},
	"shared":{"$ref":"#/definitions/count~1n"},
	"loop":{"$ref":"#/properties/loop"},
	"implied":{"items":{"type":"integer"}}},
	"patternProperties":{"^n_":{"type":"integer"}},
	"allOf":[{"properties":{"late":{"type":"boolean"}}}],
	"definitions":{"count/n":{"type":"integer"}}}`

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		args string // separated by blanks
		want string // parameters, or what the error says
	}{
		{``, `{}`},
		{`url=https://x.org/?a=b`, `{"url":"https://x.org/?a=b"}`},
		{`url=5`, `{"url":"5"}`},
		{`url=<&>`, `{"url":"<&>"}`},
		{`url=`, `{"url":""}`},
		{`depth=3 url=x`, `{"depth":3,"url":"x"}`},
		{`depth=123456789012345678901234567890`, `{"depth":123456789012345678901234567890}`},
		{`depth=1.0`, `{"depth":1.0}`},
		{`depth=deep`, `parameter depth must be an integer, got "deep"; write depth=5`},
		{`depth=`, `parameter depth must be an integer, got ""; write depth=5`},
		{`depth=007`, `parameter depth must be an integer, got "007"; write depth=5`},
		{`depth=0x10`, `must be an integer`},
		{`depth=NaN`, `must be an integer`},
		{`depth`, `parameter depth needs a value: it is an integer; write depth=…`},
		{`depth=1 depth=2`, `parameter depth is given 2 times, but it is an integer, not an array; give it once`},
		{`ratio=0.10000000000000000000001`, `{"ratio":0.10000000000000000000001}`},
		{`ratio=-1e-9`, `{"ratio":-1e-9}`},
		{`ratio=.5`, `must be a number`},
		{`verbose`, `{"verbose":true}`},
		{`verbose=true`, `{"verbose":true}`},
		{`verbose=No`, `{"verbose":false}`},
		{`verbose=maybe`, `parameter verbose must be a boolean, got "maybe"; write verbose=true`},
		{`tags=a,b`, `{"tags":["a","b"]}`},
		{`tags=a tags=b,c`, `{"tags":["a","b","c"]}`},
		{`tags=`, `{"tags":[]}`},
		{`tags=["a,b","c"]`, `{"tags":["a,b","c"]}`},
		{`tags=5`, `{"tags":["5"]}`},
		{`tags=a url=x tags=b`, `{"tags":["a","b"],"url":"x"}`},
		{`ports=80,443`, `{"ports":[80,443]}`},
		{`ports=80,http`,
			`parameter ports[1] must be an integer, got "http"; write ports=5, or ports:=JSON for the whole array`},
		{`points=[1,2] points=[3,4.50]`, `{"points":[[1,2],[3,4.50]]}`},
		{`rows={"b":1,"a":2}`, `{"rows":[{"b":1,"a":2}]}`},
		{`rows=[{"a":1},{"a":2}]`, `{"rows":[{"a":1},{"a":2}]}`},
		{`pair=a,1`, `{"pair":["a",1]}`},
		{`opts={"z":1,"a":{"n":1.50}}`, `{"opts":{"z":1,"a":{"n":1.50}}}`},
		{`opts=x`, `parameter opts must be an object, got "x"; write opts='{"key":"value"}'`},
		{`maybe=null`, `{"maybe":null}`},
		{`maybe=4`, `{"maybe":4}`},
		{`maybe=x`, `parameter maybe must be null or an integer, got "x"; write maybe=5`},
		{`either=4`, `{"either":"4"}`},
		{`one_or_many=a,b`, `{"one_or_many":"a,b"}`},
		{`one_or_many=a one_or_many=b`, `{"one_or_many":["a","b"]}`},
		{`level=high`, `{"level":"high"}`},
		{`level=3`, `{"level":3}`},
		{`level=null`, `{"level":null}`},
		{`level=other`, `{"level":"other"}`},
		{`fixed=7`, `{"fixed":7}`},
		{`shared=12`, `{"shared":12}`},
		{`loop=12`, `{"loop":"12"}`},
		{`implied=1,2`, `{"implied":[1,2]}`},
		{`n_x=1`, `{"n_x":1}`},
		{`late`, `{"late":true}`},
		{`unknown=5`, `{"unknown":"5"}`},
		{`unknown`, `{"unknown":true}`},
		{`unknown=a unknown=b`, `{"unknown":["a","b"]}`},
		{`unknown:=5.10`, `{"unknown":5.10}`},
		{`depth:="x"`, `{"depth":"x"}`},
		{`a:=1 a:=2`, `parameter a is given 2 times; only a=… can be repeated`},
		{`a=1 a:=2`, `parameter a is given 2 times`},
		{`a:=`, `parameter a: not JSON: it ends too early; for plain text write a=…`},
		{`a:=1]`, `parameter a: must be one JSON value; something follows it at byte 1`},
		{`a:=x`, `for plain text write a=…`},
		{`a:={"b":1,"b":2}`, `has the key "b" twice`},
		{`=x`, `parameter "=x" has no name`},
		{`:=1`, `has no name`},
		{"a=\xff", `is not valid UTF-8`},
		{`sch?me:key=v`, `{"sch?me:key":"v"}`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			got, err := build("", tt.args, crawler)
			if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && got != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func build(base, args, schema string) (string, error) {
	var given []Argument
	for _, arg := range strings.Fields(args) {
		g, err := Parse(arg)
		if err != nil {
			return "", err
		}
		given = append(given, g)
	}
	o, err := Object(nil, given, NewSchema(json.RawMessage(schema)))
	if base != "" {
		members, bad := ParseObject([]byte(base))
		if bad != nil {
			return "", bad
		}
		o, err = Object(members, given, NewSchema(json.RawMessage(schema)))
	}
	return string(o), err
}

func TestBase(t *testing.T) {
	for _, tt := range []struct{ base, args, want string }{
		{`{"z":1.50,"a":12345678901234567890}`, ``, `{"z":1.50,"a":12345678901234567890}`},
		{`{"depth":1,"url":"x"}`, `depth=3 late`, `{"depth":3,"url":"x","late":true}`},
		{`{"a":1,"a":2}`, ``, `has the key "a" twice`},
		{`[1]`, ``, `must be a JSON object such as {"url":"…"}, got [1]`},
		{`# Title`, ``, `not JSON: unexpected '#'`},
		{`{"a":1`, ``, `not JSON: it ends too early`},
		{`{} {}`, ``, `something follows it`},
	} {
		t.Run(tt.base, func(t *testing.T) {
			got, err := build(tt.base, tt.args, crawler)
			if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && got != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestTextIsText(t *testing.T) {
	g, err := Text("depth", "5 ")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Object(nil, []Argument{g}, NewSchema(json.RawMessage(crawler)))
	if err != nil || string(got) != `{"depth":"5 "}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestOddSchemas are schemas that do not help: then every value is a string, and nothing breaks.
func TestOddSchemas(t *testing.T) {
	for _, schema := range []string{
		``, `null`, `true`, `false`, `{}`, `5`, `[]`, `{"properties":5}`, `{"properties":{"n":true}}`,
		`{"properties":{"n":{"type":5}}}`,
		`{"properties":{"n":{"$ref":"https://example.org/x"}}}`, `{"properties":{"n":{"$ref":"#/nowhere/0"}}}`,
		`{"allOf":[{"$ref":"#"}]}`, `{"patternProperties":{"(":{"type":"integer"}}}`,
		`{"anyOf":5,"properties":{"n":{"enum":5}}}`,
	} {
		t.Run(schema, func(t *testing.T) {
			got, err := build("", "n=5", schema)
			if err != nil || got != `{"n":"5"}` {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestFields(t *testing.T) {
	var got []string
	for _, f := range NewSchema(json.RawMessage(crawler)).Fields() {
		got = append(got, fmt.Sprintf("%s %s %v %s %s %s", f.Name, f.Type, f.Required, f.Example, f.Default,
			f.Description))
	}
	want := []string{
		"url string true text  Where to begin", "depth integer true 5 2 ", "ratio number false 0.5  ",
		"verbose boolean false true  ",
		"tags array of string false a,b  ", "ports array of integer false a,b  ",
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("field %d: got %q, want %q", i, got[i], w)
		}
	}
	if last := got[len(got)-1]; last != "late boolean false true  " {
		t.Errorf("last: got %q", last)
	}
}

// TestLimits: what limits a value is named in the schema's words; what holds only in some cases is not.
func TestLimits(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type":"integer","maximum":1000,"minimum":1}`, `minimum 1; maximum 1000`},
		{`{"type":"number","exclusiveMinimum":0,"multipleOf":0.50}`, `exclusiveMinimum 0; multipleOf 0.50`},
		{`{"type":"string","pattern":"^a,b$","format":"uri","minLength":2}`, `minLength 2; pattern ^a,b$; format uri`},
		{`{"enum":["fast","full"]}`, ``}, // its values are shown in place of its type
		{`{"type":"array","minItems":1,"items":{"type":"string","pattern":"^[^,]+$"}}`,
			`minItems 1; each pattern ^[^,]+$`},
		{`{"items":{"enum":[1,2]}}`, `each one of 1, 2`},
		{`{"allOf":[{"minimum":1},{"$ref":"#/definitions/few"}]}`, `minimum 1; maximum 3`},
		{`{"anyOf":[{"minimum":5},{"maximum":0}],"if":{},"then":{"minimum":9}}`, ``},
		{`{"type":"integer"}`, ``},
		{`true`, ``},
	} {
		s := NewSchema(json.RawMessage(`{"definitions":{"few":{"maximum":3}},"properties":{"n":` + tt.schema + `}}`))
		if got := s.Fields()[0].Limits; got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.schema, got, tt.want)
		}
	}
}

// FuzzObject: what comes out is always a JSON object that holds exactly the keys that were typed.
func FuzzObject(f *testing.F) {
	f.Add("depth=3", "tags=a,b")
	f.Add("a:=[1]", "level=x")
	f.Fuzz(func(t *testing.T, one, two string) {
		var given []Argument
		for _, arg := range []string{one, two} {
			if g, err := Parse(arg); err == nil {
				given = append(given, g)
			}
		}
		got, err := Object(nil, given, NewSchema(json.RawMessage(crawler)))
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		for _, g := range given {
			if members[g.Key] == nil {
				t.Errorf("%s has no %q", got, g.Key)
			}
		}
	})
}
