package schema_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"ao/shared/schema"
)

func compile(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%s: %v", cut(raw), err)
	}
	return s
}

func cut(s string) string { return s[:min(len(s), 200)] }

// lines writes violations as the tables below have them.
func lines(vs []schema.Violation) string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Path+" | "+v.Message+" | "+v.SchemaPath)
	}
	return strings.Join(out, "\n")
}

// TestMessages has every text that a caller can see.
func TestMessages(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"properties":{"url":{"type":"string","format":"uri"}}}`, `{"url":"not-a-url"}`,
			`$.url | 'not-a-url' is not a valid URI | properties.url.format`},
		{`{"required":["url"]}`, `{}`, `$.url | 'url' is a required property | required`},
		{`{"properties":{"opts":{"required":["a"]}}}`, `{"opts":{}}`,
			`$.opts.a | 'a' is a required property | properties.opts.required`},
		{`{"properties":{},"additionalProperties":false}`, `{"zz":1}`,
			`$.zz | Additional properties are not allowed ('zz' was unexpected) | additionalProperties`},
		{`{"enum":["x","z"]}`, `"y"`, `$ | 'y' is not one of ['x', 'z'] | enum`},
		{`{"type":"string"}`, `123`, `$ | 123 is not of type 'string' | type`},
		{`{"minLength":1}`, `""`, `$ | '' should be non-empty | minLength`},
		{`{"minimum":1}`, `0`, `$ | 0 is less than the minimum of 1 | minimum`},
		{`{"minLength":2}`, `"x"`, `$ | 'x' is too short | minLength`},
		{`{"maxLength":1}`, `"xy"`, `$ | 'xy' is too long | maxLength`},
		{`{"pattern":"^[a-z]+$"}`, `"X"`, `$ | 'X' does not match '^[a-z]+$' | pattern`},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`,
			`$ | 1 is not valid under any of the given schemas | anyOf`},
		{`{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`,
			`$ | 1 is not valid under any of the given schemas | oneOf`},
		{`{"properties":{"items":{"items":{"required":["b"]}}}}`, `{"items":[{}]}`,
			`$.items[0].b | 'b' is a required property | properties.items.items.required`},
		{`{"required":["odd key"]}`, `{}`, `$['odd key'] | 'odd key' is a required property | required`},
		// the rest of draft-07
		{`{"type":["string","null"]}`, `true`, `$ | true is not of type 'string', 'null' | type`},
		{`{"type":"integer"}`, `1.5`, `$ | 1.5 is not of type 'integer' | type`},
		{`{"const":{"a":[1,null]}}`, `{"a":[1]}`, `$ | {'a': [1, null]} was expected | const`},
		{`{"exclusiveMinimum":1}`, `1`, `$ | 1 is less than or equal to the minimum of 1 | exclusiveMinimum`},
		{`{"maximum":1}`, `2`, `$ | 2 is greater than the maximum of 1 | maximum`},
		{`{"exclusiveMaximum":1}`, `1.0`, `$ | 1.0 is greater than or equal to the maximum of 1 | exclusiveMaximum`},
		{`{"multipleOf":0.01}`, `0.075`, `$ | 0.075 is not a multiple of 0.01 | multipleOf`},
		{`{"maxLength":0}`, `"x"`, `$ | 'x' is expected to be empty | maxLength`},
		{`{"minItems":1}`, `[]`, `$ | [] should be non-empty | minItems`},
		{`{"minItems":2}`, `[1]`, `$ | [1] is too short | minItems`},
		{`{"maxItems":1}`, `[1,2]`, `$ | [1, 2] is too long | maxItems`},
		{`{"maxItems":0}`, `[1]`, `$ | [1] is expected to be empty | maxItems`},
		{`{"uniqueItems":true}`, `[1,1.0]`, `$ | [1, 1.0] has non-unique elements | uniqueItems`},
		{`{"uniqueItems":true}`, `[["a","b"],["a\"b"],["a\"1:b"],["a\":b"],{"a":"b"},{"a\"b":""},[1,23],[12,3],"1",1,` +
			`true,"true",null,"n",[],{},""]`, ``},
		{`{"contains":{"type":"null"}}`, `[1]`, `$ | [1] does not contain items matching the given schema | contains`},
		{`{"items":[true],"additionalItems":false}`, `[1,2,"x"]`,
			"$[1] | Additional items are not allowed (2 was unexpected) | additionalItems\n" +
				`$[2] | Additional items are not allowed ('x' was unexpected) | additionalItems`},
		{`{"items":[{"type":"null"}],"additionalItems":{"type":"string"}}`, `[1,2]`,
			"$[0] | 1 is not of type 'null' | items.0.type\n$[1] | 2 is not of type 'string' | additionalItems.type"},
		{`{"minProperties":1}`, `{}`, `$ | {} should be non-empty | minProperties`},
		{`{"minProperties":2}`, `{"a":1}`, `$ | {'a': 1} does not have enough properties | minProperties`},
		{`{"maxProperties":1}`, `{"a":1,"b":false}`,
			`$ | {'a': 1, 'b': false} has too many properties | maxProperties`},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `$.ab | 'ab' is too long | propertyNames.maxLength`},
		{`{"patternProperties":{"^x-":{"type":"null"}}}`, `{"x-a":1}`,
			`$['x-a'] | 1 is not of type 'null' | patternProperties['^x-'].type`},
		{`{"additionalProperties":{"type":"null"}}`, `{"a":1}`,
			`$.a | 1 is not of type 'null' | additionalProperties.type`},
		{`{"dependencies":{"a":["b","c"]}}`, `{"a":1,"c":1}`, `$.b | 'b' is a dependency of 'a' | dependencies.a`},
		{`{"dependencies":{"a":{"required":["b"]}}}`, `{"a":1}`,
			`$.b | 'b' is a required property | dependencies.a.required`},
		{`{"allOf":[true,{"type":"null"}]}`, `1`, `$ | 1 is not of type 'null' | allOf.1.type`},
		{`{"oneOf":[true,true]}`, `1`, `$ | 1 is valid under more than one of the given schemas | oneOf`},
		{`{"not":{"type":"integer"}}`, `1`, `$ | 1 should not be valid under {'type': 'integer'} | not`},
		{`{"if":true,"then":{"type":"null"}}`, `1`, `$ | 1 is not of type 'null' | then.type`},
		{`{"if":false,"else":{"type":"null"}}`, `1`, `$ | 1 is not of type 'null' | else.type`},
		{`{"properties":{"a":{"$ref":"#/definitions/n"}},"definitions":{"n":{"type":"null"}}}`, `{"a":1}`,
			`$.a | 1 is not of type 'null' | properties.a.$ref.type`},
		// a pointer through a schema with a name of its own: what it leads to is relative to that
		{`{"$id":"http://x/","items":{"$ref":"#/definitions/d/$defs/e"},"definitions":{"d":{"$id":"d",` +
			`"$defs":{"e":{"$ref":"#/definitions/f"}},"definitions":{"f":{"type":"null"}}}}}`,
			`[1]`, `$[0] | 1 is not of type 'null' | items.$ref.$ref.type`},
		{`false`, `1`, `$ | False schema does not allow 1 | `},
		{`{"properties":{"a":false}}`, `{"a":"x"}`, `$.a | False schema does not allow 'x' | properties.a`},
		// formats
		{`{"format":"uri-reference"}`, `"\\"`, `$ | '\\' is not a valid URI reference | format`},
		{`{"format":"iri"}`, `"x"`, `$ | 'x' is not a valid IRI | format`},
		{`{"format":"iri-reference"}`, `" "`, `$ | ' ' is not a valid IRI reference | format`},
		{`{"format":"uri-template"}`, `"{"`, `$ | '{' is not a valid URI template | format`},
		{`{"format":"email"}`, `"x"`, `$ | 'x' is not a valid email address | format`},
		{`{"format":"idn-email"}`, `"x"`, `$ | 'x' is not a valid internationalized email address | format`},
		{`{"format":"hostname"}`, `"-"`, `$ | '-' is not a valid hostname | format`},
		{`{"format":"idn-hostname"}`, `"-"`, `$ | '-' is not a valid internationalized hostname | format`},
		{`{"format":"ipv4"}`, `"1.2.3"`, `$ | '1.2.3' is not a valid IPv4 address | format`},
		{`{"format":"ipv6"}`, `"1.2.3.4"`, `$ | '1.2.3.4' is not a valid IPv6 address | format`},
		{`{"format":"date"}`, `"2026-02-30"`, `$ | '2026-02-30' is not a valid date | format`},
		{`{"format":"time"}`, `"12:00"`, `$ | '12:00' is not a valid time | format`},
		{`{"format":"date-time"}`, `"today"`, `$ | 'today' is not a valid date-time | format`},
		{`{"format":"regex"}`, `"("`, `$ | '(' is not a valid regular expression | format`},
		{`{"format":"json-pointer"}`, `"a"`, `$ | 'a' is not a valid JSON pointer | format`},
		{`{"format":"relative-json-pointer"}`, `"a"`, `$ | 'a' is not a valid relative JSON pointer | format`},
		{`{"format":"uuid"}`, `"a"`, `$ | 'a' is not a valid UUID | format`},
		{`{"format":"of-our-own"}`, `"a"`, ``},
		// how values and names are written
		{`{"type":"null"}`, `"it's"`, `$ | "it's" is not of type 'null' | type`},
		{`{"type":"null"}`, `"it's \"so\""`, `$ | 'it\'s "so"' is not of type 'null' | type`},
		{`{"type":"null"}`, `"a\nb\t\u001b[31m\u200b\u202e\\"`,
			`$ | 'a\nb\t\x1b[31m\u200b\u202e\\' is not of type 'null' | type`},
		{`{"type":"null"}`, `{"a":[true,false,null,1.50,1E2]}`,
			`$ | {'a': [true, false, null, 1.50, 1E2]} is not of type 'null' | type`},
		{`{"type":"null"}`, `"` + strings.Repeat("é", 300) + `"`, `$ | '` + strings.Repeat("é", 199) +
			`…[cut] is not of type 'null' | type`},
		{`{"type":"null"}`, `[` + strings.Repeat(`"abcdefgh",`, 5000) + `1]`, `$ | [` +
			strings.Repeat(`'abcdefgh', `, 16) + `'abcdef…[cut] is not of type 'null' | type`},
		{`{"additionalProperties":false}`, `{"it's":1}`,
			`$['it\'s'] | Additional properties are not allowed ("it's" was unexpected) | additionalProperties`},
		{`{"additionalProperties":false}`, `{"a']['b\n\u200b":1}`,
			`$['a\'][\'b\n\u200b'] | Additional properties are ` +
				`not allowed ("a']['b\n\u200b" was unexpected) | additionalProperties`},
		{`{"additionalProperties":false}`, `{"":1}`,
			`$[''] | Additional properties are not allowed ('' was unexpected) | additionalProperties`},
		{`{"additionalProperties":false}`, `{"größe_1":1}`,
			`$.größe_1 | Additional properties are not allowed ('größe_1' was unexpected) | additionalProperties`},
		{`{"properties":{"odd key":{"properties":{"b":{"type":"null"}}}}}`, `{"odd key":{"b":1}}`,
			`$['odd key'].b | 1 is not of type 'null' | properties['odd key'].properties.b.type`},
		// order: by path, arrays by position, then by schema path
		{`{"items":{"type":"null"}}`, `[null,1,null,null,null,null,null,null,null,null,2]`,
			"$[1] | 1 is not of type 'null' | items.type\n$[10] | 2 is not of type 'null' | items.type"},
		{`{"properties":{"b":{"type":"null"},"a":{"type":"null","minimum":3}},"required":["c"],"minProperties":3}`,
			`{"b":1,"a":2}`,
			"$ | {'b': 1, 'a': 2} does not have enough properties | minProperties\n$.a | 2 is less than the minimum " +
				"of 3 | properties.a.minimum\n" +
				"$.a | 2 is not of type 'null' | properties.a.type\n$.b | 1 is not of type 'null' | " +
				"properties.b.type\n$.c | 'c' is a required property | required"},
		// values that are none
		{`true`, ``, `$ | is not readable as JSON: it ends too early | `},
		{`true`, `{"a":1}}`, `$ | is not readable as JSON: unexpected '}' at byte 7 | `},
		{`true`, "\"\xff\"", `$ | is not readable as JSON: it is not valid UTF-8 | `},
		{`true`, `{"a":{"b":1,"b":2}}`, `$.a.b | 'b' appears twice in this object | `},
		{`true`, `{"a":1,"\u0061":2}`, `$.a | 'a' appears twice in this object | `},
	} {
		t.Run(cut(tt.schema+" "+tt.value), func(t *testing.T) {
			if got := lines(compile(t, tt.schema).Check(json.RawMessage(tt.value))); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestSchemaErrors: what an author reads; the path leads into the schema.
func TestSchemaErrors(t *testing.T) {
	const declared = `"$schema":"https://json-schema.org/draft/2020-12/schema"`
	for _, tt := range []struct{ schema, want string }{
		{`{"properties":[]}`, `$.properties: [] is not of type 'object'`},
		{`[]`, `$: [] is not of type 'object', 'boolean'`},
		{`null`, `$: null is not of type 'object', 'boolean'`},
		{``, `$: is not readable as JSON: it ends too early`},
		{`{"type":"strin"}`,
			`$.type: 'strin' is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']`},
		{`{"type":[]}`, `$.type: [] should be non-empty`},
		{`{"type":["null","null"]}`, `$.type: ['null', 'null'] has non-unique elements`},
		{`{"type":["null",1]}`,
			`$.type[1]: 1 is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']`},
		{`{"type":null}`, `$.type: null is not of type 'string', 'array'`},
		{`{"properties":{"a":null}}`, `$.properties.a: null is not of type 'object', 'boolean'`},
		{`{"required":"a"}`, `$.required: 'a' is not of type 'array'`},
		{`{"required":["a",1]}`, `$.required[1]: 1 is not of type 'string'`},
		{`{"required":["a","a"]}`, `$.required: ['a', 'a'] has non-unique elements`},
		{`{"multipleOf":0}`, `$.multipleOf: 0 is less than or equal to the minimum of 0`},
		{`{"minLength":-1}`, `$.minLength: -1 is less than the minimum of 0`},
		{`{"minLength":1.5}`, `$.minLength: 1.5 is not of type 'integer'`},
		{`{"minLength":"1"}`, `$.minLength: '1' is not of type 'integer'`},
		{`{"maximum":"1"}`, `$.maximum: '1' is not of type 'number'`},
		{`{"exclusiveMinimum":true}`, `$.exclusiveMinimum: true is not of type 'number'`},
		{`{"uniqueItems":1}`, `$.uniqueItems: 1 is not of type 'boolean'`},
		{`{"enum":[]}`, `$.enum: [] should be non-empty`},
		{`{"enum":[1,1.0]}`, `$.enum: [1, 1.0] has non-unique elements`},
		{`{"enum":1}`, `$.enum: 1 is not of type 'array'`},
		{`{"anyOf":[]}`, `$.anyOf: [] should be non-empty`},
		{`{"anyOf":{}}`, `$.anyOf: {} is not of type 'array'`},
		{`{"items":[]}`, `$.items: [] should be non-empty`},
		{`{"items":"x"}`, `$.items: 'x' is not of type 'object', 'boolean'`},
		{`{"dependencies":{"a":1}}`, `$.dependencies.a: 1 is not of type 'object', 'boolean'`},
		{`{"dependencies":{"a":[1]}}`, `$.dependencies.a[0]: 1 is not of type 'string'`},
		{`{"format":1}`, `$.format: 1 is not of type 'string'`},
		{`{"$ref":1}`, `$['$ref']: 1 is not of type 'string'`},
		{`{"$ref":"#","type":1}`, `$.type: 1 is not of type 'string', 'array'`},
		{`{"pattern":"("}`, `$.pattern: '(' is not a valid regular expression: a ( is not closed`},
		{`{"patternProperties":{"[":true}}`,
			`$.patternProperties['[']: '[' is not a valid regular expression: a [ is not closed`},
		{`{"pattern":"(?=a)"}`,
			`$.pattern: '(?=a)' uses a lookahead, which patterns cannot do here: they are matched ` +
				`in linear time, by RE2`},
		{`{"pattern":"(?<!a)b"}`, `$.pattern: '(?<!a)b' uses a lookbehind, which patterns cannot do here: they are ` +
			`matched in linear time, by RE2`},
		{`{"pattern":"(a)\\1"}`, `$.pattern: '(a)\\1' uses a backreference, which patterns cannot do here: they are ` +
			`matched in linear time, by RE2`},
		{`{"pattern":"a{1001}"}`, `$.pattern: 'a{1001}' uses more than 1000 repetitions, which patterns cannot do ` +
			`here: they are matched in linear time, by RE2`},
		{`{"pattern":"(a{100}){100}"}`,
			`$.pattern: '(a{100}){100}' is too large for a pattern once its repetitions are written out`},
		{`{"pattern":"` + strings.Repeat("é", 513) + `"}`, `$.pattern: '` + strings.Repeat("é", 199) +
			`…[cut] is too long for a pattern: 513 characters, at most 512 are allowed`},
		{`{"a":1,"a":2}`, `$.a: 'a' appears twice in this object`},
		{`{"minimum":1e400}`,
			`$.minimum: 1e400 is out of range for a number: its exponent must lie between -308 and 308`},
		// references
		{`{"properties":{"a":{"$ref":"http://example.com/s.json"}}}`,
			`$.properties.a['$ref']: 'http://example.com/s.json' refers to something outside this schema: nothing is ` +
				`fetched, only references into the schema itself (#…) are followed`},
		{`{"$ref":"file:///etc/passwd"}`, `$['$ref']: 'file:///etc/passwd' refers to something outside this schema: ` +
			`nothing is fetched, only references into the schema itself (#…) are followed`},
		{`{"$ref":"other.json"}`, `$['$ref']: 'other.json' refers to something outside this schema: nothing is ` +
			`fetched, only references into the schema itself (#…) are followed`},
		{`{"$ref":"#/definitions/a"}`,
			`$['$ref']: '#/definitions/a' refers to nothing: there is no 'definitions' in $`},
		{`{"definitions":{},"$ref":"#/definitions/a"}`,
			`$['$ref']: '#/definitions/a' refers to nothing: there is no 'a' in $.definitions`},
		{`{"items":[true],"not":{"$ref":"#/items/01"}}`,
			`$.not['$ref']: '#/items/01' refers to nothing: there is no '01' in $.items`},
		{`{"$ref":"#a"}`, `$['$ref']: '#a' refers to nothing: no schema here has the $id '#a'`},
		{`{"title":"x","$ref":"#/title"}`,
			`$['$ref']: '#/title' does not refer to a schema: $.title is no object or boolean`},
		{`{"$ref":"#/%zz"}`, `$['$ref']: '#/%zz' is not a valid URI reference`},
		{`{"$ref":"#"}`, `$: refers to itself without going deeper into the value: checking it would never end`},
		{`{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"}]}}}`,
			`$.properties.a.anyOf[0]: refers to itself without going deeper into the value: checking ` +
				`it would never end`},
		{`{"definitions":{"a":{"$id":"#x"},"b":{"$id":"#x"}}}`,
			`$.definitions.b['$id']: '#x' is the $id of $.definitions.a already`},
		{`{"items":{"$ref":"schema:findings"}}`, `$.items['$ref']: 'schema:findings' refers to a named schema, and ` +
			`there is none where this schema is used`},
		// later drafts
		{`{` + declared + `,"prefixItems":[{"type":"null"}]}`, `$.prefixItems: is not known in draft-07, the only ` +
			`draft supported; use items with an array, or remove the $schema that declares a later draft`},
		{`{` + declared + `,"properties":{"a":{"$ref":"#/$defs/x","maxLength":1}},"$defs":{"x":{}}}`,
			`$.properties.a.maxLength: has no effect beside $ref in draft-07, the only draft supported; put the $ref ` +
				`into allOf, or remove the $schema that declares a later draft`},
	} {
		t.Run(cut(tt.schema), func(t *testing.T) {
			_, err := schema.Compile(json.RawMessage(tt.schema))
			bad, ok := errors.AsType[*schema.Error](err)
			if !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			if got := bad.Error(); got != "Schema validation error at "+tt.want {
				t.Errorf("got\n%s\nwant\nSchema validation error at %s", got, tt.want)
			}
		})
	}
}

// TestAllSchemaErrors: everything that is wrong is listed at once, on one line the first.
func TestAllSchemaErrors(t *testing.T) {
	_, err := schema.Compile(json.RawMessage(`{"type":1,"properties":{"a":{"minLength":-1},"b":3}}`))
	bad, ok := errors.AsType[*schema.Error](err)
	if !ok || len(bad.Violations) != 3 {
		t.Fatal(err)
	}
	if got, want := err.Error(),
		`Schema validation error at $.type: 1 is not of type 'string', 'array' (and 2 more)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAccepted: schemas that other validators stumble over.
func TestAccepted(t *testing.T) {
	for _, raw := range []string{
		`true`, `false`, `{}`, ` {"type" : "object"} `, `{"minLength":2.0}`, `{"minLength":1e2}`, `{"required":[]}`,
		`{"definitions":{}}`,
		`{"$id":"#foo"}`, `{"$id":"http://example.com/a","$ref":"#/definitions/a","definitions":{"a":{}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"$schema":"http://json-schema.org/draft-07/schema"}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
			`"properties":{"a":{"$ref":"#/$defs/A","description":"x"}},"$defs":{"A":{}}}`,
		`{"properties":{"child":{"$ref":"#"}}}`, `{"$ref":"http://json-schema.org/draft-07/schema#"}`,
		`{"prefixItems":[1]}`,
		`{"properties":{"":{},"$ref":{"type":"string"},"required":{}}}`, `{"format":"unknown"}`, `{"pattern":""}`,
		`{"unknown":{"type":12}}`,
		// as jsonschema.net and others write them
		`{"$id":"http://example.com/root.json","properties":{"a":{"$id":"#/properties/a","type":"boolean"},` +
			`"b":{"$id":"#/properties/a"},"c":{"$id":"/properties/c"},"d":{"$ref":"#/properties/a"}}}`,
	} {
		if s := compile(t, raw); string(s.Raw()) != raw {
			t.Errorf("Raw gives %s, want %s", s.Raw(), raw)
		}
	}
}

func TestBuiltin(t *testing.T) {
	const contract = `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},` +
		`"additionalProperties":false}`
	if got := string(schema.Implicit().Raw()); got != contract {
		t.Errorf("got %s, want %s", got, contract)
	}
	for _, tt := range []struct{ value, want string }{
		{`{"prompt":"x"}`, ``},
		{`{"prompt":""}`, `$.prompt | '' should be non-empty | properties.prompt.minLength`},
		{`{}`, `$.prompt | 'prompt' is a required property | required`},
		{`{"prompt":"x","b":1}`,
			`$.b | Additional properties are not allowed ('b' was unexpected) | additionalProperties`},
		{`null`, `$ | null is not of type 'object' | type`},
	} {
		if got := lines(schema.Implicit().Check(json.RawMessage(tt.value))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.value, got, tt.want)
		}
	}
	if got := schema.Object().Check(json.RawMessage(`{"a":1}`)); got != nil {
		t.Error(got)
	}
	if got := lines(schema.Object().Check(json.RawMessage(`[]`))); got != `$ | [] is not of type 'object' | type` {
		t.Error(got)
	}
}

// TestRawIsOwn: neither what was given to Compile nor what Raw gives is shared with the schema.
func TestRawIsOwn(t *testing.T) {
	given := []byte(`{"type":"string"}`)
	s, err := schema.Compile(given)
	if err != nil {
		t.Fatal(err)
	}
	given[2] = 'X'
	s.Raw()[2] = 'Y'
	if got := string(s.Raw()); got != `{"type":"string"}` {
		t.Error(got)
	}
	again := compile(t, `{"type":"string"}`)
	if !reflect.DeepEqual(s, again) {
		t.Error("compiling again gives another schema")
	}
}
