package text

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"ao/shared/run"
)

// Texts are what was stored, wherever they are, and a block is freed with its last one.
func TestTexts(t *testing.T) {
	var all Blocks
	var refs []Ref
	want := func(i int) string { return fmt.Sprint("text ", i, strings.Repeat("x", i%200)) }
	for i := range 1000 {
		refs = append(refs, all.Keep(want(i)))
	}
	var o Cache
	for _, i := range rand.Perm(1000) {
		if got := string(o.Text(&all, refs[i])); got != want(i) {
			t.Fatalf("%q, want %q", got, want(i))
		}
	}
	if o.Text(&all, Ref{}) != nil || all.Keep("") != (Ref{}) {
		t.Error("no text is one")
	}
	for _, at := range refs {
		all.Drop(at)
	}
	if len(all.blocks) != 1 {
		t.Errorf("%d blocks are left of nothing", len(all.blocks))
	}
	if raw, ends := (&textBlock{packed: []byte("nonsense")}).open(); raw != nil || ends != nil {
		t.Error("a damaged block has texts")
	}
}

func TestSearchText(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for _, tt := range []struct{ parameters, want string }{
		{`{"prompt":"Say Hello"}`, "say hello"},
		{`{"prompt":""}`, ""},
		{`{"prompt":"a\nb \"c\" \u00e4"}`, "a\nb \"c\" ä"},
		{`{"prompt":"` + long + `"}`, long[:256]},
		{`{"prompt":"` + strings.Repeat(`\u00e4`, 400) + `"}`, long[:256]},
		{`{"prompt":"x` + long + `"}`, "x" + long[:254]},
		{`{"prompt":"one","b":1}`, "one"},
		{`{"b":1,"prompt":"One"}`, `{"b":1,"prompt":"one"}`},
		{`{"prompt":5}`, `{"prompt":5}`},
		{``, ``},
	} {
		got := OfSpec(&run.Spec{Input: &run.Input{Parameters: json.RawMessage(tt.parameters)}})
		if got != tt.want || !utf8.ValidString(got) || len(got) > MaxBytes {
			t.Errorf("%.60s\ngot  %q\nwant %q", tt.parameters, got, tt.want)
		}
	}
	if got := OfSpec(&run.Spec{}); got != "" {
		t.Errorf("a large body: %q", got)
	}
}
