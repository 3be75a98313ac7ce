package agent

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"ao/shared/strictjson"
)

// masked replaces a hidden value.
var masked = json.RawMessage(`"` + mask + `"`)

// Masked returns the agent for who may see it and not the secrets of its MCP servers. These are the values below env,
// headers and the like, and what looks like a secret elsewhere.
func (b Blueprint) Masked() Blueprint {
	if len(b.MCPServers) > 0 {
		b.MCPServers = eachMember(b.MCPServers, func(_ string, server json.RawMessage) json.RawMessage {
			return eachMember(server, maskMember)
		})
	}
	return b
}

// holders are the members whose values are hidden, in lower case and without '_'.
var holders = map[string]bool{"env": true, "environment": true, "environmentvariables": true, "headers": true}

// maskMember hides the values of env, headers and the like, at any depth of a server's definition.
func maskMember(name string, value json.RawMessage) json.RawMessage {
	switch {
	case holders[strings.ToLower(strings.ReplaceAll(name, "_", ""))]:
		return eachMember(value, func(string, json.RawMessage) json.RawMessage { return masked })
	case secretName(name):
		return maskSecret(value)
	}
	return maskValue(value)
}

// maskSecret hides the value of a secret's name; of an object, the values of its members, at any depth. Numbers and
// the like are shown there: a port is no secret.
func maskSecret(value json.RawMessage) json.RawMessage {
	switch {
	case len(value) == 0, strings.IndexByte("ntf", value[0]) >= 0:
		return value
	case value[0] != '{':
		return masked
	}
	return eachMember(value, func(name string, v json.RawMessage) json.RawMessage {
		if len(v) > 0 && strings.IndexByte(`"[{`, v[0]) < 0 {
			return maskMember(name, v)
		}
		return maskSecret(v)
	})
}

// maskValue hides the secrets in a value of whatever kind.
func maskValue(value json.RawMessage) json.RawMessage {
	switch {
	case len(value) == 0:
	case value[0] == '{':
		return eachMember(value, maskMember)
	case value[0] == '[':
		return maskItems(value)
	case value[0] == '"':
		return maskString(value)
	}
	return value
}

// maskString hides the secrets in a string: it may be a URL, an argument or a command line.
func maskString(value json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return masked
	}
	hidden := maskText(text)
	if hidden == text {
		return value
	}
	raw, _ := strictjson.Encode(hidden) // a string can always be written
	return raw
}

// maskItems hides the secrets in an array, which may be a list of arguments: also what follows a secret's flag.
func maskItems(array json.RawMessage) json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(array, &items) != nil {
		return masked
	}
	out, before := []byte{'['}, ""
	for i, item := range items {
		var word string
		flag := json.Unmarshal(item, &word) == nil && secretFlag(word)
		if !flag && (secretFlag(before) || hidesNext(before, []string{word})) {
			item = masked
		} else {
			item = maskValue(item)
		}
		before = word
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// eachMember is an object with each value changed, in order. Anything but an object is hidden.
func eachMember(object json.RawMessage,
	change func(name string, value json.RawMessage) json.RawMessage) json.RawMessage {
	members, err := strictjson.Members(object)
	if err != nil {
		return masked
	}
	for i, m := range members {
		members[i].Value = change(m.Key, m.Value)
	}
	return strictjson.Object(members)
}

// MaskedAt returns where in the definitions of MCP servers a mask stands for a secret; empty: nowhere.
func MaskedAt(servers json.RawMessage) string { return maskedAt("mcp_servers", servers) }

func maskedAt(at string, value json.RawMessage) (found string) {
	var text string
	var items []json.RawMessage
	switch {
	case !bytes.Contains(value, []byte(mask)) && !bytes.Contains(value, []byte{'\\'}):
	case json.Unmarshal(value, &text) == nil && strings.Contains(text, mask):
		return at
	case json.Unmarshal(value, &items) == nil:
		for i := 0; i < len(items) && found == ""; i++ {
			found = maskedAt(at+"["+strconv.Itoa(i)+"]", items[i])
		}
	case value[0] == '{':
		members, _ := strictjson.Members(value)
		for i := 0; i < len(members) && found == ""; i++ {
			found = maskedAt(at+"."+members[i].Key, members[i].Value)
		}
	}
	return found
}
