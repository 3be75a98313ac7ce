package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/shared/schema"
)

// What strangers may send to hurt the process. Each pair must be answered within the limits, whatever the answer; want
// is a part of it.
const (
	hostileTime   = 3 * time.Second
	hostileMemory = 400 << 20
)

// timeLimit is longer under the race detector.
func timeLimit() time.Duration {
	if raceEnabled {
		return 10 * hostileTime
	}
	return hostileTime
}

func deep(open, inside, close string, n int) string {
	return strings.Repeat(open, n) + inside + strings.Repeat(close, n)
}

// doubling is a small schema whose references double n times.
func doubling(n int, keyword, leaf string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"definitions":{"d0":%s`, leaf)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, `,"d%d":{"%s":[{"$ref":"#/definitions/d%d"},{"$ref":"#/definitions/d%d"}]}`, i, keyword, i-1,
			i-1)
	}
	fmt.Fprintf(&b, `},"allOf":[{"$ref":"#/definitions/d%d"}]}`, n)
	return b.String()
}

func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"definitions":{"d0":{"items":{"$ref":"#"}}`)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, `,"d%d":{"$ref":"#/definitions/d%d"}`, i, i-1)
	}
	fmt.Fprintf(&b, `},"allOf":[{"$ref":"#/definitions/d%d"}]}`, n)
	return b.String()
}

