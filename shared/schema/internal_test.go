package schema

import (
	"container/list"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestNumbers compares with exact rationals: order, equality, integers and multiples, over literals of all shapes.
func TestNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	literals := []string{"0", "-0", "0.0", "0e5", "1", "1.0", "10e-1", "100", "1e2", "-1", "0.01", "0.07", "1.1", "3",
		"0.3", "1e308", "1e-308",
		"18446744073709551615", "18446744073709551616", "9007199254740993", "9007199254740992",
		"972783798187987123879878123.18878137",
		"972783798187987123879878123.188781371", "4294967296", "4294967295", "123456789012345678901234567890",
		"0.0000001", "1000000.0000001"}
	for range 120 {
		s := fmt.Sprint(random.IntN(2000))
		if random.IntN(2) == 0 {
			s += fmt.Sprintf(".%0*d", 1+random.IntN(4), random.IntN(10000))
		}
		if random.IntN(2) == 0 {
			s += fmt.Sprintf("e%d", random.IntN(20)-10)
		}
		if random.IntN(3) == 0 {
			s = "-" + s
		}
		literals = append(literals, s)
	}
	for _, a := range literals {
		x, _ := new(big.Rat).SetString(a)
		if got, want := decimalOf(a).whole(), x.IsInt(); got != want {
			t.Errorf("%s is an integer: got %t, want %t", a, got, want)
		}
		for _, b := range literals {
			y, _ := new(big.Rat).SetString(b)
			want := x.Cmp(y)
			if got := decimalOf(a).compare(decimalOf(b)); got != want {
				t.Errorf("%s against %s: got %d, want %d", a, b, got, want)
			}
			same := string(decimalOf(a).canonical(nil)) == string(decimalOf(b).canonical(nil))
			if same != (want == 0) {
				t.Errorf("%s equals %s: got %t", a, b, same)
			}
			if y.Sign() > 0 {
				if got, want := decimalOf(a).multipleOf(decimalOf(b)), new(big.Rat).Quo(x, y).IsInt(); got != want {
					t.Errorf("%s is a multiple of %s: got %t, want %t", a, b, got, want)
				}
			}
		}
	}
}

func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		literal string
		want    int
	}{{"0", 0}, {"2.0", 2}, {"1e2", 100}, {"120e-1", 12}, {"0.5e1", 5}, {"1e308", math.MaxInt}, {"1.5", -1},
		{"-1", -1}} {
		n, ok := decimalOf(tt.literal).count()
		if !ok {
			n = -1
		}
		if n != tt.want {
			t.Errorf("%s: got %d, want %d", tt.literal, n, tt.want)
		}
	}
}

