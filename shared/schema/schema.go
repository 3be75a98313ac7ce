// Package schema checks values against JSON Schemas of draft-07. It is the gate in front of every executor: what it
// accepts, runs. It is also the only package that uses github.com/qri-io/jsonschema, which knows another draft, crashes
// on some schemas and accepts wrong values. So Compile checks a schema against draft-07, resolves its references, and
// rewrites it in keywords of our own. The library parses, orders and calls these. None of its own keywords is in use.
//
// It is draft-07 with format asserted, except that Compile refuses:
//   - references to anything but the schema itself or the draft-07 meta-schema, which is built in. Nothing is ever
//     fetched; Embed puts named schemas into one that refers to them;
//   - a schema that refers to itself without going deeper into the value;
//   - regular expressions that RE2 cannot do (lookaround, backreferences, more than 1000 repetitions);
//   - a schema that declares a later draft and uses what draft-07 would silently ignore;
//   - anything over a limit, and a member that is given twice.
//
// Messages quote values as Python would ('x', ['x', 'z']), but true, false and null as in JSON, and numbers as they
// were sent. They quote on one line, and cut visibly at 200 characters.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/qri-io/jsonschema"
)

// Limits. What is larger is refused with a message that names the limit.
const (
	maxSchemaBytes  = 256 << 10
	maxSchemaValues = 20_000
	maxPatterns     = 100
	maxPatternChars = 512
	maxValueBytes   = 4 << 20 // of Check; CheckUpTo has its own
	maxValues       = 200_000
	maxDepth        = 64 // levels of nesting, of schemas and of values
)

// Violation is one reason why a value does not fit; also one reason why a schema is none.
type Violation struct {
	Path       string `json:"path"`                  // where in the value: $, $.a, $.items[0].b, $['odd key']
	Message    string `json:"message"`               // one line
	SchemaPath string `json:"schema_path,omitempty"` // which rule, from the schema's root: properties.a.type
}

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	raw   json.RawMessage
	nodes []*jsonschema.Schema // the root first; they name each other by number
	named []NamedRef           // what it lacks; then it has no nodes
}

// Raw returns the schema exactly as it was given.
func (s *Schema) Raw() json.RawMessage { return slices.Clone(s.raw) }

// Error says what is wrong with a schema. Its paths lead into the schema.
type Error struct{ Violations []Violation }

// Error names the first violation and how many more there are.
func (e *Error) Error() string {
	if len(e.Violations) == 0 {
		return "Schema validation error"
	}
	s := fmt.Sprintf("Schema validation error at %s: %s", e.Violations[0].Path, e.Violations[0].Message)
	if n := len(e.Violations) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Compile makes a schema ready for use, or returns an *Error with everything that is wrong with it. It keeps the
// schemas of last use, so that compiling one again costs a hash.
func Compile(raw json.RawMessage) (*Schema, error) {
	s, err := known.compile(raw)
	if err == nil && len(s.named) > 0 {
		r := s.named[0]
		err = r.errorf("refers to a named schema, and there is none where this schema is used")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Implicit returns what holds for an autonomous agent without a schema of its own, and for every resume.
func Implicit() *Schema { return implicit() }

// Object returns what holds for a procedural agent without a schema: any object.
func Object() *Schema { return anyObject() }

var (
	implicit = builtin(`{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string",` +
		`"minLength":1}},"additionalProperties":false}`)
	anyObject = builtin(`{"type":"object"}`)
)

// builtin compiles a schema of this program's own, once.
func builtin(raw string) func() *Schema {
	return sync.OnceValue(func() *Schema {
		s, err := compile(json.RawMessage(raw))
		if err != nil {
			panic(err)
		}
		return s
	})
}
