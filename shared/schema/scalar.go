package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// typeNames are draft-07's types; the first six in the order of kind.
var typeNames = []string{null: "null", boolean: "boolean", number: "number", text: "string", array: "array",
	object: "object", integer: "integer"}

const integer kind = 6 // no kind of value, but a type

// typeRule: one of these types.
type typeRule struct {
	Names []string `json:"names"`
	set   uint8
	shown string
}

func (r *typeRule) prepare() error {
	shown := make([]string, len(r.Names))
	for i, n := range r.Names {
		r.set |= 1 << slices.Index(typeNames, n)
		shown[i] = repr(n)
	}
	r.shown = strings.Join(shown, ", ")
	return nil
}

func (r *typeRule) check(c *check, v *value) {
	if r.set&(1<<v.kind) != 0 {
		return
	}
	if v.kind == number && r.set&(1<<integer) != 0 && whole(v.raw) {
		return
	}
	c.fail("type", "%s is not of type %s", v, r.shown)
}

// whole reports whether a literal is an integer.
func whole(literal string) bool {
	return !strings.ContainsAny(literal, ".eE") || decimalOf(literal).whole()
}

// constRule: this value.
type constRule struct {
	Value json.RawMessage `json:"value"`
	want  string
	shown string
}

func (r *constRule) prepare() error {
	v := ownValue(r.Value)
	r.want, r.shown = string(v.canonical(nil)), v.show(maxOffer)
	return nil
}

func (r *constRule) check(c *check, v *value) {
	if string(c.canonical(v)) != r.want {
		c.fail("const", "%s was expected", r.shown)
	}
}

// enumRule: one of these values.
type enumRule struct {
	Values []json.RawMessage `json:"values"`
	want   map[string]struct{}
	shown  string
}

func (r *enumRule) prepare() error {
	r.want = make(map[string]struct{}, len(r.Values))
	all := value{kind: array, kids: make([]value, len(r.Values))}
	for i, raw := range r.Values {
		all.kids[i] = ownValue(raw)
		r.want[string(all.kids[i].canonical(nil))] = struct{}{}
	}
	r.shown = all.show(maxOffer)
	return nil
}

func (r *enumRule) check(c *check, v *value) {
	if _, ok := r.want[string(c.canonical(v))]; !ok {
		c.fail("enum", "%s is not one of %s", v, r.shown)
	}
}

// ownValue reads what the compiler wrote.
func ownValue(raw json.RawMessage) value {
	v, _, bad := read(raw, limits{bytes: 8 * maxSchemaBytes, depth: maxDepth, values: maxSchemaValues})
	if bad != nil {
		panic(bad.what)
	}
	return v
}

// numberRule is the five keywords for numbers; a bound is a literal, "" if there is none.
type numberRule struct {
	MultipleOf       string `json:"multipleOf,omitempty"`
	Minimum          string `json:"minimum,omitempty"`
	ExclusiveMinimum string `json:"exclusiveMinimum,omitempty"`
	Maximum          string `json:"maximum,omitempty"`
	ExclusiveMaximum string `json:"exclusiveMaximum,omitempty"`
	bounds           []bound
	unit             decimal
}

type bound struct {
	keyword, literal, text string
	at                     decimal
	order                  int  // what comparing the value with it must not give
	orEqual                bool // nor 0
}

func (r *numberRule) prepare() error {
	for _, b := range []bound{
		{"minimum", r.Minimum, "less than the minimum", decimal{}, -1, false},
		{"exclusiveMinimum", r.ExclusiveMinimum, "less than or equal to the minimum", decimal{}, -1, true},
		{"maximum", r.Maximum, "greater than the maximum", decimal{}, 1, false},
		{"exclusiveMaximum", r.ExclusiveMaximum, "greater than or equal to the maximum", decimal{}, 1, true},
	} {
		if b.literal != "" {
			b.at = decimalOf(b.literal)
			r.bounds = append(r.bounds, b)
		}
	}
	if r.MultipleOf != "" {
		r.unit = decimalOf(r.MultipleOf)
	}
	return nil
}

func (r *numberRule) check(c *check, v *value) {
	if v.kind != number {
		return
	}
	d := decimalOf(v.raw)
	for _, b := range r.bounds {
		if order := d.compare(b.at); order == b.order || order == 0 && b.orEqual {
			c.fail(b.keyword, "%s is %s of %s", v, b.text, b.literal)
		}
	}
	if r.MultipleOf != "" && !d.multipleOf(r.unit) {
		c.fail("multipleOf", "%s is not a multiple of %s", v, r.MultipleOf)
	}
}

// stringRule is the keywords for strings. Lengths count code points.
type stringRule struct {
	MinLength *int     `json:"minLength,omitempty"`
	MaxLength *int     `json:"maxLength,omitempty"`
	Pattern   *pattern `json:"pattern,omitempty"`
}

func (r *stringRule) prepare() error {
	if r.Pattern == nil {
		return nil
	}
	return r.Pattern.prepare()
}

func (r *stringRule) check(c *check, v *value) {
	if v.kind != text {
		return
	}
	if r.MinLength != nil || r.MaxLength != nil {
		n := utf8.RuneCountInString(v.raw)
		if r.MinLength != nil && n < *r.MinLength {
			c.fail("minLength", "%s %s", v, tooFew(*r.MinLength, "is too short"))
		}
		if r.MaxLength != nil && n > *r.MaxLength {
			c.fail("maxLength", "%s %s", v, tooMany(*r.MaxLength, "is too long"))
		}
	}
	if r.Pattern != nil && !r.Pattern.matches(c, v.raw) {
		c.fail("pattern", "%s does not match %s", v, cut(repr(r.Pattern.Source), maxOffer))
	}
}

// tooFew and tooMany say it the short way where the limit is "something" or "nothing".
func tooFew(limit int, otherwise string) string {
	if limit == 1 {
		return "should be non-empty"
	}
	return otherwise
}

func tooMany(limit int, otherwise string) string {
	if limit == 0 {
		return "is expected to be empty"
	}
	return otherwise
}

// formatRule: a string in this format.
type formatRule struct {
	Name   string `json:"name"`
	format format
}

func (r *formatRule) prepare() error {
	r.format = formats[r.Name]
	return nil
}

func (r *formatRule) check(c *check, v *value) {
	if v.kind != text {
		return
	}
	c.spend(len(v.raw) / matchPerStep)
	if !c.over() && !r.format.valid(v.raw) {
		c.fail("format", "%s is not a valid %s", v, r.format.noun)
	}
}
