package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/qri-io/jsonschema"
)

type node struct {
	value *value
	path  path
	base  *url.URL // what its references are relative to
	ref   *value   // its $ref, or nil
	to    int      // where that leads
	here  []int    // the nodes it applies to the same value
}

// walker visits a schema once and finds its subschemas, their names, and all its errors.
type walker struct {
	root        *value
	nodes       []*node
	ids         map[*value]int // a subschema's number
	uris        map[string]int // absolute $id without fragment
	anchors     map[string]int // absolute $id with fragment
	exprs       map[string]pattern
	exprBytes   int
	expressions int        // patterns seen
	path        path       // where the walk is
	base        *url.URL   // of the subschema it is in
	later       bool       // the schema declares a later draft
	named       []NamedRef // the references to named schemas that are not part of this one
	violations  []Violation
}

// metaSchemaURL is the name of draft-07's meta-schema, the one document beside itself that a schema can refer to.
const metaSchemaURL = "http://json-schema.org/draft-07/schema"

//go:embed draft-07.json
var metaSchema []byte

// meta is the meta-schema as a document; it is never changed.
var meta = sync.OnceValue(func() *value {
	v := ownValue(metaSchema)
	return &v
})

// maxChain limits how many subschemas can apply to one value through each other. With the limit of depth it
// bounds the stack.
const maxChain = 100

func compile(raw json.RawMessage) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil { // our bug, but no reason to end the process
			s, err = nil, &Error{
				[]Violation{{Path: "$", Message: "could not be compiled: the validator failed on this schema"}}}
		}
	}()
	root, _, bad := read(raw, limits{maxSchemaBytes, maxDepth, maxSchemaValues})
	if bad != nil {
		return nil, &Error{[]Violation{bad.violation()}}
	}
	w := &walker{
		root: &root, base: new(url.URL), ids: map[*value]int{}, uris: map[string]int{}, anchors: map[string]int{},
		exprs: map[string]pattern{},
	}
	w.uris[""] = 0
	w.schema(&root)
	for i := 0; i < len(w.nodes); i++ { // resolving may find further ones
		w.resolve(w.nodes[i])
	}
	switch {
	case len(w.violations) > 0:
		return nil, w.err()
	case len(w.named) > 0: // the rest can be checked once they are here
		return &Schema{raw: raw, named: w.named}, nil
	}
	flat := make([]map[string]any, len(w.nodes))
	for i, n := range w.nodes {
		flat[i] = w.flat(n)
	}
	if w.acyclic(); len(w.violations) > 0 {
		return nil, w.err()
	}
	s = &Schema{raw: raw, nodes: make([]*jsonschema.Schema, len(flat))}
	for i, f := range flat {
		s.nodes[i], err = parse(f)
		if err != nil {
			return nil, &Error{[]Violation{{Path: w.nodes[i].path.String(), Message: err.Error()}}}
		}
	}
	return s, nil
}

func (u *unfit) violation() Violation { return Violation{Path: u.at.String(), Message: u.what} }

func (w *walker) err() error {
	return &Error{slices.Compact(w.violations[:min(len(w.violations), maxViolations)])}
}

func (w *walker) problem(format string, args ...any) {
	if len(w.violations) <= maxViolations {
		w.violations = append(w.violations, Violation{Path: w.path.String(), Message: fmt.Sprintf(format, args...)})
	}
}

func (w *walker) at(s step, visit func()) {
	w.path = append(w.path, s)
	visit()
	w.path = w.path[:len(w.path)-1]
}

// schema takes a value for a subschema: numbers it, learns its $id, checks each keyword's shape, goes on to the
// subschemas in it.
func (w *walker) schema(v *value) {
	if _, done := w.ids[v]; done {
		return
	}
	if v.kind != object && v.kind != boolean {
		w.problem("%s is not of type 'object', 'boolean'", v)
		return
	}
	n := &node{value: v, path: slices.Clone(w.path)}
	w.ids[v] = len(w.nodes)
	w.nodes = append(w.nodes, n)
	outer := w.base
	defer func() { w.base = outer }()
	if ref, ok := v.get("$ref"); ok && ref.kind == text {
		n.ref = ref
	} else if id, ok := v.get("$id"); ok && id.kind == text {
		w.at(step{name: "$id", named: true}, func() { w.identify(id.raw, w.ids[v]) })
	}
	n.base = w.base
	if s, ok := v.get("$schema"); ok && s.kind == text && v == w.root {
		w.later = laterDraft(s.raw)
	}
	w.members(v, func(name string, member *value) {
		if shape := shapes[name]; shape != nil {
			shape(w, member)
		}
		if w.later {
			w.misunderstood(name, n)
		}
	})
}

