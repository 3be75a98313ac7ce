package schema

// objectRule is the keywords for objects. They are one rule, because what is an additional property depends on the
// others.
type objectRule struct {
	Properties    map[string]int    `json:"properties,omitempty"`
	Patterns      []patternProperty `json:"patterns,omitempty"`
	Additional    *int              `json:"additional,omitempty"`
	Closed        bool              `json:"closed,omitempty"` // additionalProperties: false
	Required      []string          `json:"required,omitempty"`
	Names         *int              `json:"names,omitempty"`
	MinProperties *int              `json:"minProperties,omitempty"`
	MaxProperties *int              `json:"maxProperties,omitempty"`
	Dependencies  []dependency      `json:"dependencies,omitempty"`
}

type patternProperty struct {
	Pattern pattern `json:"pattern"`
	Node    int     `json:"node"`
}

type dependency struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs,omitempty"`
	Node  *int     `json:"node,omitempty"`
}

func (r *objectRule) prepare() error {
	for i := range r.Patterns {
		if err := r.Patterns[i].Pattern.prepare(); err != nil {
			return err
		}
	}
	return nil
}

func (r *objectRule) check(c *check, v *value) {
	if v.kind != object {
		return
	}
	if r.MinProperties != nil && len(v.names) < *r.MinProperties {
		c.fail("minProperties", "%s %s", v, tooFew(*r.MinProperties, "does not have enough properties"))
	}
	if r.MaxProperties != nil && len(v.names) > *r.MaxProperties {
		c.fail("maxProperties", "%s %s", v, tooMany(*r.MaxProperties, "has too many properties"))
	}
	c.spend(len(r.Required) / 8)
	for _, name := range r.Required {
		if _, ok := v.get(name); !ok {
			c.failAt(name, "required", "%s is a required property", repr(name))
		}
		if c.over() {
			return
		}
	}
	c.spend(len(v.names) / 8)
	for i, name := range v.names {
		if c.over() {
			return
		}
		r.member(c, name, &v.kids[i])
	}
	for _, d := range r.Dependencies {
		if _, ok := v.get(d.Name); ok {
			d.check(c, v)
		}
	}
}

func (r *objectRule) member(c *check, name string, v *value) {
	if r.Names != nil {
		c.below("propertyNames")
		c.member(name, *r.Names, &value{kind: text, raw: name})
		c.up(1)
	}
	id, known := r.Properties[name]
	if known {
		c.below("properties")
		c.below(name)
		c.member(name, id, v)
		c.up(2)
	}
	for i := range r.Patterns {
		p := &r.Patterns[i]
		if !p.Pattern.matches(c, name) {
			continue
		}
		known = true
		c.below("patternProperties")
		c.below(p.Pattern.Source)
		c.member(name, p.Node, v)
		c.up(2)
	}
	switch {
	case known:
	case r.Closed:
		c.failAt(name, "additionalProperties", "Additional properties are not allowed (%s was unexpected)", repr(name))
	case r.Additional != nil:
		c.below("additionalProperties")
		c.member(name, *r.Additional, v)
		c.up(1)
	}
}

func (d *dependency) check(c *check, v *value) {
	c.spend(len(d.Needs) / 8)
	c.below("dependencies")
	for _, name := range d.Needs {
		if _, ok := v.get(name); !ok {
			c.failAt(name, d.Name, "%s is a dependency of %s", repr(name), repr(d.Name))
		}
	}
	if d.Node != nil {
		c.below(d.Name)
		c.node(*d.Node, v)
		c.up(1)
	}
	c.up(1)
}

// arrayRule is the keywords for arrays.
type arrayRule struct {
	Items       *int  `json:"items,omitempty"`
	Tuple       []int `json:"tuple,omitempty"`
	Additional  *int  `json:"additional,omitempty"`
	Closed      bool  `json:"closed,omitempty"` // additionalItems: false
	Contains    *int  `json:"contains,omitempty"`
	MinItems    *int  `json:"minItems,omitempty"`
	MaxItems    *int  `json:"maxItems,omitempty"`
	UniqueItems bool  `json:"uniqueItems,omitempty"`
}