func many(n int, format, sep string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

var hostile = []struct {
	name, schema, value string
	want                string // in the schema's error, or in the violations; "" if the value fits
}{
	{"itself", `{"$ref":"#"}`, `1`, "refers to itself"},
	{"itself by its own name", `{"$id":"http://x/y","$ref":"#"}`, `1`, "refers to itself"},
	{"two that lead to each other", `{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}},` +
		`"items":{"$ref":"#/definitions/a"}}`, `[1]`, "refers to itself"},
	{"through not", `{"not":{"$ref":"#"}}`, `1`, "refers to itself"},
	{"through if", `{"if":{"$ref":"#"},"then":true}`, `1`, "refers to itself"},
	{"through then", `{"if":true,"then":{"$ref":"#"}}`, `1`, "refers to itself"},
	{"through dependencies", `{"dependencies":{"a":{"$ref":"#"}}}`, `{"a":1}`, "refers to itself"},
	{"through oneOf", `{"oneOf":[true,{"allOf":[{"$ref":"#"}]}]}`, `1`, "refers to itself"},
	{"doubling allOf", doubling(30, "allOf", `{"type":"integer"}`), `1`, "too many steps"},
	{"doubling anyOf", doubling(30, "anyOf", `{"type":"string"}`), `1`, "too many steps"},
	{"doubling oneOf", doubling(30, "oneOf", `{"type":"string"}`), `1`, "too many steps"},
	{"doubling over a list", doubling(12, "allOf", `{"items":{"$ref":"#"}}`), deep("[", "1", "]", 60),
		"too many steps"},
	{"a long chain", chain(5000), deep("[", "1", "]", 60), "chain of more than 100"},
	{"a chain as long as may be", chain(90), deep("[", "1", "]", 64), ""},
	{"deep schema", deep(`{"items":`, "true", "}", 65), `1`, "nested too deeply"},
	{"very deep schema", deep(`{"items":`, "true", "}", 20_000), `1`, "not readable"},
	{"deep schema that is none", strings.Repeat("[", 200_000), `1`, "not readable"},
	{"deep value", `true`, deep("[", "1", "]", 65), "nested too deeply"},
	{"very deep value", `true`, deep("[", "", "]", 9_999), "nested too deeply"},
	{"abyss", `true`, strings.Repeat("[", 2<<20), "not readable"},
	{"large schema", `{"title":"` + strings.Repeat("x", 256<<10) + `"}`, `1`, "too large: 262156 bytes"},
	{"many values in a schema", `{"enum":[` + many(20_000, "%d", ",") + `]}`, `1`, "too many values: at most 20000"},
	{"many subschemas", `{"properties":{` + many(3_000, `"p%d":{"type":"string","minLength":1}`, ",") +
		`}}`, `{"p2999":""}`, "$.p2999 | '' should be non-empty"},
	{"many required", `{"required":[` + many(10_000, `"p%d"`, ",") + `]}`, `{` + many(100_000, `"q%d":1`, ",") +
		`}`, "is a required property"},
	{"large value", `true`, `"` + strings.Repeat("x", 4<<20) + `"`, "too large: 4194306 bytes"},
	{"many values", `true`, `[` + strings.Repeat("1,", 200_000) + `1]`, "too many values: at most 200000"},
	{"large honest value", `{"items":{"type":"integer","minimum":0,"maximum":5,"multipleOf":1}}`, `[` +
		strings.Repeat("1,", 199_990) + `1]`, ""},
	{"large honest table", `{"items":{"type":"object","required":["a","b"],"properties":{"a":{"type":"string",` +
		`"pattern":"^[a-z]+$"},"b":{"anyOf":[{"type":"null"},{"type":"number"}]}},"additionalProperties":false}}`,
		`[` + strings.Repeat(`{"a":"xyz","b":1},`, 30_000) + `{"a":"xyz","b":null}]`, ""},
	{"large honest text", `{"pattern":"^[A-Za-z0-9+/]*={0,2}$"}`, `"` + strings.Repeat("QUJD", 1<<18) + `"`, ""},
	{"all wrong", `{"items":{"type":"string"}}`, `[` + strings.Repeat("1,", 190_000) + `1]`, "1 is not of type"},
	{"all different", `{"uniqueItems":true}`, `[` + many(100_000, "%d", ",") + `]`, ""},
	{"all the same but one", `{"uniqueItems":true}`, `[` + strings.Repeat("[],", 100_000) + `1]`, "non-unique"},
	{"unique large objects", `{"uniqueItems":true}`, `[{` + many(50_000, `"a%d":1`, ",") + `},{` +
		many(50_000, `"b%d":1`, ",") + `}]`, ""},
	{"enum []", `{"enum":[]}`, `1`, "should be non-empty"},
	{"type []", `{"type":[]}`, `1`, "should be non-empty"},
	{"null for a property", `{"properties":{"a":null}}`, `1`, "null is not of type"},
	{"null for everything",
		`{"properties":null,"items":null,"enum":null,"required":null,"$ref":null,"type":null,"pattern":null}`, `1`,
		"null is not of type"},
	{"$id of a fragment", `{"$id":"#foo"}`, `1`, ""},
	{"$id of nothing", `{"$id":""}`, `1`, ""},
	{"$id of noise", `{"$id":"::\u0000%zz"}`, `1`, "is not a valid URI reference"},
	{"many $id", `{"definitions":{` + many(5_000, `"d%d":{"$id":"http://x/%[1]d"}`, ",") +
		`},"items":{"$ref":"http://x/4999"}}`, `[1]`, ""},
	{"exponent", `{"multipleOf":1e-308}`, `1e308`, ""},
	{"huge exponent", `true`, `1e999999999`, "out of range"},
	{"huge negative exponent", `true`, `[1e-99999999999999999999]`, "out of range"},
	{"exponent in a schema", `{"maximum":1e999999999}`, `1`, "out of range"},
	{"length beyond any", `{"maxLength":1e308,"minItems":1e300}`, `[1]`, "is too short"},
	{"long number", `true`, strings.Repeat("9", 65), "too long for a number"},
	{"many large numbers", `{"items":{"multipleOf":1.2345678901234567890123456789012345678901234567890123456789}}`,
		`[` + strings.Repeat("1.23456789012345678901234567890123456789012345678901e308,", 50_000) + `1]`,
		"not a multiple"},
	{"many patterns", `{"patternProperties":{` + many(101, `"^a%d$":true`, ",") + `}}`, `1`, "too many patterns"},
	{"patterns × members", `{"patternProperties":{` + many(100, `"^(a|b|c)*%d$":true`, ",") + `}}`, `{` +
		many(20_000, `"aaaaaaaaaaaaaaaaaaaa%d":1`, ",") + `}`, "too many steps"},
	{"pattern that explodes elsewhere", `{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 100_000) +
		`b"`, "does not match"},
	{"pattern of many steps", `{"pattern":"(x+x+)+y{500}"}`, `"` + strings.Repeat("x", 4_000_000) +
		`"`, "too many steps"},
	{"pattern as dear as may be", `{"pattern":"^(.{0,60}a){15}b"}`, `"` + strings.Repeat("a", 1_600) +
		`"`, "does not match"},
	{"patterns of large sets", `{"patternProperties":{` + many(100, `"%d`+strings.Repeat(`\\P{Alphabetic}`, 32)+
		`":true`, ",") + `}}`, `{"a":1}`, "too large for a pattern, together"},
	{"pattern too long", `{"pattern":"` + strings.Repeat("a", 513) + `"}`, `1`, "too long for a pattern"},
	{"parentheses in a format", `{"format":"regex"}`, `"` + strings.Repeat("(", 1_000_000) +
		`"`, "is not a valid regular expression"},
	{"properties in a format", `{"format":"regex"}`, `"` + strings.Repeat(`\\p{Alphabetic}`, 50_000) + `"`, ""},
	{"a long hostname", `{"format":"idn-hostname"}`, `"` + strings.Repeat("ü.", 200_000) + `"`, "is not a valid"},
	{"a long label", `{"format":"hostname"}`, `"xn--` + strings.Repeat("9", 1_000_000) + `"`, "is not a valid"},
	{"a long template", `{"format":"uri-template"}`, `"` + strings.Repeat("{a}", 200_000) + `"`, ""},
	{"a long email", `{"format":"email"}`, `"` + strings.Repeat("a@", 200_000) + `"`, "is not a valid"},
	{"all formats", `{"items":{"allOf":[` + formats() + `]}}`, `["` + strings.Repeat("é/{1.:", 20_000) +
		`"]`, "is not a valid"},
	{"members given twice", `true`, `{"a":1,"a":2}`, "appears twice"},
	{"a member given twice among many", `true`, `{` + many(50_000, `"a%d":1`, ",") + `,"a7":1}`, "appears twice"},
	{"a keyword given twice", `{"type":"string","type":"null"}`, `1`, "appears twice"},
	{"half a character", `{"const":"\ud800"}`, `"\ud800"`, ""},
	{"zeros", `{"const":"a\u0000b"}`, `"a\u0000b"`, ""},
	{"long names", `{"additionalProperties":false}`, `{"` + strings.Repeat("k", 1<<20) + `":1}`, "…[cut]"},
	{"long names, deep", `{"additionalProperties":{"$ref":"#"},"type":"object"}`, deep(`{"`+strings.Repeat("k", 60_000)+
		`":`, "1", "}", 60), "…[cut]"},
	{"not not not", deep(`{"not":`, "true", "}", 63), `1`, "should not be valid"},
	{"empty", ``, ``, "not readable"},
	{"only space", " \n", " ", "not readable"},
	{"a byte order mark", "\ufeff{}", `1`, "not readable"},
	{"two documents", `{} {}`, `1 2`, "not readable"},
}

func formats() string {
	var all []string
	for _, f := range []string{"date", "time", "date-time", "email", "idn-email", "hostname", "idn-hostname", "ipv4",
		"ipv6", "uri", "uri-reference", "iri",
		"iri-reference", "uri-template", "json-pointer", "relative-json-pointer", "regex", "uuid"} {
		all = append(all, `{"format":"`+f+`"}`)
	}
	return strings.Join(all, ",")
}

func TestHostile(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			got := answer(tt.schema, tt.value)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", cut(got), tt.want)
			}
			if strings.Contains(got, "the validator failed") {
				t.Errorf("it panicked inside: %s", cut(got))
			}
			if len(got) > 1<<20 {
				t.Errorf("the answer has %d bytes", len(got))
			}
			if took > timeLimit() {
				t.Errorf("took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > hostileMemory {
				t.Errorf("allocated %d MiB", used>>20)
			}
			if testing.Verbose() {
				t.Logf("%v, %d KiB", took, (after.TotalAlloc-before.TotalAlloc)>>10)
			}
		})
	}
}

