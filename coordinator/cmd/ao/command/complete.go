package command

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	noFiles           = cobra.ShellCompDirectiveNoFileComp
	completionTimeout = 2 * time.Second // a longer wait would look like a hang
	completionLimit   = "100"           // maximum ids
)

// completeFlag registers f to complete the values of a flag.
func completeFlag(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag does not exist: a programming error
	}
}

// fileFlags are flags whose values are files or folders.
var fileFlags = []string{"params", "output-schema", "file", "answer", "ca", "dir", "project-dir", "nats-data",
	"nats-staging"}

// completeNoFiles keeps shells from completing file names for all other flags that have no completion of their own.
func completeNoFiles(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, done := c.GetFlagCompletionFunc(f.Name); !done && !slices.Contains(fileFlags, f.Name) {
			completeFlag(c, f.Name, cobra.NoFileCompletions)
		}
	})
	for _, sub := range c.Commands() {
		completeNoFiles(sub)
	}
}

// completer completes arguments with names known to the coordinator.
type completer struct{ app *app }

// complete returns the names in a list of the API with descriptions from these members; none on any error.
func (k completer) complete(c *cobra.Command, of, name string, describe ...string) []string {
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
	p, err := k.app.once.List(ctx, of, q, of)
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
		var parts []string
		for _, d := range describe {
			if words[d] != "" {
				parts = append(parts, words[d])
			}
		}
		all = append(all, screen.Line(words[name])+"\t"+screen.Truncate(strings.Join(parts, ", "), noteWidth))
	}
	return all
}

// first completes only the first argument.
func (k completer) first(c *cobra.Command, args []string, of, name string, describe ...string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return k.complete(c, of, name, describe...), noFiles
}

func (k completer) agents(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return k.first(c, args, "agents", "name", "description")
}

func (k completer) runs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return k.first(c, args, "runs", "run_id", "agent_name", "status")
}

func (k completer) sessions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return k.complete(c, "sessions", "session_id", "agent_name", "status"), noFiles
}

func (k completer) runners(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return k.first(c, args, "runners", "runner_id", "executor_profile", "hostname", "status")
}

// runsOrSessions completes runs, or sessions if the argument starts with s.
func (k completer) runsOrSessions(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) > 0:
		return nil, noFiles
	case strings.HasPrefix(typed, "s"):
		return k.sessions(c, args, typed)
	}
	return k.runs(c, args, typed)
}

// param completes the parameters of the agent in the first argument.
func (k completer) param(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveDefault // the value may be a file name
	if len(args) == 0 || strings.Contains(typed, "=") || k.app.connect() != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	doc, err := k.app.once.Read(ctx, nil, "agents", args[0])
	if err != nil {
		return nil, none
	}
	b, err := parseAgent(doc)
	if err != nil {
		return nil, none
	}
	var all []string
	for _, f := range schemaOf(b).Fields() {
		all = append(all, screen.Line(f.Name)+"=\t"+screen.Truncate(f.Type+" "+f.Description, noteWidth))
	}
	return all, noFiles | cobra.ShellCompDirectiveNoSpace
}

func (k completer) schemas(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "run" && c.Name() != "validate" {
		return nil, noFiles
	}
	return k.complete(c, "schemas", "name", "description"), noFiles
}
