package schema

import (
	"net/url"
	"strings"
)

// shapes is draft-07's meta-schema: what each keyword's value must look like. A keyword that is not here means nothing
// to draft-07 and is passed over.
var shapes map[string]func(w *walker, v *value)

func init() { // the shapes lead back to this table
	shapes = map[string]func(w *walker, v *value){
		"$id":                  (*walker).uri,
		"$schema":              (*walker).uri,
		"$ref":                 (*walker).uri,
		"$comment":             of(text),
		"title":                of(text),
		"description":          of(text),
		"readOnly":             of(boolean),
		"writeOnly":            of(boolean),
		"examples":             of(array),
		"contentMediaType":     of(text),
		"contentEncoding":      of(text),
		"format":               of(text),
		"type":                 (*walker).types,
		"enum":                 (*walker).choices,
		"multipleOf":           (*walker).unit,
		"maximum":              of(number),
		"exclusiveMaximum":     of(number),
		"minimum":              of(number),
		"exclusiveMinimum":     of(number),
		"maxLength":            (*walker).size,
		"minLength":            (*walker).size,
		"pattern":              (*walker).pattern,
		"additionalItems":      (*walker).schema,
		"items":                (*walker).items,
		"maxItems":             (*walker).size,
		"minItems":             (*walker).size,
		"uniqueItems":          of(boolean),
		"contains":             (*walker).schema,
		"maxProperties":        (*walker).size,
		"minProperties":        (*walker).size,
		"required":             (*walker).names,
		"additionalProperties": (*walker).schema,
		"definitions":          (*walker).schemas,
		"properties":           (*walker).schemas,
		"patternProperties":    (*walker).patterns,
		"dependencies":         (*walker).dependencies,
		"propertyNames":        (*walker).schema,
		"if":                   (*walker).schema,
		"then":                 (*walker).schema,
		"else":                 (*walker).schema,
		"allOf":                (*walker).some,
		"anyOf":                (*walker).some,
		"oneOf":                (*walker).some,
		"not":                  (*walker).schema,
	}
}

// later are keywords that draft-07 ignores and later drafts obey, with what to write instead.
var later = map[string]string{
	"prefixItems":           "items with an array",
	"unevaluatedItems":      "additionalItems",
	"unevaluatedProperties": "additionalProperties",
	"dependentRequired":     "dependencies",
	"dependentSchemas":      "dependencies",
	"minContains":           "contains",
	"maxContains":           "contains",
	"$anchor":               `"$id": "#name"`,
	"$dynamicRef":           "$ref",
	"$recursiveRef":         "$ref",
}

// beside are the keywords that may stand beside a $ref in every draft with the same meaning: none asserts anything.
var beside = map[string]bool{
	"$ref": true, "$id": true, "$schema": true, "$comment": true, "title": true, "description": true, "default": true,
	"readOnly": true, "writeOnly": true, "examples": true, "definitions": true,
}

// laterDraft reports whether a $schema names a draft in which keywords mean more than in draft-07.
func laterDraft(uri string) bool {
	return strings.Contains(uri, "json-schema.org/draft/20") || strings.Contains(uri, "json-schema.org/v1")
}

func of(k kind) func(*walker, *value) {
	return func(w *walker, v *value) { w.is(v, k) }
}

func (w *walker) is(v *value, k kind) bool {
	if v.kind != k {
		w.problem("%s is not of type %s", v, repr(typeNames[k]))
	}
	return v.kind == k
}

func (w *walker) uri(v *value) {
	if !w.is(v, text) {
		return
	}
	if _, err := url.Parse(v.raw); err != nil {
		w.problem("%s is not a valid URI reference", v)
	}
}

func (w *walker) types(v *value) {
	if v.kind != array {
		if v.kind != text {
			w.problem("%s is not of type 'string', 'array'", v)
			return
		}
		w.typeName(v)
		return
	}
	w.nonEmpty(v)
	w.distinct(v)
	w.each(v, w.typeName)
}

func (w *walker) typeName(v *value) {
	for _, n := range typeNames {
		if v.kind == text && v.raw == n {
			return
		}
	}
	w.problem("%s is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']", v)
}

func (w *walker) unit(v *value) {
	if w.is(v, number) && decimalOf(v.raw).sign() <= 0 {
		w.problem("%s is less than or equal to the minimum of 0", v)
	}
}

func (w *walker) size(v *value) {
	switch {
	case v.kind != number || !decimalOf(v.raw).whole():
		w.problem("%s is not of type 'integer'", v)
	case decimalOf(v.raw).sign() < 0:
		w.problem("%s is less than the minimum of 0", v)
	}
}

func (w *walker) choices(v *value) {
	if w.is(v, array) {
		w.nonEmpty(v)
		w.distinct(v)
	}
}

func (w *walker) names(v *value) {
	if w.is(v, array) {
		w.distinct(v)
		w.each(v, func(name *value) { w.is(name, text) })
	}
}

func (w *walker) items(v *value) {
	if v.kind == array {
		w.some(v)
		return
	}
	w.schema(v)
}

func (w *walker) some(v *value) {
	if w.is(v, array) {
		w.nonEmpty(v)
		w.each(v, w.schema)
	}
}

func (w *walker) schemas(v *value) {
	if w.is(v, object) {
		w.members(v, func(_ string, member *value) { w.schema(member) })
	}
}

func (w *walker) dependencies(v *value) {
	if !w.is(v, object) {
		return
	}
	w.members(v, func(_ string, member *value) {
		if member.kind == array {
			w.names(member)
			return
		}
		w.schema(member)
	})
}

func (w *walker) pattern(v *value) {
	if w.is(v, text) {
		w.expression(v.raw)
	}
}

func (w *walker) patterns(v *value) {
	if !w.is(v, object) {
		return
	}
	w.members(v, func(expr string, member *value) {
		w.expression(expr)
		w.schema(member)
	})
}

// expression translates a pattern once, for all places that use it.
func (w *walker) expression(source string) {
	if w.expressions++; w.expressions == maxPatterns+1 {
		w.problem("has too many patterns: at most %d are allowed in a schema", maxPatterns)
	}
	if w.expressions > maxPatterns {
		return
	}
	p, done := w.exprs[source]
	if !done {
		var err error
		p, err = usable(source)
		if err != nil {
			w.problem("%s %s", repr(source), err)
			return
		}
		w.exprs[source] = p
	}
	if w.exprBytes += len(p.Expr); w.exprBytes > maxExpressions {
		w.problem("%s is too large for a pattern, together with the others in this schema", repr(source))
	}
}

func (w *walker) nonEmpty(v *value) {
	if len(v.kids) == 0 {
		w.problem("[] should be non-empty")
	}
}

func (w *walker) distinct(v *value) {
	seen := map[string]bool{}
	for i := range v.kids {
		key := string(v.kids[i].canonical(nil))
		if seen[key] {
			w.problem("%s has non-unique elements", v)
			return
		}
		seen[key] = true
	}
}

func (w *walker) each(v *value, visit func(*value)) {
	for i := range v.kids {
		w.at(step{index: i}, func() { visit(&v.kids[i]) })
	}
}

func (w *walker) members(v *value, visit func(string, *value)) {
	for i, name := range v.names {
		w.at(step{name: name, named: true}, func() { visit(name, &v.kids[i]) })
	}
}