// TestReader: values are read as encoding/json reads them.
func TestReader(t *testing.T) {
	for _, raw := range []string{
		`null`, ` true `, "\n[ ]", `[1 , 2.50,-0e+1]`, `{ "a" : { } , "b":[{"c":null}]}`,
		`"a\"b\\c\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800x"`, `{"\u0061\n":"é😀"}`,
		`{` + strings.Repeat(`"x":1,`, 0) + `"k":[[[[]]]]}`, `[{},[],"",0,false]`,
	} {
		v, _, bad := read([]byte(raw), limits{1 << 20, 64, 1000})
		if bad != nil {
			t.Errorf("%s: %s", raw, bad.what)
			continue
		}
		if got, want := compact(t, v.json(nil)), compact(t, []byte(raw)); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// compact writes JSON as encoding/json would after reading it, numbers as they are.
func compact(t testing.TB, raw []byte) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPatterns: how ECMA 262 is written for RE2, by what it matches.
func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern   string
		yes, no   []string
		violation string
	}{
		{`^\d+$`, []string{"42"}, []string{"৪২", "4 ", ""}, ""},
		{`^.$`, []string{"a", "é", "😀", "\x00"}, []string{"\n", "\r", "\u2028", "ab"}, ""},
		{`^\s\S$`, []string{"\ufeffx", "\u2003é"}, []string{"xx", "  "}, ""},
		{`^[\s\S]$`, []string{" ", "x", "\n"}, []string{""}, ""},
		{`^[^\s]$`, []string{"x"}, []string{"\u00a0"}, ""},
		{`^[\S]$`, []string{"x", "\u200b"}, []string{"\u00a0", "\ufeff"}, ""},
		{`^[]$`, nil, []string{"", "a"}, ""},
		{`^[^]$`, []string{"a", "\n"}, []string{""}, ""},
		{`^[a\-z]$`, []string{"a", "-", "z"}, []string{"b"}, ""},
		{`^[a-]$`, []string{"a", "-"}, []string{"b"}, ""},
		{`^[\w-.]$`, []string{"a", "-", "."}, []string{"+"}, ""},
		{`^[[:alpha:]]$`, []string{"a]", "[]", ":]"}, []string{"b", "a"}, ""},
		{`^[\]\\]$`, []string{"]", `\`}, []string{"["}, ""},
		{`^[\b]$`, []string{"\b"}, []string{"b"}, ""},
		{`^\/\-\.\@\"$`, []string{`/-.@"`}, []string{"/-x@"}, ""},
		{`^a{2,3}$`, []string{"aa", "aaa"}, []string{"a", "aaaa"}, ""},
		{`^a{,3}$`, []string{"a{,3}"}, []string{"aa"}, ""},
		{`^{}]$`, []string{"{}]"}, []string{"{"}, ""},
		{`^a??b*?c+?$`, []string{"abbc", "c"}, []string{"ab"}, ""},
		{`^(?<x>a|b)(?:c)$`, []string{"ac", "bc"}, []string{"c"}, ""},
		{`^\u00e9\xe9\u{e9}$`, []string{"ééé"}, []string{"é"}, ""},
		{`^\ud83d\ude00[\ud83d\ude00]$`, []string{"😀😀"}, []string{"😀"}, ""},
		{`^\ud83d$`, nil, []string{"😀", "\ufffd"}, ""},
		{`^\0\cA\t\v\f$`, []string{"\x00\x01\t\v\f"}, []string{"0"}, ""},
		{`^\p{Lu}\P{Lu}$`, []string{"Éé"}, []string{"éÉ"}, ""},
		{`^\p{Script=Greek}\p{sc=Latin}[\p{scx=Han}]$`, []string{"αa漢"}, []string{"aaa"}, ""},
		{`^\p{gc=Decimal_Number}\p{General_Category=Nd}$`, []string{"4৪"}, []string{"ab"}, ""},
		{`^\p{Alphabetic}\P{Alphabetic}\p{White_Space}$`, []string{"é1 "}, []string{"1é "}, ""},
		{`^[^\p{Uppercase}]$`, []string{"a"}, []string{"A"}, ""},
		{`^\p{ASCII}\p{Any}$`, []string{"aé"}, []string{"éa"}, ""},
		{`\bfoo\b`, []string{"a foo b"}, []string{"afoo"}, ""},
		{`a|b|`, []string{"", "x"}, nil, ""},
		{`a**`, nil, nil, "is not a valid regular expression: * has nothing to repeat"},
		{`*a`, nil, nil, "is not a valid regular expression: * has nothing to repeat"},
		{`^*`, nil, nil, "is not a valid regular expression: * has nothing to repeat"},
		{`(?:a`, nil, nil, "is not a valid regular expression: a ( is not closed"},
		{`a)`, nil, nil, "is not a valid regular expression: a ) was never opened"},
		{`[z-a]`, nil, nil, "is not a valid regular expression: a range in [ ] is out of order"},
		{`[a\`, nil, nil, `is not a valid regular expression: it ends with \`},
		{`\`, nil, nil, `is not a valid regular expression: it ends with \`},
		{`\a`, nil, nil, `is not a valid regular expression: \a is no known escape`},
		{`\x1`, nil, nil, `is not a valid regular expression: 2 hexadecimal digits are missing`},
		{`\u{110000}`, nil, nil, `is not a valid regular expression: \u{…} must hold a code point`},
		{`\c1`, nil, nil, `is not a valid regular expression: \c must be followed by a letter`},
		{`\00`, nil, nil, `is not a valid regular expression: \0 must not be followed by a digit`},
		{`a{3,2}`, nil, nil, "is not a valid regular expression: {3,2} is out of order"},
		{`\p{Nonsense}`, nil, nil, "is not a valid regular expression: Nonsense is no known Unicode property"},
		{`\pL`, nil, nil, `is not a valid regular expression: \p must be followed by {name}`},
		{`(?i)a`, nil, nil, "is not a valid regular expression: (? begins no known kind of group"},
		{`(?<a>x)(?<a>y)`, nil, nil, "is not a valid regular expression: two groups are named a"},
		{`\k<a>`, nil, nil, `is not a valid regular expression: \k<a> refers to no group`},
		{`(a)\2`, nil, nil, `is not a valid regular expression: \2 refers to no group`},
		{`(?<n>a)\k<n>`, nil, nil,
			"uses a backreference, which patterns cannot do here: they are matched in linear time, by RE2"},
		{`a{2000}`, nil, nil,
			"uses more than 1000 repetitions, which patterns cannot do here: they are matched in linear time, by RE2"},
	} {
		t.Run(tt.pattern, func(t *testing.T) {
			p, err := usable(tt.pattern)
			if err != nil || tt.violation != "" {
				if got := fmt.Sprint(err); got != tt.violation {
					t.Errorf("got %s, want %s", got, tt.violation)
				}
				return
			}
			re := regexp.MustCompile(p.Expr)
			for _, s := range tt.yes {
				if !re.MatchString(s) {
					t.Errorf("%s does not match %q", p.Expr, s)
				}
			}
			for _, s := range tt.no {
				if re.MatchString(s) {
					t.Errorf("%s matches %q", p.Expr, s)
				}
			}
		})
	}
}

// TestCache: the cache is bounded by the text of its schemas, and what was used last stays.
func TestCache(t *testing.T) {
	c := cache{room: 4 * cacheMinimum, byHash: map[[32]byte]*list.Element{}}
	key := func(i int) (k [32]byte) { k[0] = byte(i); return k }
	for i := range 5 {
		c.put(key(i), &Schema{raw: json.RawMessage(`{}`)})
		c.put(key(i), &Schema{raw: json.RawMessage(`{}`)})
		c.get(key(0))
	}
	for i, want := range []bool{true, false, true, true, true} {
		if _, got := c.get(key(i)); got != want {
			t.Errorf("%d is there: got %t, want %t", i, got, want)
		}
	}
	c.put(key(9), &Schema{raw: make([]byte, 5*cacheMinimum)})
	if len(c.byHash) != 0 || c.recent.Len() != 0 || c.room != 4*cacheMinimum {
		t.Errorf("what fits nowhere leaves %d entries and %d room", len(c.byHash), c.room)
	}
}

// TestMetaSchema: the walk over a schema accepts and refuses what draft-07's meta-schema does, which this package can
// check itself.
func TestMetaSchema(t *testing.T) {
	s, err := compile(metaSchema)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 3))
	odd := []string{`null`, `true`, `false`, `0`, `1`, `-1`, `1.5`, `2.0`, `""`, `"x"`, `"string"`, `[]`, `[1]`,
		`["a","a"]`, `["a","b"]`, `{}`, `{"a":1}`, `{"a":{}}`,
		`{"a":["x"]}`, `[{}]`, `[true,{}]`, `["string","null"]`, `{"a":null}`, `[null]`, `{"type":3}`,
		`{"a":{"minLength":-1}}`}
	keywords := []string{"$comment", "title", "description", "default", "readOnly", "writeOnly", "examples",
		"multipleOf", "maximum", "exclusiveMaximum", "minimum",
		"exclusiveMinimum", "maxLength", "minLength", "pattern", "additionalItems", "items", "maxItems", "minItems",
		"uniqueItems", "contains", "maxProperties",
		"minProperties", "required", "additionalProperties", "definitions", "properties", "patternProperties",
		"dependencies", "propertyNames", "const", "enum",
		"type", "format", "contentMediaType", "contentEncoding", "if", "then", "else", "allOf", "anyOf", "oneOf", "not",
		"unknown"}
	verdicts := map[bool]int{}
	for i := range 8_000 {
		raw := `{"` + keywords[random.IntN(len(keywords))] + `":` + odd[random.IntN(len(odd))]
		if i%2 == 0 {
			raw = `{"properties":{"p":` + raw + `}`
		}
		raw += `}`
		_, err := compile(json.RawMessage(raw))
		want := len(s.Check(json.RawMessage(raw))) == 0
		if (err == nil) != want {
			t.Fatalf("%s: the meta-schema accepts it: %t, Compile: %v", raw, want, err)
		}
		verdicts[want]++
	}
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Errorf("hardly any of one kind: %v", verdicts)
	}
	for k := range shapes {
		if !strings.Contains(string(metaSchema), `"`+k+`": `) {
			t.Errorf("%s is not in the meta-schema", k)
		}
	}
}
