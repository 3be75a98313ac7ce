package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"ao/coordinator/cmd/ao/connection"
	"ao/coordinator/cmd/ao/importer"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"
	client "ao/shared/clients/go"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

const aboutImport = `Create the agents of claude-agent-orchestrator: DIR is an agent's folder, or a folder of them.

What has no counterpart here is left out and listed. An agent that cannot be imported is named with the reason, and the
others are imported; the exit code is 1 then. An agent of the same name is not replaced.`

func agentImportCommand(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "import DIR", Short: "Create agents from folders of claude-agent-orchestrator", Long: aboutImport,
		Args:    exactlyOne("a folder of agents"),
		Example: "  ao agents import config/agents --dry-run\n  ao agents import config/agents/web-researcher",
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "create nothing, only check; with --json, print the definitions")
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		all, err := importer.Read(args[0])
		if err != nil {
			return usageError{err}
		}
		failed, store := 0, createAgent
		if dry {
			store = newDryRun()
		}
		for _, one := range all {
			if one.Err == nil {
				one.Err = store(ctx, a, one)
				if reason := connection.Reason(one.Err); reason != "" {
					return one.Err
				}
			}
			if one.Err != nil {
				failed++
			}
			if err := reportImport(a, one, dry); err != nil {
				return err
			}
		}
		if failed > 0 {
			a.note("not imported: %d of %d", failed, len(all))
			return exitCode(exitFailed)
		}
		return nil
	})
	return c
}

// newDryRun returns a function that checks an agent as createAgent would. Without a coordinator it compares only the
// names of the import.
func newDryRun() func(context.Context, *app, importer.Agent) error {
	folders, alone := map[string]string{}, false
	return func(ctx context.Context, a *app, one importer.Agent) error {
		name := one.Definition.Name
		if first, taken := folders[name]; taken {
			return fmt.Errorf("the name %q is that of %s, too", name, first)
		}
		folders[name] = one.Folder
		if alone {
			return nil
		}
		err := checkNew(ctx, a, one.Definition)
		if connection.Reason(err) != "" {
			alone = true
			a.note("without a coordinator, names and schemas that it has are not checked")
			return nil
		}
		return err
	}
}

// checkNew asks the coordinator whether it would create an agent.
func checkNew(ctx context.Context, a *app, definition agent.Blueprint) error {
	_, err := a.once.Read(ctx, nil, "agents", definition.Name)
	if refused, ok := connection.Refusal(err); err == nil {
		return fmt.Errorf("agent %q exists already", definition.Name)
	} else if !ok || refused.Status != http.StatusNotFound {
		return err
	}
	body, err := strictjson.Encode(map[string]any{"definition": definition})
	if err == nil {
		_, err = a.once.Do(ctx, client.Call{Method: http.MethodPost, Path: []string{"agents", "preview"}, Body: body})
	}
	return err
}

func createAgent(ctx context.Context, a *app, one importer.Agent) error {
	body, err := strictjson.Encode(one.Definition)
	if err == nil {
		_, err = a.once.Do(ctx, client.Call{Method: http.MethodPost, Path: []string{"agents"}, Body: body})
	}
	return err
}

// imported is what 'ao agents import --json' prints of an agent.
type imported struct {
	Folder     string           `json:"folder"`
	Name       string           `json:"agent_name,omitempty"`
	LeftOut    []string         `json:"left_out,omitempty"`
	Definition *agent.Blueprint `json:"definition,omitempty"` // with --dry-run
	Error      json.RawMessage  `json:"error,omitempty"`
}

func reportImport(a *app, one importer.Agent, dry bool) error {
	row := imported{Folder: one.Folder, Name: one.Definition.Name, LeftOut: one.LeftOut}
	lines := []string{row.Name + ": imported"}
	switch {
	case one.Err != nil:
		p := a.problem("", one.Err)
		row.Error, row.Name = p.doc, ""
		lines = append([]string{screen.Line(one.Folder) + ": not imported: " + p.lines[0]}, p.lines[1:]...)
	case dry:
		row.Definition = &one.Definition
		lines[0] = row.Name + ": can be imported"
	}
	if a.json {
		return a.printJSON(row)
	}
	if len(one.LeftOut) > 0 {
		lines = append(lines, "  left out: "+screen.Line(strings.Join(one.LeftOut, ", ")))
	}
	return a.print(screen.Text(strings.Join(lines, "\n")), "\n")
}
