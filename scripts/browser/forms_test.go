package browser

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// hardSchemas are schemas with a valid and an invalid value each.
var hardSchemas = []struct{ schema, good, bad string }{
	{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x"}`, `{"a":1}`},
	{`{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":1}}}`, `{"a":"x"}`, `{"a":""}`},
	{`{"type":"object","required":["a","b"],"properties":{"a":{"type":"integer"}}}`, `{"b":null,"a":1}`, `{"a":1}`},
	{`{"properties":{"a":{"type":"boolean"}}}`, `{"a":false}`, `{"a":"no"}`},
	{`{"type":"object","properties":{"10":{"type":"integer"},"2":{"type":"integer"},"a":{"type":"integer"}}}`,
		`{"a":1,"2":2,"10":3}`, `{"2":1.5}`},
	{`{"type":"object","properties":{"n":{"type":"integer","maximum":9223372036854775807}}}`,
		`{"n":9223372036854775807}`, `{"n":9223372036854775808}`},
	{`{"type":"object","properties":{"n":{"type":"number","multipleOf":0.01}}}`, `{"n":0.10}`, `{"n":0.101}`},
	{`{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":0}}}`, `{"n":1E-5}`, `{"n":0}`},
	{`{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":1.0}`, `{"n":"1"}`},
	{`{"type":"object","properties":{"e":{"enum":["a",1,null,{"x":1.0}]}}}`, `{"e":{"x":1.0}}`, `{"e":"b"}`},
	{`{"type":"object","properties":{"e":{"enum":[1.0,2.50]}}}`, `{"e":2.50}`, `{"e":3}`},
	{`{"type":"object","properties":{"e":{"const":"only"}}}`, `{"e":"only"}`, `{"e":"other"}`},
	{`{"type":"object","properties":{"o":{"oneOf":[{"const":1,"title":"One"},{"const":2}]}}}`, `{"o":2}`, `{"o":3}`},
	{`{"type":"object","properties":{"o":{"anyOf":[{"const":"x"},{"const":"y"}]}}}`, `{"o":"y"}`, `{"o":"z"}`},
	{`{"type":"object","properties":{"o":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`, `{"o":1}`, `{"o":[]}`},
	{`{"type":"object","properties":{"t":{"type":["string","null"]}}}`, `{"t":null}`, `{"t":1}`},
	{`{"type":"object","properties":{"l":{"type":"array","items":{"type":"string","minLength":2}}}}`, `{"l":["ab"]}`,
		`{"l":["ab","a"]}`},
	{`{"type":"object","properties":{"l":{"type":"array","minItems":1,"items":{"type":"integer"}}}}`, `{"l":[1]}`,
		`{"l":[]}`},
	{`{"type":"object","properties":{"l":{"type":"array","uniqueItems":true,"items":{"enum":["a","b"]}}}}`,
		`{"l":["a","b"]}`, `{"l":["a","a"]}`},
	{`{"type":"object","properties":{"l":{"type":"array","items":[{"type":"string"},{"type":"integer"}]}}}`,
		`{"l":["a",1]}`, `{"l":["a","b"]}`},
	{`{"type":"object","properties":{"l":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}}}`,
		`{"l":[[1],[2,3]]}`, `{"l":[[1],["x"]]}`},
	{`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","required":["k"],` +
		`"properties":{"k":{"type":"string"}}}}}}`, `{"l":[{"k":"v"}]}`, `{"l":[{"k":"v"},{}]}`},
	{`{"type":"object","properties":{"l":{"type":"array"}}}`, `{"l":[1,"a",{}]}`, `{"l":{}}`},
	{`{"type":"object","properties":{"o":{"type":"object","required":["p"],"properties":{"p":{"type":"object",` +
		`"required":["q"],"properties":{"q":{"type":"integer"}}}}}}}`, `{"o":{"p":{"q":1}}}`, `{"o":{"p":{"q":"x"}}}`},
	{`{"type":"object","properties":{"o":{"type":"object"}}}`, `{"o":{"any":[1]}}`, `{"o":[]}`},
	{`{"type":"object","properties":{"o":{"type":"object","additionalProperties":{"type":"integer"}}}}`,
		`{"o":{"x":1}}`, `{"o":{"x":"y"}}`},
	{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{"a":"b"}`,
		`{"a":"b","odd one":1}`},
	{`{"type":"object","properties":{"odd key":{"type":"string"},"it's":{"type":"string"}}}`,
		`{"odd key":"x","it's":"y"}`, `{"odd key":1,"it's":2}`},
	{`{"type":"object","properties":{"ä":{"type":"string"},"日本":{"type":"integer"},"":{"type":"integer"}}}`,
		`{"ä":"x","日本":1,"":2}`, `{"ä":1,"日本":"x","":"y"}`},
	{`{"type":"object","properties":{"a":{"$ref":"#/definitions/t"}},"definitions":{"t":{"type":"string",` +
		`"format":"date"}}}`, `{"a":"2026-01-31"}`, `{"a":"tomorrow"}`},
	{`{"type":"object","properties":{"a":{"$ref":"#/definitions/x~1y%25"}},"definitions":{"x/y%":{"type":"integer"}}}`,
		`{"a":1}`, `{"a":"1"}`},
	{`{"type":"object","properties":{"child":{"$ref":"#"},"n":{"type":"integer"}}}`,
		`{"n":1,"child":{"n":2,"child":{}}}`, `{"child":{"child":{"n":"x"}}}`},
	{`{"type":"object","properties":{"u":{"type":"string","format":"uri"},"m":{"type":"string","format":"email"}}}`,
		`{"u":"https://a.example","m":"a@b.example"}`, `{"u":"no","m":"no"}`},
	{`{"type":"object","properties":{"p":{"type":"string","pattern":"^[a-z]+$"}}}`, `{"p":"abc"}`, `{"p":"ABC"}`},
	{`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"dependencies":{"a":["b"]}}`,
		`{"a":"x","b":"y"}`, `{"a":"x"}`},
	{`{"type":"object","properties":{"a":{"type":"integer"}},"if":{"properties":{"a":{"const":1}},"required":["a"]},` +
		`"then":{"required":["b"]}}`, `{"a":2}`, `{"a":1}`},
	{`{"type":"object","properties":{"a":{"type":"integer"}},"allOf":[{"required":["a"]},` +
		`{"properties":{"a":{"minimum":5}}}]}`, `{"a":5}`, `{"a":1}`},
	{`{"type":"object","properties":{"a":{"not":{"type":"string"}}}}`, `{"a":1}`, `{"a":"x"}`},
	{`{"type":"object","minProperties":2,"properties":{"a":{"type":"integer"}}}`, `{"a":1,"z":[]}`, `{"a":1}`},
	{`{"type":"object","propertyNames":{"pattern":"^[a-z]$"},"properties":{"a":{}}}`, `{"a":{"x":[1,2]}}`, `{"A":1}`},
	{`{"type":"object","properties":{"a":true,"b":{}}}`, `{"b":1,"a":"x"}`, ``},
	{`{"type":"object","properties":{"s":{"type":"string","maxLength":5}}}`, "{\"s\":\"a\\nb\\u0041\"}",
		`{"s":"abcdef"}`},
}

// TestForms: for each schema the form keeps a value unchanged, the coordinator accepts it, and every validation error
// is shown at its field.
func TestForms(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents")
	eval[bool](p, `(async () => {
		Object.assign(window, await import(document.querySelector("script[type=module]").src));
		return true;
	})()`)
	for i, tt := range hardSchemas {
		t.Run(tt.schema, func(t *testing.T) {
			name := fmt.Sprintf("form-%d", i)
			s.call(t, "POST", "/agents", `{"name":"`+name+`","type":"autonomous","parameters_schema":`+tt.schema+
				`}`, 201)
			quoted, good := strconv.Quote(tt.schema), strconv.Quote(tt.good)
			// As a form does on a change: every member is set again to its value.
			text := eval[string](p, `(() => {
				const anew = (f, node) => f.kind === "group" && node ? [...f.fields, ...f.others].filter((x) => `+
				`x.value).reduce((o, x) => value.withMember(o, x.name, anew(x, x.value), f.order), node)
					: f.kind === "list" && node ? f.items.reduce((a, x, i) => value.withItem(a, i, anew(x, x.value)),`+
				` node) : node;
				const node = value.read(`+good+`);
				return value.write(anew(plan.plan(`+quoted+`, node), node));
			})()`)
			if text != tt.good {
				t.Errorf("the form sends\n%s\nwant\n%s", text, tt.good)
			}
			s.call(t, "POST", "/runs/validate", `{"agent_name":"`+name+`","parameters":`+text+`}`, 200)
			if tt.bad == "" {
				return
			}
			refused := s.call(t, "POST", "/runs/validate", `{"agent_name":"`+name+`","parameters":`+tt.bad+`}`, 400)
			var body struct {
				Errors []struct{ Path string } `json:"validation_errors"`
			}
			if err := json.Unmarshal([]byte(refused), &body); err != nil || len(body.Errors) == 0 {
				t.Fatalf("%v: %s", err, refused)
			}
			for _, e := range body.Errors {
				at := eval[string](p, `plan.place(plan.leaves(plan.plan(`+quoted+`, value.read(`+strconv.Quote(tt.bad)+
					`))), `+strconv.Quote(e.Path)+`)?.path ?? "nowhere"`)
				if at == "$" && e.Path != "$" && !noFieldFor(e.Path, tt.schema) || at != e.Path &&
					!strings.HasPrefix(e.Path, at) {
					t.Errorf("the error of %s is shown at %s", e.Path, at)
				}
			}
		})
	}
}

// noFieldFor reports whether a path's first name is not in the schema, so that only the whole form can show the
// error.
func noFieldFor(path, schema string) bool {
	name := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("$.[]'", r) })[0]
	return !strings.Contains(schema, strconv.Quote(name)+":")
}
