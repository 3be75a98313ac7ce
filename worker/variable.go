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

// codeVariable is the code of the error that a blueprint names a variable that is not known.
const codeVariable = "unknown_variable"

// reference is a variable in a string of a blueprint's mcp_servers.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// filled is the run's blueprint with the variables in the strings of its mcp_servers put in, from the environment of its executor: there
// alone, and in one pass, so that no value is looked at again. Nothing that a caller sent is touched. A variable that is not known
// fails the run.
func filled(p profile.Profile, inv executor.Invocation, env []string) (json.RawMessage, error) {
	if !bytes.Contains(inv.Blueprint, []byte("${")) { // nearly all, and every run comes by here
		return inv.Blueprint, nil
	}
	members, err := strictjson.Members(inv.Blueprint)
	i := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == "mcp_servers" })
	if err != nil || i < 0 || !bytes.Contains(members[i].Value, []byte("${")) {
		return inv.Blueprint, nil
	}
	members[i].Value, err = (&filling{profile: p, agent: inv.AgentName, env: env}).fill("mcp_servers", members[i].Value)
	if err != nil {
		return nil, err
	}
	return strictjson.Object(members), nil
}

// filling is a blueprint's mcp_servers while variables are put in.
type filling struct {
	profile profile.Profile
	agent   string
	env     []string
}

// fill puts the variables into all strings of a value, which stands at path.
func (f *filling) fill(path string, raw json.RawMessage) (json.RawMessage, error) {
	switch raw = bytes.TrimSpace(raw); raw[0] {
	case '{':
		members, err := strictjson.Members(raw)
		for i := 0; err == nil && i < len(members); i++ {
			members[i].Value, err = f.fill(path+"."+members[i].Key, members[i].Value)
		}
		return strictjson.Object(members), err
	case '[':
		var items []json.RawMessage
		err := json.Unmarshal(raw, &items)
		for i := 0; err == nil && i < len(items); i++ {
			items[i], err = f.fill(fmt.Sprintf("%s[%d]", path, i), items[i])
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
			value, err := f.variable(path, ref[2:len(ref)-1])
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

// variable is the value of one.
func (f *filling) variable(path, name string) (string, error) {
	for _, e := range f.env {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, nil
		}
	}
	fix := fmt.Sprintf(`add %q to "env" of the profile %q, or take it out of the agent`, name, f.profile.Name)
	if slices.Contains(f.profile.Env, name) {
		fix = fmt.Sprintf("it is in \"env\" of the profile %q; set it for the worker", f.profile.Name)
	}
	return "", fault.New(fault.Internal, codeVariable, fmt.Sprintf("%s of agent %q names ${%s}, which is not known on this worker: %s", path, f.agent, name, fix)).
		With("variable", name)
}
