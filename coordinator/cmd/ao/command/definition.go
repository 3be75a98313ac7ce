package command

import (
	"context"
	"encoding/json"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"

	"github.com/spf13/cobra"
)

// runDefinition is an answer of GET /runs/{id}/definition.
type runDefinition struct {
	Hash       string          `json:"agent_hash"`
	Changed    *bool           `json:"agent_changed"`
	Definition json.RawMessage `json:"definition"`
}

func definitionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "definition RUN", Short: "Show the agent's definition that a run runs, or ran", Args: oneRun,
		Long: `Show the agent's definition as the run was accepted with, also if the agent has changed since or is
deleted. Secrets of its MCP servers are masked unless the token has scope admin. With --json the API's document.`,
		Example:           "  ao definition run_…\n  ao runs --agent-hash HASH   # the runs of the same definition",
		ValidArgsFunction: completer{a}.runs,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			doc, err := a.once.Read(ctx, nil, "runs", args[0], "definition")
			return show(a, doc, err, showDefinition)
		}),
	}
}

func showDefinition(a *app, d runDefinition) error {
	var b agent.Blueprint
	if err := json.Unmarshal(d.Definition, &b); err != nil {
		return err
	}
	switch {
	case d.Changed == nil:
		a.note("NATS does not tell whether the agent has changed since")
	case *d.Changed:
		a.note("the agent has changed since, or is deleted: 'ao agents show %s'", screen.Line(b.Name))
	}
	var f screen.Facts
	f.Add("agent hash", d.Hash, "definition", screen.JSON([]byte(indented(d.Definition))))
	return a.print(f.String())
}
