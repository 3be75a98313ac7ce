package fuzz

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ao/shared/schema"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the random numbers")
	duration = flag.Duration("for", 0, "how long to run, instead of a fixed number of rounds")
)

const (
	schemasAsked = 1_000
	valuesEach   = 12
)

// rounds calls f with a new generator each time; a failure reports its seed.
func rounds(t *testing.T, f func(g generator, seed uint64)) {
	t.Helper()
	began := time.Now()
	for i := range uint64(1 << 62) {
		if *duration == 0 && i == schemasAsked || *duration > 0 && time.Since(began) > *duration || t.Failed() {
			return
		}
		f(generator{Rand: rand.New(rand.NewPCG(*seed, i))}, i)
	}
}

// other compiles with the other validator.
func other(t *testing.T, raw string) (*jsonschema.Schema, error) {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		t.Fatal(raw, err)
	}
	if err := c.AddResource("http://example.com/", doc); err != nil {
		return nil, err
	}
	return c.Compile("http://example.com/")
}

// nowhere loads no documents: the network is not used.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) { return nil, &json.UnsupportedValueError{Str: url} }

// TestVerdicts: both validators accept the same values.
func TestVerdicts(t *testing.T) {
	pairs, valid, refused := 0, 0, 0
	rounds(t, func(g generator, round uint64) {
		raw := g.document()
		ours, err := schema.Compile(json.RawMessage(raw))
		if err != nil {
			refused++
			if !strings.Contains(err.Error(), "refers to itself") {
				t.Fatalf("round %d: %v\n%s", round, err, raw)
			}
			return
		}
		theirs, err := other(t, raw)
		if err != nil {
			t.Fatalf("round %d: the reference does not compile the schema: %v\n%s", round, err, raw)
		}
		for range valuesEach {
			value := g.value(3)
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
			if err != nil {
				t.Fatal(value, err)
			}
			got, want := ours.Check(json.RawMessage(value)), theirs.Validate(doc)
			if (len(got) == 0) != (want == nil) {
				t.Fatalf("round %d:\n%s\n%s\ngot: %v\nwant, as the reference: %v", round, raw, value, got, want)
			}
			pairs++
			if want == nil {
				valid++
			}
		}
	})
	t.Logf("%d pairs, %d valid, %d schemas that refer to themselves", pairs, valid, refused)
	if *duration == 0 && (pairs < 8_000 || valid < pairs/20 || valid > pairs*19/20) {
		t.Error("too few values are valid or invalid")
	}
}

// TestBadSchemas: a damaged schema compiles with both validators or with neither. If only ours refuses it, the reason
// must be a documented one: the reference checks references and cycles only when it reaches them.
func TestBadSchemas(t *testing.T) {
	documented := []string{"refers to itself", "refers to nothing", "outside this schema"}
	asked, bad := 0, 0
	rounds(t, func(g generator, round uint64) {
		raw := g.damage(g.document())
		_, ours := schema.Compile(json.RawMessage(raw))
		_, theirs := other(t, raw)
		asked++
		if theirs != nil {
			bad++
		}
		if (ours == nil) == (theirs == nil) {
			return
		}
		for _, reason := range documented {
			if ours != nil && strings.Contains(ours.Error(), reason) {
				return
			}
		}
		t.Fatalf("round %d:\n%s\nours: %v\nthe other: %v", round, raw, ours, theirs)
	})
	t.Logf("%d schemas, %d bad", asked, bad)
}
