package schema

import "encoding/json"

// flat writes a subschema in our own keywords. The walk has seen that every value has the shape it should have.
func (w *walker) flat(n *node) map[string]any {
	out := map[string]any{}
	switch {
	case n.value.kind == boolean:
		if n.value.raw == "false" {
			out["never"] = neverRule{}
		}
		return out
	case n.ref != nil: // keywords beside $ref are ignored
		n.here = []int{n.to}
		out["$ref"] = refRule{n.to}
		return out
	}
	f := flattener{walker: w, node: n, out: out}
	f.scalars()
	f.strings()
	f.arrays()
	f.objects()
	f.logic()
	return out
}

type flattener struct {
	*walker
	*node
	out map[string]any
}

func (f *flattener) scalars() {
	v := f.node.value
	if t, ok := v.get("type"); ok {
		r := typeRule{Names: texts(t)}
		if t.kind == text {
			r.Names = []string{t.raw}
		}
		f.out["type"] = r
	}
	if c, ok := v.get("const"); ok {
		f.out["const"] = constRule{Value: c.json(nil)}
	}
	if e, ok := v.get("enum"); ok {
		r := enumRule{Values: make([]json.RawMessage, len(e.kids))}
		for i := range e.kids {
			r.Values[i] = e.kids[i].json(nil)
		}
		f.out["enum"] = r
	}
	r := numberRule{
		MultipleOf: literal(v, "multipleOf"), Minimum: literal(v, "minimum"),
		ExclusiveMinimum: literal(v, "exclusiveMinimum"),
		Maximum:          literal(v, "maximum"), ExclusiveMaximum: literal(v, "exclusiveMaximum"),
	}
	if r.MultipleOf+r.Minimum+r.ExclusiveMinimum+r.Maximum+r.ExclusiveMaximum != "" {
		f.out["number"] = r
	}
}

func (f *flattener) strings() {
	v := f.node.value
	r := stringRule{MinLength: size(v, "minLength"), MaxLength: size(v, "maxLength")}
	if p, ok := v.get("pattern"); ok {
		expr := f.exprs[p.raw]
		r.Pattern = &expr
	}
	if r != (stringRule{}) {
		f.out["string"] = r
	}
	if name, ok := v.get("format"); ok {
		if _, known := formats[name.raw]; known {
			f.out["format"] = formatRule{Name: name.raw}
		}
	}
}

func (f *flattener) arrays() {
	v := f.node.value
	r := arrayRule{Contains: f.number("contains"), MinItems: size(v, "minItems"), MaxItems: size(v, "maxItems")}
	if u, ok := v.get("uniqueItems"); ok {
		r.UniqueItems = u.raw == "true"
	}
	if items, ok := v.get("items"); ok && items.kind == array {
		r.Tuple = f.numbers(items)
		r.Additional, r.Closed = f.extra("additionalItems")
	} else {
		r.Items = f.number("items")
	}
	if r.Items != nil || r.Tuple != nil || r.Contains != nil || r.MinItems != nil || r.MaxItems != nil ||
		r.UniqueItems {
		f.out["array"] = r
	}
}

func (f *flattener) objects() {
	v := f.node.value
	r := objectRule{Names: f.number("propertyNames"), MinProperties: size(v, "minProperties"),
		MaxProperties: size(v, "maxProperties")}
	if p, ok := v.get("properties"); ok {
		r.Properties = make(map[string]int, len(p.names))
		for i, name := range p.names {
			r.Properties[name] = f.ids[&p.kids[i]]
		}
	}
	if p, ok := v.get("patternProperties"); ok {
		for i, source := range p.names {
			r.Patterns = append(r.Patterns, patternProperty{f.exprs[source], f.ids[&p.kids[i]]})
		}
	}
	r.Additional, r.Closed = f.extra("additionalProperties")
	if names, ok := v.get("required"); ok {
		r.Required = texts(names)
	}
	if d, ok := v.get("dependencies"); ok {
		for i, name := range d.names {
			r.Dependencies = append(r.Dependencies, f.dependency(name, &d.kids[i]))
		}
	}
	if r.Names != nil || r.MinProperties != nil || r.MaxProperties != nil || r.Properties != nil || r.Patterns != nil ||
		r.Additional != nil || r.Closed || r.Required != nil || r.Dependencies != nil {
		f.out["object"] = r
	}
}

func (f *flattener) dependency(name string, v *value) dependency {
	if v.kind == array {
		return dependency{Name: name, Needs: texts(v)}
	}
	id := f.ids[v]
	f.here = append(f.here, id)
	return dependency{Name: name, Node: &id}
}

func (f *flattener) logic() {
	v := f.node.value
	for name, rule := range map[string]func([]int) any{
		"allOf": func(ids []int) any { return allOfRule{ids} },
		"anyOf": func(ids []int) any { return anyOfRule{ids} },
		"oneOf": func(ids []int) any { return oneOfRule{ids} },
	} {
		if all, ok := v.get(name); ok {
			ids := f.numbers(all)
			f.here = append(f.here, ids...)
			f.out[name] = rule(ids)
		}
	}
	if not, ok := v.get("not"); ok {
		f.out["not"] = notRule{Node: f.ids[not], Shown: not.String()}
		f.here = append(f.here, f.ids[not])
	}
	r := ifRule{Then: f.number("then"), Else: f.number("else")}
	if id := f.number("if"); id != nil && (r.Then != nil || r.Else != nil) {
		r.If = *id
		f.here = append(f.here, r.If)
		for _, branch := range []*int{r.Then, r.Else} {
			if branch != nil {
				f.here = append(f.here, *branch)
			}
		}
		f.out["if"] = r
	}
}

// number returns the number of the subschema that a keyword holds, nil if there is none.
func (f *flattener) number(keyword string) *int {
	v, ok := f.node.value.get(keyword)
	if !ok {
		return nil
	}
	id := f.ids[v]
	return &id
}

func (f *flattener) numbers(v *value) []int {
	ids := make([]int, len(v.kids))
	for i := range v.kids {
		ids[i] = f.ids[&v.kids[i]]
	}
	return ids
}

// extra is additionalItems or additionalProperties: a subschema, or the false that has a message of its own.
func (f *flattener) extra(keyword string) (id *int, closed bool) {
	v, ok := f.node.value.get(keyword)
	switch {
	case !ok || v.raw == "true":
		return nil, false
	case v.raw == "false":
		return nil, true
	}
	return f.number(keyword), false
}

func texts(v *value) []string {
	out := make([]string, len(v.kids))
	for i := range v.kids {
		out[i] = v.kids[i].raw
	}
	return out
}

func literal(v *value, keyword string) string {
	if n, ok := v.get(keyword); ok {
		return n.raw
	}
	return ""
}

func size(v *value, keyword string) *int {
	n, ok := v.get(keyword)
	if !ok {
		return nil
	}
	count, _ := decimalOf(n.raw).count()
	return &count
}
