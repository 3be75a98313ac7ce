package testexec

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"ao/shared/strictjson"
)

// requiredFormat begins what the system says about the output schema, see the package prompt.
const requiredFormat = "## Required Output Format"

// makeAnswer answers a prompt without directives: a value for the output schema in the system prompt or the prompt,
// else the prompt itself.
func (t *turn) makeAnswer() *string {
	var blueprint struct {
		SystemPrompt string `json:"system_prompt"`
	}
	_ = json.Unmarshal(t.inv.Blueprint, &blueprint)
	for _, text := range []string{blueprint.SystemPrompt, t.inv.Prompt} {
		if schema := outputSchema(text); schema != nil {
			made := string(sample(schema, schema))
			return &made
		}
	}
	again := "There is no model here (ao-test-exec). The prompt was: " + t.inv.Prompt
	return &again
}

// outputSchema returns the schema that the system tells in a prompt, first or with the errors of an answer.
func outputSchema(text string) json.RawMessage {
	for _, at := range [][2]string{{requiredFormat, "json\n"}, {"\n## Required Schema:", "\n"}} {
		_, rest, _ := strings.Cut(text, at[0])
		_, rest, found := strings.Cut(rest, at[1])
		var schema json.RawMessage
		if found && json.NewDecoder(strings.NewReader(rest)).Decode(&schema) == nil {
			return schema
		}
	}
	return nil
}

var formats = map[string]string{
	"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "email": "someone@example.com",
	"hostname": "example.com",
	"ipv4":     "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/a",
	"json-pointer": "/a", "regex": "a",
}

// schemaDoc is the part of a JSON Schema that samples are made from.
type schemaDoc struct {
	Ref              string          `json:"$ref"`
	Type             json.RawMessage `json:"type"`
	Const            json.RawMessage `json:"const"`
	Enum             []json.RawMessage
	AnyOf            []json.RawMessage `json:"anyOf"`
	OneOf            []json.RawMessage `json:"oneOf"`
	Properties       json.RawMessage   `json:"properties"`
	Required         []string          `json:"required"`
	Items            json.RawMessage   `json:"items"`
	MinItems         int               `json:"minItems"`
	MinLength        int               `json:"minLength"`
	MaxLength        *int              `json:"maxLength"`
	Format           string            `json:"format"`
	Minimum          *float64          `json:"minimum"`
	ExclusiveMinimum *float64          `json:"exclusiveMinimum"`
	Maximum          *float64          `json:"maximum"`
	Multiple         float64           `json:"multipleOf"`
}

// maxSample is the approximate size limit of a sample, in bytes; maxSteps limits the number of values in it.
const (
	maxSample = 256 << 10
	maxSteps  = 2_000
)

// sample returns a value for a schema, always the same. A schema with other keywords, or a larger minimum, may reject
// it.
func sample(schema, root json.RawMessage) json.RawMessage {
	m := sampler{root, root, maxSteps, maxSample}
	return m.sample(schema, 0)
}

type sampler struct {
	whole, root   json.RawMessage // the schema, and the one in which references without a name begin
	steps, budget int             // remaining values and bytes
}

func (m *sampler) sample(schema json.RawMessage, depth int) json.RawMessage {
	m.steps--
	var s schemaDoc
	if depth > 12 || m.steps < 0 || m.budget < 0 || json.Unmarshal(schema, &s) != nil {
		return json.RawMessage("null")
	}
	choices := slices.Concat(s.AnyOf, s.OneOf)
	switch {
	case s.Ref != "":
		return m.follow(s.Ref, depth+1)
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(choices) > 0:
		return m.sample(choices[0], depth+1)
	}
	kind := strings.Trim(string(s.Type), `"`)
	var kinds []string
	if json.Unmarshal(s.Type, &kinds) == nil && len(kinds) > 0 {
		kind = kinds[0]
	}
	if kind == "" && (s.Properties != nil || len(s.Required) > 0) {
		kind = "object"
	}
	switch kind {
	case "object":
		return m.object(s, depth)
	case "array":
		items := s.Items
		if items == nil {
			items = json.RawMessage(`{"type":"string"}`)
		}
		one := string(m.sample(items, depth+1)) + ","
		n := max(min(s.MinItems, m.budget/len(one)), 1)
		m.budget -= n * len(one)
		return json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(one, n), ",") + "]")
	case "integer", "number":
		return json.RawMessage(s.number(kind == "integer"))
	case "boolean":
		return json.RawMessage("true")
	case "null":
		return json.RawMessage("null")
	}
	raw, _ := strictjson.Encode(s.text(m.budget))
	m.budget -= len(raw)
	return raw
}

func (m *sampler) object(s schemaDoc, depth int) json.RawMessage {
	members, _ := strictjson.Members(s.Properties)
	for i := range members {
		members[i].Value = m.sample(members[i].Value, depth+1)
		m.budget -= len(members[i].Key)
	}
	for _, name := range s.Required {
		if !slices.ContainsFunc(members, func(m strictjson.Member) bool { return m.Key == name }) {
			members = append(members, strictjson.Member{Key: name, Value: json.RawMessage(`"sample"`)})
		}
	}
	return strictjson.Object(members)
}

// number returns the smallest allowed number, else the largest, else zero.
func (s schemaDoc) number(whole bool) string {
	n := 0.0
	switch {
	case s.Minimum != nil:
		n = *s.Minimum
	case s.ExclusiveMinimum != nil:
		n = *s.ExclusiveMinimum + 1
	case s.Maximum != nil:
		n = min(*s.Maximum, 0)
	}
	if whole {
		n = math.Ceil(n)
	}
	if s.Multiple > 0 {
		n = math.Ceil(n/s.Multiple) * s.Multiple
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// text returns a text of the required length, limited by budget.
func (s schemaDoc) text(room int) string {
	if v, ok := formats[s.Format]; ok {
		return v
	}
	v := "sample"
	if short := min(s.MinLength, room) - len(v); short > 0 {
		v += strings.Repeat(" text", (short+4)/5)
	}
	if s.MaxLength != nil && len(v) > *s.MaxLength {
		v = v[:max(*s.MaxLength, 0)]
	}
	return v
}

// follow returns a value for the target of a reference.
func (m *sampler) follow(ref string, depth int) json.RawMessage {
	name, path, _ := strings.Cut(ref, "#")
	inner := *m
	if name != "" {
		inner.root = named(m.whole, name)
	}
	at := inner.root
	for _, step := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil {
			return json.RawMessage(`"the reference leads nowhere"`)
		}
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	made := inner.sample(at, depth)
	m.steps, m.budget = inner.steps, inner.budget
	return made
}

// named returns the definition that has an $id; nil: none has it.
func named(schema json.RawMessage, id string) json.RawMessage {
	var s struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	_ = json.Unmarshal(schema, &s)
	for _, d := range s.Definitions {
		var of struct {
			ID string `json:"$id"`
		}
		if json.Unmarshal(d, &of) == nil && of.ID == id {
			return d
		}
	}
	return nil
}
