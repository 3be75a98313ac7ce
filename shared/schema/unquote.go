package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"ao/shared/strictjson"
)

// kindKeywords are the keywords that refuse a string because another kind of value is wanted.
var kindKeywords = []string{"type", "anyOf", "oneOf"}

// Unquote reads the JSON in an object's members that are the text of an object or a list. It does so where the schema
// takes that and no string. Models send such texts. Everything else keeps its bytes.
func (s *Schema) Unquote(raw json.RawMessage) json.RawMessage {
	members, err := strictjson.Members(raw)
	if err != nil {
		return raw
	}
	candidates := map[int]json.RawMessage{}
	for i, m := range members {
		if inner := unquoted(m.Value); inner != nil {
			candidates[i] = inner
		}
	}
	if len(candidates) == 0 {
		return raw
	}
	before := s.wrongKinds(raw)
	if len(before) == 0 {
		return raw
	}
	instead := slices.Clone(members)
	for i, inner := range candidates {
		instead[i].Value = inner
	}
	after, changed := s.wrongKinds(strictjson.Object(instead)), false
	for i, inner := range candidates {
		if at := (path{{name: members[i].Key, named: true}}).String(); before[at] && !after[at] {
			members[i].Value, changed = inner, true
		}
	}
	if !changed {
		return raw
	}
	return strictjson.Object(members)
}

// wrongKinds returns the paths of the values that are of another kind than the schema wants.
func (s *Schema) wrongKinds(raw json.RawMessage) map[string]bool {
	all := map[string]bool{}
	for _, v := range s.CheckUpTo(raw, int64(len(raw))) {
		if slices.Contains(kindKeywords, v.SchemaPath[strings.LastIndexByte(v.SchemaPath, '.')+1:]) {
			all[v.Path] = true
		}
	}
	return all
}

// unquoted returns the object or list that a JSON string is the text of; nil: it is none. A text that cannot be kept
// as it came, because it has half of a surrogate pair, is none.
func unquoted(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '"' || strictjson.HalfSurrogate(raw) {
		return nil
	}
	inner := bytes.TrimSpace(strictjson.StringBytes(raw))
	if len(inner) == 0 || inner[0] != '{' && inner[0] != '[' || strictjson.Check(inner) != nil {
		return nil
	}
	return inner
}
