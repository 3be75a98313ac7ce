package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ao/coordinator/cmd/ao/param"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"
	client "ao/shared/clients/go"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

func agentsCommand(a *app) *cobra.Command {
	var status string
	var broken bool
	c := &cobra.Command{Use: "agents", Short: "List agents; show, create, change and delete them", Args: noArguments}
	c.Flags().StringVar(&status, "status", "", "active, inactive or broken")
	c.Flags().BoolVar(&broken, "broken", false, "only definitions that cannot be used, with the reason; runners' too")
	c.MarkFlagsMutuallyExclusive("status", "broken")
	completeFlag(c, "status", cobra.FixedCompletions([]string{agent.Active, agent.Inactive, agent.Broken}, noFiles))
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		if broken {
			status = agent.Broken
		}
		q := url.Values{}
		if status != "" {
			q.Set("status", status)
		}
		p, err := a.once.List(ctx, "agents", q, "agents")
		switch {
		case err != nil:
			return err
		case status == agent.Broken:
			return listBroken(a, p)
		case status != "" || a.json:
			return listAgents(a, p, nil)
		}
		broken, err := a.once.List(ctx, "agents", url.Values{"status": {agent.Broken}}, "agents")
		if err == nil {
			err = listAgents(a, p, broken.Items)
		}
		if err == nil && len(broken.Items) > 0 {
			a.note("broken definitions: %d; 'ao agents --broken' says why", len(broken.Items))
		}
		return err
	})
	c.AddCommand(agentShowCommand(a), agentPreviewCommand(a), agentNewCommand(a), agentCreateCommand(a),
		agentImportCommand(a), agentUpdateCommand(a), agentResetCommand(a),
		deleteCommand(a, "agents", &cobra.Command{Use: "delete AGENT", Args: oneAgent,
			Short: "Delete an agent stored by the coordinator", ValidArgsFunction: completer{a}.agents}))
	return c
}

// listAgents lists agents, and which of them have a broken file: their last good definition holds.
func listAgents(a *app, p client.Page, broken []json.RawMessage) error {
	names := map[string]bool{}
	for _, doc := range broken {
		var b agent.BrokenFile
		if err := json.Unmarshal(doc, &b); err != nil {
			return err
		}
		names[b.Name] = true
	}
	table := screen.NewTable("AGENT", "TYPE", "STATUS", "PARAMETERS", "DESCRIPTION")
	return printList(a, p, "no agents; put one into the coordinator's agents folder, or see 'ao agents create --help'",
		table, func(b agent.Blueprint) {
			status := b.Status
			if names[b.Name] {
				status += ", broken"
			}
			table.Row(b.Name, b.Type, status, screen.Truncate(parameterList(b), 40), a.lastCell(b.Description))
		})
}

// parameterList returns an agent's parameters on one line, optional ones in brackets.
func parameterList(b agent.Blueprint) string {
	var names []string
	for _, f := range schemaOf(b).Fields() {
		if f.Required {
			names = append(names, f.Name)
			continue
		}
		names = append(names, "["+f.Name+"]")
	}
	return strings.Join(names, " ")
}

func listBroken(a *app, p client.Page) error {
	type broken struct {
		agent.BrokenFile
		Runner string `json:"runner_id"` // its owner; empty: the coordinator
	}
	var text strings.Builder
	err := printList(a, p, "no broken definitions", nil, func(b broken) {
		var f screen.Facts
		f.Add("agent", b.Name, "runner", b.Runner, "file", b.Path, "error", b.Reason)
		if text.Len() > 0 {
			text.WriteString("\n")
		}
		text.WriteString(f.String())
	})
	if err != nil {
		return err
	}
	return a.print(text.String())
}

func agentShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show AGENT", Short: "Show an agent and the parameters it takes", Args: oneAgent,
		ValidArgsFunction: completer{a}.agents,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			doc, err := a.once.Read(ctx, nil, "agents", args[0])
			return show(a, doc, err, func(a *app, b shownAgent) error {
				b.error = brokenReason(ctx, a, b.Name)
				if b.error != "" {
					b.Status += ", broken"
				}
				return showAgent(a, b)
			})
		}),
	}
}

// shownAgent is an agent as GET /agents/{name} shows it.
type shownAgent struct {
	agent.Blueprint
	UnusedFile *agent.UnusedFile `json:"unused_file"`

	error string // what is wrong with it; empty: nothing
}

// brokenReason returns what is wrong with an agent; empty: nothing, or the caller may not know.
func brokenReason(ctx context.Context, a *app, name string) string {
	p, err := a.once.List(ctx, "agents", url.Values{"status": {agent.Broken}}, "agents")
	if err != nil {
		return ""
	}
	for _, doc := range p.Items {
		var b agent.BrokenFile
		if json.Unmarshal(doc, &b) == nil && b.Name == name {
			if b.Path == "" {
				return b.Reason
			}
			return b.Reason + " (" + b.Path + ")"
		}
	}
	return ""
}

