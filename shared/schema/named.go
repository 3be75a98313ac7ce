package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ao/shared/strictjson"
)

// namedPrefix begins a reference to a named schema: {"$ref":"schema:NAME"}.
const namedPrefix = "schema:"

// maxNamed is how many named schemas one schema may need. Each is looked up.
const maxNamed = 64

// NamedRef is a reference to a named schema.
type NamedRef struct {
	Name string
	at   string // where it stands
}

func (r NamedRef) errorf(format string, args ...any) error {
	return &Error{[]Violation{{Path: r.at, Message: repr(namedPrefix+r.Name) + " " + fmt.Sprintf(format, args...)}}}
}

// NamedRefs checks a schema that may refer to named ones, and returns these references. It does not look them up.
func NamedRefs(raw json.RawMessage) ([]NamedRef, error) {
	s, err := known.compile(raw)
	if err != nil {
		return nil, err
	}
	return s.named, nil
}

// Names returns the names of the schemas that a schema refers to; none of one that is wrong.
func Names(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return nil
	}
	refs, _ := NamedRefs(raw)
	var all []string
	for _, r := range refs {
		all = append(all, r.Name)
	}
	return all
}

// Embed returns the schema with every named schema in it that it refers to, and those that they refer to. lookup
// returns one by name; nil: there is none. The result is a schema that Compile takes. It is raw itself where that
// refers to none. What is wrong with the schema is an *Error; other errors are lookup's.
func Embed(raw json.RawMessage, lookup func(name string) (json.RawMessage, error)) (json.RawMessage, error) {
	refs, err := NamedRefs(raw)
	if err != nil || len(refs) == 0 {
		return raw, err
	}
	e := embedding{lookup: lookup, size: len(raw), texts: map[string]json.RawMessage{}}
	for _, r := range refs {
		if err := e.add(r, r.Name, nil); err != nil {
			return nil, err
		}
	}
	whole := e.into(raw)
	if _, err := Compile(whole); err != nil {
		return nil, err
	}
	return whole, nil
}

// embedding collects the named schemas that a schema needs.
type embedding struct {
	lookup func(name string) (json.RawMessage, error)
	size   int // of all texts
	names  []string
	texts  map[string]json.RawMessage
}

// add looks up a named schema and those that it refers to. outer is the schema's reference that leads to it, and above
// are the named schemas on the way.
func (e *embedding) add(outer NamedRef, name string, above []string) error {
	if slices.Contains(above, name) {
		circle := append(slices.Clone(above[slices.Index(above, name):]), name)
		return outer.errorf("leads to schemas that refer to each other in a circle: %s", strings.Join(circle, " → "))
	}
	if _, done := e.texts[name]; done {
		return nil
	}
	if len(e.names) == maxNamed {
		return outer.errorf("is one too many: a schema may need at most %d named ones", maxNamed)
	}
	text, err := e.lookup(name)
	if err != nil {
		return err
	}
	if text == nil {
		return outer.errorf("refers to nothing: there is no schema of the name %s", repr(name))
	}
	if e.size += len(text); e.size > maxSchemaBytes {
		return outer.errorf("makes the schema too large: with all that it refers to it has at least %d bytes, at most "+
			"%d are allowed", e.size, maxSchemaBytes)
	}
	refs, err := NamedRefs(text)
	if err != nil {
		return outer.errorf("needs schema %s, which is wrong: %s", repr(name), err)
	}
	e.names, e.texts[name] = append(e.names, name), text
	for _, r := range refs {
		if err := e.add(outer, r.Name, append(slices.Clip(above), name)); err != nil {
			return err
		}
	}
	return nil
}

// into returns a schema with the named ones as definitions, each under its own $id. One that is nothing but a reference
// to a named schema becomes that schema, which is easier to read.
func (e *embedding) into(root json.RawMessage) json.RawMessage {
	for name := onlyRef(root); name != ""; name = onlyRef(root) {
		e.names = slices.DeleteFunc(e.names, func(n string) bool { return n == name })
		root = e.texts[name]
	}
	if len(e.names) == 0 {
		return root
	}
	members, _ := strictjson.Members(root) // it refers to something, so it is an object
	at := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == "definitions" })
	if at < 0 {
		at = len(members)
		members = append(members, strictjson.Member{Key: "definitions", Value: json.RawMessage(`{}`)})
	}
	definitions, _ := strictjson.Members(members[at].Value)
	for _, name := range e.names {
		key := namedPrefix + name // found by its $id, so another one does as well
		for slices.ContainsFunc(definitions, func(m strictjson.Member) bool { return m.Key == key }) {
			key += "_"
		}
		definitions = append(definitions, strictjson.Member{Key: key,
			Value: identified(namedPrefix+name, e.texts[name])})
	}
	members[at].Value = strictjson.Object(definitions)
	return strictjson.Object(members)
}

// onlyRef returns the named schema that a schema stands for; empty: it is more than that.
func onlyRef(raw json.RawMessage) string {
	members, err := strictjson.Members(raw)
	if err != nil || len(members) != 1 || members[0].Key != "$ref" {
		return ""
	}
	name, _ := strings.CutPrefix(strictjson.String(members[0].Value), namedPrefix)
	if namedPrefix+name != strictjson.String(members[0].Value) || strings.Contains(name, "#") {
		return ""
	}
	return name
}

// identified returns a schema that has the $id, so that its references into itself stay such. Its own $id goes, unless
// it refers to itself by that: many schemas have the same one from a generator. What stands beside a $ref means nothing
// in draft-07; only definitions are kept.
func identified(id string, raw json.RawMessage) json.RawMessage {
	members, err := strictjson.Members(raw)
	has := func(key string) bool {
		return slices.ContainsFunc(members, func(m strictjson.Member) bool { return m.Key == key })
	}
	head := strictjson.Member{Key: "$id", Value: quotedJSON(nil, id)}
	all := func(of ...[]byte) strictjson.Member {
		return strictjson.Member{Key: "allOf", Value: slices.Concat([]byte("["), bytes.Join(of, nil), []byte("]"))}
	}
	if !refersAway(raw) {
		members = slices.DeleteFunc(members, func(m strictjson.Member) bool { return m.Key == "$id" })
	}
	switch {
	case err != nil, has("$id") && !has("$ref"):
		return strictjson.Object([]strictjson.Member{head, all(raw)})
	case has("$ref"):
		kept := []strictjson.Member{head}
		for _, m := range members {
			switch m.Key {
			case "$ref":
				kept = append(kept, all([]byte(`{"$ref":`), m.Value, []byte("}")))
			case "definitions":
				kept = append(kept, m)
			}
		}
		return strictjson.Object(kept)
	}
	return strictjson.Object(append([]strictjson.Member{head}, members...))
}

var reference = regexp.MustCompile(`"\$ref"\s*:\s*"([^"]*)`)

// refersAway reports whether a schema refers to something by an address that is neither in itself nor a named schema's.
func refersAway(raw json.RawMessage) bool {
	return slices.ContainsFunc(reference.FindAllSubmatch(raw, -1), func(m [][]byte) bool {
		return !bytes.HasPrefix(m[1], []byte("#")) && !bytes.HasPrefix(m[1], []byte(namedPrefix))
	})
}
