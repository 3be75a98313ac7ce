package strictjson

import (
	"strings"
	"testing"
	"time"
)

// TestAHostileBodyCostsNoMoreThanItsLength fails when each level of nesting reads all that is inside once more.
func TestAHostileBodyCostsNoMoreThanItsLength(t *testing.T) {
	const size, levels = 4 << 20, 60
	inside := "[" + strings.Repeat(`"\"",`, size/5) + "0]"
	cost := func(levels int) time.Duration {
		body := []byte(strings.Repeat(`{"a":`, levels) + inside + strings.Repeat("}", levels))
		at := time.Now()
		if err := Check(body); err != nil {
			t.Fatal(err)
		}
		return time.Since(at)
	}
	flat, deep := cost(1), cost(levels)
	for range 2 { // in turns, so that a slow moment of the machine is not one of them only
		flat, deep = min(flat, cost(1)), min(deep, cost(levels))
	}
	if deep > levels/4*flat {
		t.Errorf("%d levels cost %v, one costs %v", levels, deep, flat)
	}
}

func TestCheckComparesDecodedKeys(t *testing.T) {
	long := strings.Repeat("k", 1<<20)
	var many strings.Builder
	for c := 'a'; c <= 'z'; c++ {
		many.WriteString(`"` + string(c) + `":{},`)
	}
	for _, tt := range []struct{ in, want string }{
		{` { "a" : 1 , "b" : [ ] , "c" : [ { } , { "a" : { } } ] } `, ``},
		{`[{"a":1},{"a":1}]`, ``},
		{`{"":1}`, ``},
		{`{"":1,"":2}`, `has the key "" twice`},
		{`{"a":1,"\u0061":2}`, `has the key "a" twice`},
		{`{"é":1,"\u00e9":2}`, `has the key "é" twice`},
		{`{` + many.String() + `"z!":1}`, ``},
		{`{` + many.String() + `"\u0062":1}`, `has the key "b" twice`},
		{`{"x":[0,[{"y":{"a":1,"a":2}}]]}`, `$.x.y has the key "a" twice`},
		{`{"` + long + `":1,"` + long + `":2}`, `kkk…" twice`},
		{`{"` + long + `":{"a":1,"a":2}}`, `kkk… has the key "a" twice`},
		{"{\"\xff\":1,\"\xfe\":2}", `not UTF-8`},
		{"[\"\xc3\"]", `not UTF-8`},
		{strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), ``},
		{strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2), `deeper`},
	} {
		got := ""
		if err := Check([]byte(tt.in)); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%.60s: got %q, want %q", tt.in, got, tt.want)
		}
		if len(got) > 1000 {
			t.Errorf("%.60s: %d bytes of answer", tt.in, len(got))
		}
	}
	var o outer
	if err := Decode([]byte(`{"`+long+`":1}`), &o); err == nil || len(err.Error()) > 1000 {
		t.Errorf("an unknown field of %d bytes is answered by %.100v…", len(long), err)
	}
}
