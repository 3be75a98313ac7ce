package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/strictjson"
	"ao/worker/profile"
)

// codeVariable is the error code of a blueprint that names an unknown variable.
const codeVariable = "unknown_variable"

// reference matches a variable in a string of a blueprint's mcp_servers.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// withVariables returns the run's blueprint with the variables in its mcp_servers replaced from the executor's
// environment. It replaces in one pass, so values are not expanded again, and nothing outside mcp_servers. An unknown
// variable fails the run.
func withVariables(p profile.Profile, inv executor.Invocation, env []string) (json.RawMessage, error) {
	if !bytes.Contains(inv.Blueprint, []byte("${")) { // the fast path of nearly all runs
		return inv.Blueprint, nil
	}
	members, err := strictjson.Members(inv.Blueprint)
	i := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == "mcp_servers" })
	if err != nil || i < 0 || !bytes.Contains(members[i].Value, []byte("${")) {
		return inv.Blueprint, nil
	}
	members[i].Value, err = (&substitution{profile: p, agent: inv.AgentName, env: env}).replace("mcp_servers",
		members[i].Value)
	if err != nil {
		return nil, err
	}
	return strictjson.Object(members), nil
}

// substitution replaces the variables in a blueprint's mcp_servers.
type substitution struct {
	profile profile.Profile
	agent   string
	env     []string
}

// replace replaces the variables in all strings of a value; path is for errors.
func (f *substitution) replace(path string, raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '{':
		members, err := strictjson.Members(raw)
		for i := 0; err == nil && i < len(members); i++ {
			members[i].Value, err = f.replace(path+"."+members[i].Key, members[i].Value)
		}
		return strictjson.Object(members), err
	case '[':
		var items []json.RawMessage
		err := json.Unmarshal(raw, &items)
		for i := 0; err == nil && i < len(items); i++ {
			items[i], err = f.replace(fmt.Sprintf("%s[%d]", path, i), items[i])
		}
		if err != nil {
			return nil, err
		}
		return strictjson.Encode(items)
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var unknown error
		s = reference.ReplaceAllStringFunc(s, func(ref string) string {
			value, err := f.value(path, ref[2:len(ref)-1])
			if unknown == nil {
				unknown = err
			}
			return value
		})
		if unknown != nil {
			return nil, unknown
		}
		return strictjson.Encode(s)
	}
	return raw, nil
}

func (f *substitution) value(path, name string) (string, error) {
	for _, e := range f.env {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, nil
		}
	}
	fix := fmt.Sprintf(`add %q to "env" of the profile %q, or remove it from the agent`, name, f.profile.Name)
	if slices.Contains(f.profile.Env, name) {
		fix = fmt.Sprintf("it is in \"env\" of the profile %q; set it for the worker", f.profile.Name)
	}
	return "", fault.New(fault.Internal, codeVariable,
		fmt.Sprintf("%s of agent %q names the variable ${%s}, which this worker does not have: %s", path, f.agent, name,
			fix)).With("variable", name)
}
