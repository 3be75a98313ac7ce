package httpapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"ao/coordinator/agents"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
)

// typeSchemas makes JSON Schemas (2020-12) of Go types as encoding/json encodes them.
type typeSchemas struct {
	made obj // of components/schemas
}

// free are types that encode themselves.
var free = map[reflect.Type]obj{
	reflect.TypeFor[time.Time]():       {"type": "string", "format": "date-time"},
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[fault.Fault](): {
		"type": "object", "required": []string{"error", "message"}, "additionalProperties": true,
		"description": "An error: a code for programs, a message for people, and further fields by code.",
		"properties": obj{
			"error": obj{"type": "string"}, "message": obj{"type": "string"},
			"field": obj{"type": "string", "description": "what to correct"},
		},
	},
	reflect.TypeFor[run.Event](): {
		"type": "object", "required": []string{"event_type", "session_id", "run_id", "timestamp"},
		"additionalProperties": true,
		"description":          "An event of a session; its other fields depend on event_type.",
		"properties": obj{
			"event_type": obj{"type": "string"}, "session_id": obj{"type": "string"}, "run_id": obj{"type": "string"},
			"timestamp": obj{"type": "string", "format": "date-time"},
		},
	},
}

// of returns the schema of a value's type.
func (s *typeSchemas) of(v any) obj {
	if all, ok := v.(either); ok {
		var options []obj
		for _, one := range all {
			options = append(options, s.of(one))
		}
		return obj{"anyOf": options}
	}
	return s.schema(reflect.TypeOf(v))
}

// schema returns a reference where the type has a name in the document.
func (s *typeSchemas) schema(t reflect.Type) obj {
	if name := names[t]; name != "" {
		if s.made[name] == nil {
			s.made[name] = obj{} // a type that holds itself
			s.made[name] = s.whole(t)
		}
		return obj{"$ref": "#/components/schemas/" + name}
	}
	return s.whole(t)
}

func (s *typeSchemas) whole(t reflect.Type) obj {
	if known, ok := free[t]; ok {
		return maps.Clone(known)
	}
	if t == reflect.TypeFor[agentOrBad]() {
		return obj{"anyOf": []obj{s.of(agents.View{}), s.of(agent.BrokenFile{})}}
	}
	if values := enums[t]; values != nil {
		return obj{"type": "string", "enum": values}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(s.schema(t.Elem()))
	case reflect.Struct:
		return s.object(t)
	case reflect.Map:
		return obj{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Slice, reflect.Array:
		return obj{"type": "array", "items": s.schema(t.Elem())}
	case reflect.String:
		return obj{"type": "string"}
	case reflect.Bool:
		return obj{"type": "boolean"}
	case reflect.Float64, reflect.Float32:
		return obj{"type": "number"}
	case reflect.Interface:
		return obj{}
	}
	return obj{"type": "integer"}
}

func orNull(schema obj) obj { return obj{"anyOf": []obj{schema, {"type": "null"}}} }

// object describes a struct: members without omitempty are always there.
func (s *typeSchemas) object(t reflect.Type) obj {
	properties, required := obj{}, []string{}
	kind := cmp.Or(names[t], alike[t])
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		optional := strings.Contains(options, "omit")
		inner := f.Type
		if optional && inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		member := maps.Clone(s.schema(inner))
		if text := cmp.Or(descriptions[kind+"."+name], descriptions[name]); text != "" {
			member["description"] = text
		}
		if known := values[kind+"."+name]; known != nil {
			member["enum"] = known
		}
		properties[name] = member
		if !optional && len(f.Index) <= 2 {
			required = append(required, name)
		}
	}
	o := obj{"type": "object", "properties": properties}
	if slices.Sort(required); len(required) > 0 {
		o["required"] = required
	}
	return o
}

// request describes a request's body: the members and aliases of its type, and which are required. Others are refused.
// No string is empty, unless its field allows that (strictjson.DecodeFilled).
func (s *typeSchemas) request(b body) obj {
	t := reflect.TypeOf(b.in)
	o := s.whole(t)
	if o["properties"] == nil {
		return o
	}
	o["additionalProperties"] = false
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if member, ok := o["properties"].(obj)[name].(obj); ok && f.Type.Kind() == reflect.String &&
			f.Tag.Get("empty") != "kept" {
			member["minLength"] = 1
		}
	}
	delete(o, "required")
	if len(b.must) > 0 {
		o["required"] = b.must
	}
	for _, name := range b.not {
		delete(o["properties"].(obj), name)
	}
	maps.Copy(o["properties"].(obj), b.more)
	return o
}
