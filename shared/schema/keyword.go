package schema

import (
	"context"
	"encoding/json"
	"sync"

	"ao/shared/strictjson"

	"github.com/qri-io/jsonpointer"
	"github.com/qri-io/jsonschema"
)

// rule is what a keyword of ours demands of a value. The compiler writes rules as JSON, and the library reads them back
// when it parses the schema that we give it. A subschema in them is its number.
type rule interface {
	check(c *check, v *value)
}

// preparer is a rule that has something to make ready once it is read.
type preparer interface {
	prepare() error
}

// rules are all keywords of a compiled schema, in the order in which they are applied. Several of draft-07's keywords
// share a rule where one depends on what another has seen: the library's own additionalProperties lets through what it
// met elsewhere.
var rules = []struct {
	name string
	make func() rule
}{
	{"never", func() rule { return new(neverRule) }},
	{"$ref", func() rule { return new(refRule) }},
	{"type", func() rule { return new(typeRule) }},
	{"const", func() rule { return new(constRule) }},
	{"enum", func() rule { return new(enumRule) }},
	{"number", func() rule { return new(numberRule) }},
	{"string", func() rule { return new(stringRule) }},
	{"format", func() rule { return new(formatRule) }},
	{"array", func() rule { return new(arrayRule) }},
	{"object", func() rule { return new(objectRule) }},
	{"allOf", func() rule { return new(allOfRule) }},
	{"anyOf", func() rule { return new(anyOfRule) }},
	{"oneOf", func() rule { return new(oneOfRule) }},
	{"not", func() rule { return new(notRule) }},
	{"if", func() rule { return new(ifRule) }},
}

// install makes our keywords the only ones the library knows. Its tables have no lock: they are written once,
// before the first schema is parsed. Since they are not empty, the library does not load its own.
var install = sync.OnceFunc(func() {
	for _, r := range rules {
		jsonschema.RegisterKeyword(r.name, func() jsonschema.Keyword { return &keyword{r.make()} })
	}
})

// keyword is a rule as the library sees it.
type keyword struct{ rule rule }

func (k *keyword) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, k.rule); err != nil {
		return err
	}
	if p, ok := k.rule.(preparer); ok {
		return p.prepare()
	}
	return nil
}

// ValidateKeyword is called by the library for every keyword of a subschema.
func (k *keyword) ValidateKeyword(ctx context.Context, _ *jsonschema.ValidationState, data any) {
	if c := ctx.(*check); !c.over() {
		k.rule.check(c, data.(*value))
	}
}

// Register and Resolve serve the library's own references, which are not used.
func (k *keyword) Register(string, *jsonschema.SchemaRegistry)            {}
func (k *keyword) Resolve(jsonpointer.Pointer, string) *jsonschema.Schema { return nil }

// parse has the library read a subschema written in our keywords. It is registered at once, so that validating writes
// nothing shared.
func parse(flat map[string]any) (*jsonschema.Schema, error) {
	install()
	raw, err := strictjson.Encode(flat)
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := s.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	s.Register("", new(jsonschema.SchemaRegistry))
	return s, nil
}