func showAgent(a *app, b shownAgent) error {
	var f screen.Facts
	f.Add("agent", b.Name, "type", b.Type, "status", b.Status, "error", b.error,
		"description", b.Description, "tags", strings.Join(b.Tags, ", "), "profile", b.ExecutorProfile)
	if b.Demands != nil {
		f.Add("demands", demands(*b.Demands))
	}
	if b.TimeoutSeconds > 0 {
		f.Add("timeout", fmt.Sprintf("%d s", b.TimeoutSeconds))
	}
	f.Add("answer", outputRule(b.Blueprint), "command", b.Command, "runner", b.RunnerID, "changed", a.at(b.ModifiedAt),
		"unused file", unusedFile(b), "system prompt", b.SystemPrompt)
	a.print(f.String())
	return showFields(a, b.Name, schemaOf(b.Blueprint).Fields())
}

// unusedFile says which file an agent that was edited does not use; empty: none.
func unusedFile(b shownAgent) string {
	switch {
	case b.UnusedFile == nil:
		return ""
	case b.UnusedFile.Changed:
		return fmt.Sprintf("%s, changed since it was copied; 'ao agents reset %s' takes it", b.UnusedFile.Path, b.Name)
	}
	return fmt.Sprintf("%s; 'ao agents reset %s' takes it", b.UnusedFile.Path, b.Name)
}

// showFields lists an agent's parameters and an example command.
func showFields(a *app, name string, fields []param.Field) error {
	if len(fields) == 0 {
		return a.print("\nIt declares no parameters; --param and --params can pass any.\n")
	}
	table := screen.NewTable("PARAMETER", "TYPE", "REQUIRED", "DEFAULT", "LIMITS", "DESCRIPTION")
	example := "ao run " + name
	for _, f := range fields {
		required := ""
		if f.Required {
			required = "yes"
			example += fmt.Sprintf(" --param %s=%s", f.Name, f.Example)
		}
		kind := f.Type
		if len(f.Values) > 0 {
			kind = strings.Join(f.Values, "|")
		}
		table.Row(f.Name, kind, required, f.Default, f.Limits, f.Description)
	}
	return a.print("\n", table.String(), "\n", screen.Line(example), "\n")
}

const definition = `The definition is a JSON object: a file, inline '{…}', or - for standard input.`

func agentCreateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create DEFINITION", Short: "Create an agent", Args: exactlyOne("a file with its definition, '{…}', or -"),
		Long: "Create an agent stored by the coordinator.\n" + definition + `

The agent is autonomous unless its type says otherwise. Its runs go to a worker with an autonomous profile (worker -x
PROFILE), or with the one that executor_profile names. Procedural agents are files in a runner's agents_dir.`,
		Example: `  ao agents create '{"name":"note-taker","description":"Takes notes",` +
			`"system_prompt":"You take notes."}'` + "\n  ao agents create note-taker.json",
	}
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := a.readObject("definition", args[0])
		if err != nil {
			return err
		}
		return saveAgent(ctx, a, client.Call{Method: http.MethodPost, Path: []string{"agents"}, Body: body}, "created")
	})
	return c
}

func agentUpdateCommand(a *app) *cobra.Command {
	var status string
	c := &cobra.Command{
		Use: "update AGENT [CHANGES]", Short: "Change an agent", Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: completer{a}.agents,
		Long: "Change an agent stored by the coordinator: given members are replaced, the others stay.\n" +
			strings.Replace(definition, "The definition is", "The changes are", 1),
		Example: `  ao agents update note-taker '{"description":"Takes better notes"}'` +
			"\n  ao agents update note-taker --status inactive",
	}
	c.Flags().StringVar(&status, "status", "", "active or inactive")
	completeFlag(c, "status", cobra.FixedCompletions([]string{agent.Active, agent.Inactive}, noFiles))
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if err := agent.CheckName("agent", args[0]); err != nil {
			return usageError{err}
		}
		var body []byte
		var err error
		switch {
		case (len(args) == 2) == (status != ""):
			return usagef("nothing to change: give the changes as JSON, or --status active or inactive")
		case status != "":
			body, err = strictjson.Encode(map[string]string{"status": status})
		default:
			body, err = a.readObject("changes", args[1])
		}
		if err != nil {
			return err
		}
		return saveAgent(ctx, a, client.Call{Method: http.MethodPatch, Path: []string{"agents", args[0]}, Body: body},
			"changed")
	})
	return c
}

func agentResetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "reset AGENT", Short: "Replace an agent that was edited by its unused file", Args: oneAgent,
		ValidArgsFunction: completer{a}.agents,
		Long: `Replace an agent that was edited in the coordinator's copy by the file that was copied (AO_AGENTS_SEED).
'ao agents show' names it as the unused file. What was edited is lost.`,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			return saveAgent(ctx, a, client.Call{Method: http.MethodPost, Path: []string{"agents", args[0], "reset"}},
				"reset")
		}),
	}
}

// saveAgent sends a definition and reports the result.
func saveAgent(ctx context.Context, a *app, call client.Call, done string) error {
	answer, err := a.once.Do(ctx, call)
	return show(a, answer.Document, err, func(a *app, b agent.Blueprint) error {
		a.note("%s %s", b.Name, done)
		return nil
	})
}
