package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

const aboutNewAgent = `Create the folder of a new agent, complete with an example to change.

A procedural agent is a program; its folder belongs into a runner's agents_dir. An autonomous agent is run by a
model; its folder belongs into the coordinator's folder of agents. Without --dir the folder is made where
scripts/up or 'ao up' read such agents, if that is below the current folder. Existing files are never replaced.`

func agentNewCommand(a *app) *cobra.Command {
	var procedural, autonomous bool
	var dir string
	c := &cobra.Command{
		Use: "new NAME --procedural | --autonomous", Short: "Create the folder of a new agent", Long: aboutNewAgent,
		Args:    exactlyOne("the agent's name"),
		Example: "  ao agents new word-count --procedural\n  ao agents new note-taker --autonomous --dir ./agents",
	}
	c.Flags().BoolVar(&procedural, "procedural", false, "a command-line program")
	c.Flags().BoolVar(&autonomous, "autonomous", false, "run by a model")
	c.Flags().StringVar(&dir, "dir", "", "the folder of agents in which to create the agent's folder")
	c.MarkFlagsMutuallyExclusive("procedural", "autonomous")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(_ *cobra.Command, args []string) error {
		name, kind := args[0], run.Autonomous
		switch {
		case procedural:
			kind = run.Procedural
		case !autonomous:
			return usagef("which kind of agent? give --procedural or --autonomous")
		}
		if err := agent.CheckName("agent", name); err != nil {
			return usageError{err}
		}
		parent, err := agentsFolder(dir, kind)
		if err != nil {
			return usageError{err}
		}
		a.parsed = true
		folder := filepath.Join(parent, name)
		if err := writeAgent(folder, name, kind); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]string{"agent_name": name, "folder": folder})
		}
		return a.print(screen.Text(nextSteps(folder, name, kind)))
	}
	return c
}

// agentsFolder returns the folder for a new agent: dir, or the one that scripts/up or 'ao up' read here.
func agentsFolder(dir, kind string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	data := cmp.Or(os.Getenv("AO_DATA_DIR"), ".ao")
	for _, dir := range []string{"worker/agents", filepath.Join(data, "worker/agents")} {
		if info, err := os.Stat(filepath.Join(dir, kind)); err == nil && info.IsDir() {
			return filepath.Join(dir, kind), nil
		}
	}
	return "", fmt.Errorf("there is no folder worker/agents/%s here, nor in %s; name the folder of agents with --dir",
		kind, data)
}

// writeAgent makes the folder of an agent, with the modes of sources in a project. It fails if there is one.
func writeAgent(folder, name, kind string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(folder, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists; use another name, or remove it", folder)
	}
	if err != nil {
		return err
	}
	file := newFile{"agent.system-prompt.md", systemPrompt, 0o644}
	definition := autonomousAgent
	if kind == run.Procedural {
		file, definition = newFile{name, proceduralProgram, 0o755}, proceduralAgent
	}
	// agent.json comes last, by a rename: whoever watches the folder never reads half an agent
	for _, f := range []newFile{file, {".agent.json", definition, 0o644}} {
		text := strings.ReplaceAll(f.text, "NAME", name)
		if err := os.WriteFile(filepath.Join(folder, f.name), []byte(text), f.mode); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(folder, ".agent.json"), filepath.Join(folder, "agent.json"))
}

type newFile struct {
	name, text string
	mode       fs.FileMode
}

func nextSteps(folder, name, kind string) string {
	if kind == run.Procedural {
		return fmt.Sprintf(`%[1]s
  %-[3]*[4]s   what callers see: its description and its parameters
  %-[3]*[2]s   the program, an example in sh; any executable will do

A runner that reads this folder has it within two seconds:
  ao agents show %[2]s
  ao run %[2]s --param text="Hello there"
`, folder, name, max(len(name), len("agent.json")), "agent.json")
	}
	return fmt.Sprintf(`%[1]s
  agent.json               what callers see: its description and the schema of its answers
  agent.system-prompt.md   what the model is told

A coordinator that reads this folder has it within two seconds:
  ao agents show %[2]s
  ao run %[2]s --prompt "What is new?"
`, folder, name)
}

const proceduralAgent = `{
  "name": "NAME",
  "description": "Counts the words of a text",
  "type": "procedural",
  "command": "./NAME",
  "timeout_seconds": 300,
  "parameters_schema": {
    "type": "object",
    "required": ["text"],
    "additionalProperties": false,
    "properties": {
      "text": {"type": "string", "description": "The text"}
    }
  }
}
`

const proceduralProgram = `#!/bin/sh
# NAME gets each parameter as --name VALUE, or as --name=VALUE if the value begins with '-'.
# JSON on stdout is the result. Lines on stderr are shown while it runs. Any exit code but 0 fails the run.
set -eu
text=
while [ $# -gt 0 ]; do
  case $1 in
  --text=*) text=${1#--text=} ;;
  --text) text=$2; shift ;;
  *) echo "NAME: unknown parameter $1" >&2; exit 2 ;;
  esac
  shift
done
echo "NAME: counting" >&2
words=$(printf '%s' "$text" | wc -w)
printf '{"words":%d}\n' "$words"
`

const autonomousAgent = `{
  "name": "NAME",
  "description": "Answers a question in one sentence",
  "type": "autonomous",
  "output_schema": {
    "type": "object",
    "required": ["answer"],
    "properties": {
      "answer": {"type": "string", "description": "The answer, one sentence"},
      "sure": {"type": "boolean", "description": "Whether the answer is certain"}
    }
  }
}
`

const systemPrompt = `You answer questions. The answer is one sentence. Say whether you are sure of it.
`
