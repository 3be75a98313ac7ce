package command

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

const (
	noFiles           = cobra.ShellCompDirectiveNoFileComp
	completionTimeout = 2 * time.Second // a shell that waits longer seems broken
	completionLimit   = "100"           // ids at most
)

// completeFlag has the values of a flag completed by f.
func completeFlag(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // a flag that does not exist: seen by the first test
	}
}

// completer offers what a word on the command line could become, as the coordinator knows it.
type completer struct{ app *app }

// complete are the names in a list of the API, each with words that tell it from the others. Whatever goes wrong offers none.
func (k completer) complete(c *cobra.Command, of, name string, describe func(map[string]string) string) []string {
	if k.app.connect() != nil {
		return nil
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	q := url.Values{"limit": {completionLimit}}
	if of == "agents" || of == "runners" || of == "schemas" {
		q = nil
	}
	p, err := k.app.client.List(ctx, of, q, of)
	if err != nil {
		return nil
	}
	var all []string
	for _, doc := range p.Items {
		var members map[string]json.RawMessage
		if json.Unmarshal(doc, &members) != nil {
			continue
		}
		words := map[string]string{}
		for member, v := range members {
			words[member] = plainValue(v)
		}
		all = append(all, screen.Line(words[name])+"\t"+screen.Truncate(describe(words), noteWidth))
	}
	return all
}

func describeBy(names ...string) func(map[string]string) string {
	return func(words map[string]string) string {
		var parts []string
		for _, n := range names {
			if words[n] != "" {
				parts = append(parts, words[n])
			}
		}
		return strings.Join(parts, ", ")
	}
}

func (k completer) agents(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return k.complete(c, "agents", "name", describeBy("description")), noFiles
}

func (k completer) runs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return k.complete(c, "runs", "run_id", describeBy("agent_name", "status")), noFiles
}

func (k completer) sessions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return k.complete(c, "sessions", "session_id", describeBy("agent_name", "status")), noFiles
}

func (k completer) runners(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return k.complete(c, "runners", "runner_id", describeBy("executor_profile", "hostname", "status")), noFiles
}

// runsOrSessions offers runs, and sessions once somebody begins to type one.
func (k completer) runsOrSessions(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) > 0:
		return nil, noFiles
	case strings.HasPrefix(typed, "s"):
		return k.sessions(c, args, typed)
	}
	return k.runs(c, args, typed)
}

// param offers the parameters of the agent that was named before.
func (k completer) param(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveDefault // the value may be a file's name
	if len(args) == 0 || strings.Contains(typed, "=") || k.app.connect() != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	doc, err := k.app.client.Get(ctx, nil, "agents", args[0])
	if err != nil {
		return nil, none
	}
	schema, err := schemaOf(doc)
	if err != nil {
		return nil, none
	}
	var all []string
	for _, f := range schema.Fields() {
		all = append(all, screen.Line(f.Name)+"=\t"+screen.Truncate(f.Type+" "+f.Description, noteWidth))
	}
	return all, noFiles | cobra.ShellCompDirectiveNoSpace
}

func (k completer) schemas(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "run" && c.Name() != "validate" {
		return nil, noFiles
	}
	return k.complete(c, "schemas", "name", func(words map[string]string) string { return words["description"] }), noFiles
}
