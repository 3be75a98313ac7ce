package prompt

import (
	"bytes"
	"encoding/json"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// inputsBlock has a start's fields.
var inputsBlock = newBlock("inputs")

// Text returns the prompt for an autonomous agent's model. If a session starts and the blueprint has a
// parameters_schema, it is an inputs block of all parameters, else the prompt among them. Nothing is expanded: ${X},
// {{x}} and $(x) stay as they are. The error is an Invalid fault that names the field.
func Text(blueprint json.RawMessage, mode string, parameters json.RawMessage) (string, error) {
	var b struct {
		Schema json.RawMessage `json:"parameters_schema"`
	}
	if len(bytes.TrimSpace(blueprint)) > 0 {
		if err := json.Unmarshal(blueprint, &b); err != nil {
			return "", fault.Wrap(fault.Invalid, "", "The agent's blueprint cannot be read: it must be a JSON object",
				err).With("field", "agent_blueprint")
		}
	}
	if mode == executor.Start && len(b.Schema) > 0 && string(b.Schema) != "null" {
		return inputs(parameters)
	}
	members, err := strictjson.Members(parameters)
	for _, m := range members {
		var text string
		if m.Key == "prompt" && m.Value[0] == '"' && json.Unmarshal(m.Value, &text) == nil {
			return text, nil
		}
	}
	return "", fault.Wrap(fault.Invalid, "", "parameters.prompt must be a string: the text for the agent",
		err).With("field", "parameters.prompt")
}

// inputs returns the block of a start's fields, one line each, in the order sent:
//
//	<inputs>
//	topic: AI Safety
//	notes:
//	  the first line
//	  the second
//	tags: ["a","b"]
//	max_words: 200
//	</inputs>
//
// Strings stay as they are, except for possible tags of the block, which are written in square brackets
// (neutralize). A string is written on several lines if any reader could see a line end in it: LF, CR, U+0085,
// U+2028 and others. A key that could be misread is written as a JSON string. It is empty, or has a colon, a line
// end, a quote, a bracket, or spaces around it.
func inputs(parameters json.RawMessage) (string, error) {
	members, err := strictjson.Members(parameters)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "", "parameters must be an object", err).With("field", "parameters")
	}
	body, err := fields(members, key)
	if err != nil {
		return "", err
	}
	if inputsBlock.neutralize(body) != body { // the end of one value and the key after it look like a tag
		body, err = fields(members, quoted)
		if err != nil {
			return "", err
		}
	}
	return "<inputs>\n" + body + "</inputs>", nil
}

// fields writes the lines of a block. No field can start or end it.
func fields(members []strictjson.Member, key func(string) string) (string, error) {
	var b strings.Builder
	for _, m := range members {
		value, err := field(m)
		if err != nil {
			return "", err
		}
		b.WriteString(inputsBlock.neutralize(key(m.Key)))
		b.WriteString(":")
		b.WriteString(inputsBlock.neutralize(value))
		b.WriteString("\n")
	}
	return b.String(), nil
}

// field returns the text after a field's colon.
func field(m strictjson.Member) (string, error) {
	switch m.Value[0] {
	case '"':
		var s string
		if err := json.Unmarshal(m.Value, &s); err != nil {
			return "", fault.Wrap(fault.Invalid, "", "parameters has a string that cannot be read", err).With("field",
				"parameters")
		}
		if strings.ContainsAny(s, breaks) {
			return "\n" + indented(s), nil
		}
		return " " + s, nil
	case '[', '{':
		var b bytes.Buffer
		if err := json.Compact(&b, m.Value); err != nil {
			return "", fault.Wrap(fault.Invalid, "", "parameters has a value that is not JSON", err).With("field",
				"parameters")
		}
		return " " + escapes.Replace(b.String()), nil
	}
	return " " + string(m.Value), nil
}

// breaks are the characters that some reader takes for a line end.
const breaks = "\n\r\v\f\u0085\u2028\u2029"

// escapes escapes those that JSON allows unescaped, so that it stays one line.
var escapes = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// indented indents each line of a text by two spaces.
func indented(text string) string {
	var b strings.Builder
	b.WriteString("  ")
	for i, r := range text {
		if strings.ContainsRune(breaks, r) && !strings.HasPrefix(text[i:], "\r\n") {
			b.WriteRune(r)
			b.WriteString("  ")
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// key returns a field's name, quoted if it could be misread.
func key(name string) string {
	if name == "" || strings.TrimSpace(name) != name || strings.ContainsAny(name, breaks+":\"\\<>&") {
		return quoted(name)
	}
	return name
}

func quoted(name string) string {
	raw, err := strictjson.Encode(name)
	if err != nil { // strings can always be encoded
		panic(err)
	}
	return escapes.Replace(string(raw))
}
