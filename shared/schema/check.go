package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/qri-io/jsonschema"
)

// maxViolations is how many violations one result lists.
const maxViolations = 100

// check is the check of one value against one schema. It is in the context that the library passes from keyword
// to keyword, so that nothing is shared between two checks.
type check struct {
	context.Context
	nodes  []*jsonschema.Schema
	state  jsonschema.ValidationState
	at     path // in the value
	under  path // in the schema
	steps  int  // left
	quiet  int  // > 0: only whether it fits counts, as inside anyOf
	failed bool
	found  []violation
	buffer []byte
}

// violation is a Violation with its place, for sorting.
type violation struct {
	at, under path
	message   string
}

// A step is one subschema applied to one value, or as much work as that. With a schema of 1 KB in which each
// $ref doubles the next, any validator would take minutes: steps limit that. Ordinary schemas need a few steps
// per value, so large values allow more.
const (
	steps         = 200_000
	stepsPerValue = 10
	bytesPerStep  = 2  // that many bytes of a value bring one step more
	matchPerStep  = 32 // a step's worth of matching, in characters × instructions of the pattern
)

var checks = sync.Pool{New: func() any {
	c := &check{Context: context.Background()}
	c.state.LocalRegistry = &jsonschema.SchemaRegistry{}
	return c
}}

// Check returns how a value violates the schema: nil if it does not, else at most 100 violations, sorted by
// path and schema path. A value that cannot be read, is too large, or takes too long to check is a violation at
// "$". A duplicate member is one at its own path.
func (s *Schema) Check(value json.RawMessage) []Violation { return s.CheckUpTo(value, maxValueBytes) }

// CheckUpTo is Check for values of at most so many bytes.
func (s *Schema) CheckUpTo(value json.RawMessage, most int64) (out []Violation) {
	defer func() {
		// our bug, but no reason to end the process or to accept the value
		if r := recover(); r != nil {
			out = []Violation{{Path: "$", Message: crashed}}
		}
	}()
	v, count, bad := read(value, limits{int(most), maxDepth, maxValues})
	if bad != nil {
		return []Violation{bad.violation()}
	}
	c := checks.Get().(*check)
	c.nodes = s.nodes
	c.steps = steps + stepsPerValue*count + len(value)/bytesPerStep
	c.node(0, &v)
	out = c.result()
	c.reset()
	checks.Put(c) // not after a panic, when its state is unknown
	return out
}

const (
	crashed   = "could not be checked: the validator failed on this combination of schema and value"
	exhausted = "takes too many steps to check against this schema: simplify the schema or send less at once"
)

// reset makes ready for the next value and lets go of this one.
func (c *check) reset() {
	clear(c.at[:cap(c.at)])
	c.nodes, c.at, c.under, c.quiet, c.failed, c.found = nil, c.at[:0], c.under[:0], 0, false, nil
	c.state.Local = nil
	if cap(c.buffer) > keptBuffer {
		c.buffer = nil
	}
}

const keptBuffer = 64 << 10

func (c *check) result() []Violation {
	switch {
	case c.steps < 0:
		return []Violation{{Path: "$", Message: exhausted}}
	case len(c.found) == 0:
		return nil
	}
	slices.SortStableFunc(c.found, func(a, b violation) int {
		if d := a.at.compare(b.at); d != 0 {
			return d
		}
		return a.under.compare(b.under)
	})
	out := make([]Violation, len(c.found))
	for i, f := range c.found {
		out[i] = Violation{Path: f.at.String(), Message: f.message, SchemaPath: f.under.dotted()}
	}
	return slices.Compact(out)
}

// over says that nothing more can change the answer.
func (c *check) over() bool {
	return c.steps < 0 || c.quiet > 0 && c.failed || len(c.found) >= maxViolations
}

// spend pays for work that is more than one step.
func (c *check) spend(n int) { c.steps -= n }

// node applies a subschema to a value: the library goes through its keywords.
func (c *check) node(id int, v *value) {
	if c.steps--; !c.over() {
		c.nodes[id].ValidateKeyword(c, &c.state, v)
	}
}

// fits reports whether a subschema accepts a value, without reporting why not.
func (c *check) fits(id int, v *value) bool {
	before := c.failed
	c.failed = false
	c.quiet++
	c.node(id, v)
	ok := !c.failed
	c.quiet--
	c.failed = before
	return ok
}

// fail reports a violation of the keyword ("": of the whole subschema) at the place where the check is.
func (c *check) fail(keyword, format string, args ...any) {
	c.failed = true
	if c.over() {
		return
	}
	under := slices.Clone(c.under)
	if keyword != "" {
		under = append(under, step{name: keyword, named: true})
	}
	c.found = append(c.found, violation{at: slices.Clone(c.at), under: under, message: fmt.Sprintf(format, args...)})
}

// failAt reports one about a member, present or missing, at its own path.
func (c *check) failAt(name, keyword, format string, args ...any) {
	c.into(name)
	c.fail(keyword, format, args...)
	c.out()
}

// member applies a subschema to an object's member; the caller has stepped into the schema.
func (c *check) member(name string, id int, v *value) {
	c.into(name)
	c.node(id, v)
	c.out()
}

func (c *check) item(i, id int, v *value) {
	c.at = append(c.at, step{index: i})
	c.node(id, v)
	c.out()
}

func (c *check) into(name string) { c.at = append(c.at, step{name: name, named: true}) }
func (c *check) out()             { c.at = c.at[:len(c.at)-1] }

// below steps into the schema, up out of it again.
func (c *check) below(keyword string) { c.under = append(c.under, step{name: keyword, named: true}) }
func (c *check) belowItem(i int)      { c.under = append(c.under, step{index: i}) }
func (c *check) up(n int)             { c.under = c.under[:len(c.under)-n] }

// canonical returns the value's canonical text, good until the next call; comparing costs a step for each value in it.
func (c *check) canonical(v *value) []byte {
	c.buffer = v.canonical(c.buffer[:0])
	c.spend(len(c.buffer) / 16)
	return c.buffer
}