// answer is what a caller reads in the end: the schema's errors, else the value's.
func answer(raw, value string) string {
	s, err := schema.Compile(json.RawMessage(raw))
	if err != nil {
		return err.Error()
	}
	return lines(s.Check(json.RawMessage(value)))
}

// TestAtMostAHundred: a list of errors is cut at a hundred, of the value and of the schema.
func TestAtMostAHundred(t *testing.T) {
	s := compile(t, `{"items":{"type":"string"}}`)
	if got := s.Check(json.RawMessage(`[` + strings.Repeat("1,", 500) + `1]`)); len(got) != 100 {
		t.Errorf("%d violations", len(got))
	}
	_, err := schema.Compile(json.RawMessage(`{"required":[` + many(500, "%d", ",") + `]}`))
	if bad, ok := err.(*schema.Error); !ok || len(bad.Violations) != 100 {
		t.Error(err)
	}
}

// TestFirstUseTogether: even the first use of a schema writes nothing that others read.
func TestFirstUseTogether(t *testing.T) {
	s := compile(t, `{"$comment":"used nowhere else","properties":{"a":{"$ref":"#/definitions/n"}},`+
		`"definitions":{"n":{"enum":[1,{"b":2}]}}}`)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			<-start
			if got := s.Check(json.RawMessage(`{"a":{"b":2.0}}`)); got != nil {
				t.Error(got)
			}
		})
	}
	close(start)
	wg.Wait()
}

// TestTogether: schemas with names of their own are compiled and used at once, and none answers another's references.
func TestTogether(t *testing.T) {
	const schemas, rounds = 64, 40
	var wg sync.WaitGroup
	for i := range schemas {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			types := []string{`"string"`, `"integer"`, `"boolean"`, `"null"`}
			values := []string{`"x"`, `1`, `true`, `null`}
			mine := i % len(types)
			// All have the same names; only the type behind them differs, and in half of them the text, so that both
			// meet in the cache.
			raw := fmt.Sprintf(
				`{"$id":"http://example.com/root","$comment":"%d","properties":{"a":{"$ref":"item#it"},`+
					`"b":{"$ref":"#/definitions/x"}},
				"definitions":{"x":{"$id":"item","definitions":{"y":{"$id":"#it","type":%s}},"type":%s}}}`, i/8,
				types[mine], types[mine])
			for range rounds {
				s, err := schema.Compile(json.RawMessage(raw))
				if err != nil {
					t.Error(err)
					return
				}
				k := random.IntN(len(values))
				got := s.Check(json.RawMessage(`{"a":` + values[k] + `,"b":` + values[k] + `}`))
				if want := map[bool]int{true: 0, false: 2}[k == mine]; len(got) != want {
					t.Errorf("schema %d, value %s: %v", i, values[k], got)
				}
				if got := schema.Implicit().Check(json.RawMessage(`{"prompt":"x"}`)); got != nil {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}