// misunderstood refuses, in a schema that declares a later draft, keywords that mean less in draft-07.
func (w *walker) misunderstood(name string, n *node) {
	if instead, ok := later[name]; ok {
		w.problem("is not known in draft-07, the only draft supported; use %s, or remove the $schema that "+
			"declares a later draft", instead)
	}
	if n.ref != nil && shapes[name] != nil && !beside[name] {
		w.problem("has no effect beside $ref in draft-07, the only draft supported; put the $ref into allOf, or " +
			"remove the $schema that declares a later draft")
	}
}

// identify registers a subschema under its $id.
func (w *walker) identify(id string, number int) {
	u, err := url.Parse(id)
	if err != nil {
		return // its shape says so
	}
	abs := w.base.ResolveReference(u)
	document, anchor := split(abs)
	if strings.HasPrefix(anchor, "/") { // a JSON pointer, as some generators write: it names nothing
		return
	}
	if outer, _ := split(w.base); document != outer {
		w.name(w.uris, document, id, number)
		w.base = abs
	}
	if anchor != "" {
		w.name(w.anchors, document+"#"+anchor, id, number)
	}
}

func (w *walker) name(names map[string]int, name, id string, number int) {
	if first, taken := names[name]; taken {
		w.problem("%s is the $id of %s already", repr(id), w.nodes[first].path)
		return
	}
	names[name] = number
}

// split separates a URI into document and fragment.
func split(u *url.URL) (document, fragment string) {
	bare := *u
	bare.Fragment, bare.RawFragment = "", ""
	return bare.String(), u.Fragment
}

// resolve finds the target of a node's $ref.
func (w *walker) resolve(n *node) {
	if n.ref == nil {
		return
	}
	w.path = append(slices.Clone(n.path), step{name: "$ref", named: true})
	u, err := url.Parse(n.ref.raw)
	if err != nil {
		return // its shape says so
	}
	document, fragment := split(n.base.ResolveReference(u))
	root, ok := w.uris[document]
	if !ok && document == metaSchemaURL {
		w.path, w.base = nil, &url.URL{Scheme: "http", Host: "json-schema.org", Path: "/draft-07/schema"}
		root, ok = len(w.nodes), true
		w.uris[document] = root
		w.builtin()
	}
	name, isName := strings.CutPrefix(document, namedPrefix)
	switch {
	case !ok && isName:
		w.named = append(w.named, NamedRef{name, w.path.String()})
	case !ok:
		w.problem("%s refers to something outside this schema: nothing is fetched, only references into the schema "+
			"itself (#…) are followed", n.ref)
	case fragment == "":
		n.to = root
	case fragment[0] == '/':
		n.to = w.follow(n, w.nodes[root], fragment)
	default:
		n.to, ok = w.anchors[document+"#"+fragment]
		if !ok {
			w.problem("%s refers to nothing: no schema here has the $id '#%s'", n.ref, cut(fragment, maxName))
		}
	}
}

// builtin walks the meta-schema as a part of this schema; its patterns and its $id are its own.
func (w *walker) builtin() {
	seen, later := w.expressions, w.later
	w.later = false
	w.schema(meta())
	w.expressions, w.later = seen, later
}

// follow resolves a JSON pointer. Its target is a schema from then on, even where draft-07 would not expect one.
func (w *walker) follow(n *node, from *node, pointer string) int {
	at, base, trail := from.value, from.base, slices.Clone(from.path)
	for token := range strings.SplitSeq(pointer[1:], "/") {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		next, ok := at.get(name)
		s := step{name: name, named: true}
		if at.kind == array {
			i, err := strconv.Atoi(name)
			ok = err == nil && i >= 0 && i < len(at.kids) && strconv.Itoa(i) == name
			if ok {
				next, s = &at.kids[i], step{index: i}
			}
		}
		if !ok {
			w.problem("%s refers to nothing: there is no %s in %s", n.ref, repr(name), trail)
			return 0
		}
		at, trail = next, append(trail, s)
		if id, ok := w.ids[at]; ok {
			base = w.nodes[id].base
		}
	}
	if at.kind != object && at.kind != boolean {
		w.problem("%s does not refer to a schema: %s is no object or boolean", n.ref, trail)
		return 0
	}
	w.path, w.base = trail, base
	w.schema(at)
	return w.ids[at]
}

// acyclic refuses schemas that apply to the same value again and would never end. It limits their chains, too.
func (w *walker) acyclic() {
	length := make([]int, len(w.nodes)) // of the chain that begins here; 0: not known, -1: under way
	var visit func(id int) int
	visit = func(id int) int {
		if length[id] != 0 {
			return length[id]
		}
		length[id] = -1
		n, longest := w.nodes[id], 0
		w.path = n.path
		for _, next := range n.here {
			l := visit(next)
			w.path = n.path
			if l < 0 {
				w.problem("refers to itself without going deeper into the value: checking it would never end")
				l = 0
			}
			longest = max(longest, l)
		}
		if longest == maxChain {
			w.problem("is the end of a chain of more than %d schemas that apply to the same value", maxChain)
		}
		length[id] = longest + 1
		return length[id]
	}
	for id := range w.nodes {
		visit(id)
	}
}