func (r *arrayRule) check(c *check, v *value) {
	if v.kind != array {
		return
	}
	if r.MinItems != nil && len(v.kids) < *r.MinItems {
		c.fail("minItems", "%s %s", v, tooFew(*r.MinItems, "is too short"))
	}
	if r.MaxItems != nil && len(v.kids) > *r.MaxItems {
		c.fail("maxItems", "%s %s", v, tooMany(*r.MaxItems, "is too long"))
	}
	if r.UniqueItems && !unique(c, v.kids) {
		c.fail("uniqueItems", "%s has non-unique elements", v)
	}
	if r.Contains != nil && !contains(c, *r.Contains, v.kids) {
		c.fail("contains", "%s does not contain items matching the given schema", v)
	}
	if r.Items == nil && r.Tuple == nil {
		return
	}
	for i := range v.kids {
		if c.over() {
			return
		}
		r.item(c, i, &v.kids[i])
	}
}

func (r *arrayRule) item(c *check, i int, v *value) {
	switch {
	case r.Items != nil:
		c.below("items")
		c.item(i, *r.Items, v)
		c.up(1)
	case i < len(r.Tuple):
		c.below("items")
		c.belowItem(i)
		c.item(i, r.Tuple[i], v)
		c.up(2)
	case r.Closed:
		c.at = append(c.at, step{index: i})
		c.fail("additionalItems", "Additional items are not allowed (%s was unexpected)", v)
		c.out()
	case r.Additional != nil:
		c.below("additionalItems")
		c.item(i, *r.Additional, v)
		c.up(1)
	}
}

func unique(c *check, items []value) bool {
	if len(items) < 2 {
		return true
	}
	seen := make(map[string]struct{}, len(items))
	for i := range items {
		key := c.canonical(&items[i])
		if _, twice := seen[string(key)]; twice {
			return false
		}
		if c.over() {
			return true
		}
		seen[string(key)] = struct{}{}
	}
	return true
}

func contains(c *check, id int, items []value) bool {
	for i := range items {
		if c.over() || c.fits(id, &items[i]) {
			return true
		}
	}
	return false
}

// neverRule is the schema false.
type neverRule struct{}

func (*neverRule) check(c *check, v *value) { c.fail("", "False schema does not allow %s", v) }

// refRule: what the schema fits that the reference leads to.
type refRule struct {
	Node int `json:"node"`
}

func (r *refRule) check(c *check, v *value) {
	c.below("$ref")
	c.node(r.Node, v)
	c.up(1)
}

// allOfRule: every one of these; each reports by itself.
type allOfRule struct {
	Nodes []int `json:"nodes"`
}

func (r *allOfRule) check(c *check, v *value) {
	c.below("allOf")
	for i, id := range r.Nodes {
		c.belowItem(i)
		c.node(id, v)
		c.up(1)
	}
	c.up(1)
}

// anyOfRule: at least one.
type anyOfRule struct {
	Nodes []int `json:"nodes"`
}

func (r *anyOfRule) check(c *check, v *value) {
	for _, id := range r.Nodes {
		if c.fits(id, v) {
			return
		}
	}
	c.fail("anyOf", "%s is not valid under any of the given schemas", v)
}

// oneOfRule: exactly one.
type oneOfRule struct {
	Nodes []int `json:"nodes"`
}

func (r *oneOfRule) check(c *check, v *value) {
	found := 0
	for _, id := range r.Nodes {
		if !c.fits(id, v) {
			continue
		}
		if found++; found == 2 {
			c.fail("oneOf", "%s is valid under more than one of the given schemas", v)
			return
		}
	}
	if found == 0 {
		c.fail("oneOf", "%s is not valid under any of the given schemas", v)
	}
}

// notRule: what this one does not accept.
type notRule struct {
	Node  int    `json:"node"`
	Shown string `json:"shown"`
}

func (r *notRule) check(c *check, v *value) {
	if c.fits(r.Node, v) {
		c.fail("not", "%s should not be valid under %s", v, r.Shown)
	}
}

// ifRule: then, if it fits, otherwise else.
type ifRule struct {
	If   int  `json:"if"`
	Then *int `json:"then,omitempty"`
	Else *int `json:"else,omitempty"`
}

func (r *ifRule) check(c *check, v *value) {
	name, branch := "else", r.Else
	if c.fits(r.If, v) {
		name, branch = "then", r.Then
	}
	if branch != nil {
		c.below(name)
		c.node(*branch, v)
		c.up(1)
	}
}
