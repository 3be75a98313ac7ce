package agent

import (
	"encoding/json"
	"strings"

	"ao/shared/strictjson"
)

// masked stands for a value that is not shown.
var masked = json.RawMessage(`"••••"`)

// Masked is the agent for who may see it and not its secrets: the values below env and headers of its MCP servers are not shown.
func (b Blueprint) Masked() Blueprint {
	if len(b.MCPServers) > 0 {
		b.MCPServers = eachMember(b.MCPServers, func(_ string, server json.RawMessage) json.RawMessage {
			return eachMember(server, maskMember)
		})
	}
	return b
}

// maskMember hides the values of env and headers, however deep they are in a server's definition.
func maskMember(name string, value json.RawMessage) json.RawMessage {
	if strings.EqualFold(name, "env") || strings.EqualFold(name, "headers") {
		return eachMember(value, func(string, json.RawMessage) json.RawMessage { return masked })
	}
	return maskBelow(value)
}

// maskBelow hides what is below env and headers, in whatever objects and arrays they are.
func maskBelow(value json.RawMessage) json.RawMessage {
	switch {
	case len(value) > 0 && value[0] == '{':
		return eachMember(value, maskMember)
	case len(value) > 0 && value[0] == '[':
		return eachItem(value, maskBelow)
	}
	return value
}

// eachItem is an array with each value changed.
func eachItem(array json.RawMessage, change func(json.RawMessage) json.RawMessage) json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(array, &items) != nil {
		return masked
	}
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, change(item)...)
	}
	return append(out, ']')
}

// eachMember is an object with each value changed, in the same order. What is no object is hidden as a whole.
func eachMember(object json.RawMessage, change func(name string, value json.RawMessage) json.RawMessage) json.RawMessage {
	members, err := strictjson.Members(object)
	if err != nil {
		return masked
	}
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(m.Key) // a string can always be written
		out = append(append(append(out, name...), ':'), change(m.Key, m.Value)...)
	}
	return append(out, '}')
}
