// Package importer reads the agents of claude-agent-orchestrator: a folder each, with agent.json, and perhaps
// agent.system-prompt.md, agent.mcp.json and .disabled beside it.
package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"ao/coordinator/cmd/ao/param"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Agent is what was read from a folder.
type Agent struct {
	Folder     string
	Definition agent.Blueprint
	LeftOut    []string // paths of members that have no counterpart
	Err        error    // why it cannot be imported; Definition is not valid then
}

// Read reads the agent in dir, or those in its folders, in the order of their names. A bad agent has an error of its
// own. The error is for a folder without agents.
func Read(dir string) ([]Agent, error) {
	folders := []string{dir}
	if !hasAgent(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		folders = nil
		for _, e := range entries {
			if folder := filepath.Join(dir, e.Name()); hasAgent(folder) {
				folders = append(folders, folder)
			}
		}
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("%s: neither it nor a folder in it has an agent.json", dir)
	}
	all := make([]Agent, len(folders))
	for i, folder := range folders {
		all[i].Folder = folder
		all[i].Err = all[i].read()
	}
	return all, nil
}

func hasAgent(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, "agent.json"))
	return err == nil
}

// same are the members of agent.json that mean the same here.
var same = []string{"name", "description", "type", "parameters_schema", "output_schema", "output_schema_options",
	"system_prompt", "mcp_servers", "tags", "demands", "command"}

func (a *Agent) read() error {
	raw, err := a.file("agent.json")
	if err != nil {
		return err
	}
	given, err := param.ParseObject(raw)
	if err != nil {
		return fmt.Errorf("agent.json: %w", err)
	}
	var kept []strictjson.Member
	for _, m := range given {
		if slices.Contains(same, m.Key) {
			kept = append(kept, m)
		} else {
			a.leaveOut(m.Key)
		}
	}
	kept, err = a.withServers(kept)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(a.Folder, ".disabled")); err == nil {
		kept = append(kept, strictjson.Member{Key: "status", Value: json.RawMessage(`"` + agent.Inactive + `"`)})
	}
	prompt, err := a.file("agent.system-prompt.md")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	at := filepath.Join(a.Folder, "agent.json")
	a.Definition, err = agent.Files{Path: at, JSON: strictjson.Object(kept), Prompt: prompt}.Blueprint(run.Autonomous)
	f, invalid := errors.AsType[*fault.Fault](err)
	switch {
	case a.Definition.Type == run.Procedural || hasType(kept, run.Procedural):
		return errors.New("it is procedural: copy its folder into a runner's agents_dir, with a command")
	case invalid:
		return errors.New(f.Reason()) // with what is wrong in a schema
	}
	return err
}

// hasType reports whether a definition names this type.
func hasType(members []strictjson.Member, kind string) bool {
	return slices.ContainsFunc(members, func(m strictjson.Member) bool {
		return m.Key == "type" && strictjson.String(m.Value) == kind
	})
}

// file reads a file of the agent's folder, without the byte order mark of some editors.
func (a *Agent) file(name string) ([]byte, error) {
	raw, _, err := agent.ReadFile(a.Folder, filepath.Join(a.Folder, name), maxFile)
	return strictjson.TrimBOM(raw), err
}

// maxFile is the most bytes of a file.
const maxFile = 1 << 20

func (a *Agent) leaveOut(path string) { a.LeftOut = append(a.LeftOut, path) }

// withServers adds the servers of agent.mcp.json to a definition, and translates them.
func (a *Agent) withServers(definition []strictjson.Member) ([]strictjson.Member, error) {
	i := slices.IndexFunc(definition, func(m strictjson.Member) bool { return m.Key == "mcp_servers" })
	raw, err := a.file("agent.mcp.json")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if i < 0 || string(definition[i].Value) == "null" {
			return definition, nil
		}
		raw = definition[i].Value
	case err != nil:
		return nil, err
	case i >= 0:
		return nil, errors.New("mcp_servers is in agent.json, and agent.mcp.json has servers; keep one of them")
	default:
		var file struct {
			Servers json.RawMessage `json:"mcpServers"`
		}
		if err := json.Unmarshal(raw, &file); err != nil || file.Servers == nil {
			return nil, errors.New(`agent.mcp.json must be JSON like {"mcpServers":{…}}`)
		}
		raw, i = file.Servers, len(definition)
		definition = append(definition, strictjson.Member{Key: "mcp_servers"})
	}
	servers, err := param.ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("its MCP servers: %w", err)
	}
	var kept []strictjson.Member
	for _, s := range servers {
		if translated, ok := a.server(s); ok {
			kept = append(kept, translated)
		}
	}
	definition[i].Value = strictjson.Object(kept)
	return definition, nil
}

// server translates an MCP server. It is left out if it is a reference, or names a value that only the original has.
func (a *Agent) server(s strictjson.Member) (strictjson.Member, bool) {
	path := "mcp_servers." + s.Key
	given, err := param.ParseObject(translate(s.Value))
	if err != nil {
		return s, true // the check of the definition says what is wrong
	}
	for i, m := range given {
		switch inner, err := param.ParseObject(m.Value); {
		case m.Key == "ref":
			a.leaveOut(path + " (ref)")
			return s, false
		case err == nil: // headers, env
			given[i].Value = strictjson.Object(slices.DeleteFunc(inner, func(v strictjson.Member) bool {
				missing := placeholder.Find(v.Value)
				if missing != nil {
					a.leaveOut(fmt.Sprintf("%s.%s.%s (%s)", path, m.Key, v.Key, missing))
				}
				return missing != nil
			}))
		case placeholder.Match(m.Value):
			a.leaveOut(fmt.Sprintf("%s (%s)", path, placeholder.Find(m.Value)))
			return s, false
		}
	}
	return strictjson.Member{Key: s.Key, Value: strictjson.Object(given)}, true
}

// placeholder is a value that the original fills in.
var placeholder = regexp.MustCompile(`\$\{[a-z_]+\.[^}]*\}`)

// variable is one that a worker here has as well.
var variable = regexp.MustCompile(`\$\{env\.([A-Za-z_][A-Za-z0-9_]*)\}`)

// translate replaces the placeholders that have a counterpart.
func translate(raw json.RawMessage) json.RawMessage {
	raw = bytes.ReplaceAll(raw, []byte("${runner.orchestrator_mcp_url}"), []byte("${AGENT_ORCHESTRATOR_MCP_URL}"))
	return variable.ReplaceAll(raw, []byte("$${$1}"))
}
