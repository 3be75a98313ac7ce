package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ao/shared/schema"
)

const (
	crawler = `{"type":"object","required":["url"],"properties":{
		"url":{"type":"string","format":"uri"},
		"depth":{"type":"integer","minimum":1,"maximum":10,"default":3},
		"formats":{"type":"array","items":{"enum":["html","pdf","text"]},"uniqueItems":true,"minItems":1},
		"headers":{"type":"object","patternProperties":{"^X-[A-Za-z-]+$":{"type":"string","maxLength":200}},` +
		`"additionalProperties":false},
		"auth":{"oneOf":[{"$ref":"#/definitions/basic"},{"$ref":"#/definitions/token"}]},
		"since":{"type":["string","null"],"format":"date-time"},
		"rate":{"type":"number","exclusiveMinimum":0,"multipleOf":0.01}},
		"additionalProperties":false,"dependencies":{"since":["url"]},
		"definitions":{"basic":{"type":"object","required":["user","password"],` +
		`"properties":{"user":{"type":"string"},"password":{"type":"string"}}},
			"token":{"type":"object","required":["token"],"properties":{"token":{"type":"string",` +
		`"pattern":"^[0-9a-f]{32}$"}}}}}`
	crawl = `{"url":"https://example.com/a?b=c#d","depth":5,"formats":["html","pdf"],"headers":{"X-Trace":"abc",` +
		`"X-Who":"me"},
		"auth":{"token":"0123456789abcdef0123456789abcdef"},"since":"2026-01-02T03:04:05Z","rate":0.25}`
	rows = `{"type":"array","items":{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer",` +
		`"minimum":0},"name":{"type":"string","minLength":1},
		"tags":{"type":"array","items":{"type":"string"}},"score":{"type":"number"}},"additionalProperties":false}}`
)

func BenchmarkCheck(b *testing.B) {
	thousand := `[` + strings.Repeat(`{"id":12,"name":"somebody","tags":["a","b"],"score":1.25},`, 999) +
		`{"id":0,"name":"x"}]`
	for _, bb := range []struct{ name, schema, value string }{
		{"small", string(schema.Implicit().Raw()), `{"prompt":"Summarise the attached report in three sentences."}`},
		{"mid", crawler, crawl},
		{"array1000", rows, thousand},
		{"invalid", crawler, `{"url":"not-a-url","depth":0,"formats":["x"],"zz":1}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := compile(b, bb.schema)
			value := json.RawMessage(bb.value)
			if got := s.Check(value); (got == nil) == (bb.name == "invalid") {
				b.Fatal(got)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Check(value)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			if _, err := schema.Compile(json.RawMessage(crawler)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		parts := strings.SplitN(crawler, `"type"`, 2)
		for i := 0; b.Loop(); i++ {
			if _, err := schema.Compile(json.RawMessage(parts[0] + `"$comment":"` + string(rune('a'+i%26)) +
				strings.Repeat("x", i/26%4000) + `","type"` + parts[1])); err != nil {
				b.Fatal(err)
			}
		}
	})
}
