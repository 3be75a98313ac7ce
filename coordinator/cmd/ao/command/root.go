// Package command is what ao can be told to do, one file per noun: it asks the API, and shows the answer to a person as
// text and tables, or to a program as the API's own documents.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/shared/version"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main does what args say and gives the exit code (see exit.go).
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{in: in, out: out, terminal: isTerminal(out), errs: &lineWriter{w: errs}, now: time.Now}
	root := a.root()
	a.json = wantsJSON(args) // also of what is not understood
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	checkShells(root)
	at, err := root.ExecuteContextC(ctx)
	if err != nil && !a.parsed {
		err = flagGroupError(err)
	}
	return a.exit(at.CommandPath(), err)
}

// wantsJSON tells whether the words have --json, before they are understood.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const about = `Agent Orchestrator at the command line: start runs of agents, follow them, see what they made.

  ao agents                                   what can be run
  ao run text-stats --param file=README.md    run it, wait, print the result
  ao runs                                     what was run
  ao events -f SESSION                        watch a session
  ao explain RUN                              why it waits, or why it ended so
  ao top                                      watch everything
  ao dashboard                                the same in a browser, and more

Exit codes: 0 done (a run: completed), 1 it failed or was refused, 2 the words were not understood,
3 the run was stopped, 4 the time to wait was over and the run goes on, 5 no coordinator was reached, 130 interrupted.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "ao", Short: "Start agents' runs, follow them, see what they made", Long: about,
		SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true, Version: version.Current(),
	}
	root.SetVersionTemplate(version.Line("ao"))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.PersistentFlags().StringVar(&a.url, "url", "", "the coordinator's address (AO_URL; default "+client.DefaultURL+")")
	root.PersistentFlags().StringVar(&a.token, "token", "", "API token, where the coordinator asks for one (better AO_TOKEN: others on this machine see flags)")
	root.PersistentFlags().StringVar(&a.ca, "ca", "", "file of authorities that are trusted beside the system's, for https (AO_CA)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the API's own JSON documents, lists one per line; errors too")
	for _, flag := range []string{"url", "token"} {
		_ = root.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions) // fails only for a flag that does not exist
	}
	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs:"}, &cobra.Group{ID: "around", Title: "Around them:"})
	for _, c := range []*cobra.Command{runCommand(a), runsCommand(a), treeCommand(a), showCommand(a), explainCommand(a), resultCommand(a), waitCommand(a), retryCommand(a), stopCommand(a), eventsCommand(a), validateCommand(a)} {
		c.GroupID = "runs"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{topCommand(a), dashboardCommand(a), sessionsCommand(a), agentsCommand(a), schemasCommand(a), runnersCommand(a), callbacksCommand(a), auditCommand(a), settingsCommand(a), meCommand(a), tokensCommand(a), initCommand(a), verifyCommand(a), backupCommand(a), restoreCommand(a), conformanceCommand(a), doctorCommand(a), healthCommand(a)} {
		c.GroupID = "around"
		root.AddCommand(c)
	}
	root.SetHelpCommand(help(root))
	root.SetHelpCommandGroupID("around")
	root.SetCompletionCommandGroupID("around")
	return root
}

// checkShells has the command completion refuse a shell that it does not know. Root writes to its output by then.
func checkShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	c := root.Commands()[i]
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, shell := range c.Commands() {
			names = append(names, shell.Name())
		}
		return fmt.Errorf("%q is no shell that is known here; write one of %s", args[0], strings.Join(names, ", "))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// flagError says what is wrong with a flag without the words of Go's own readers.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	switch e := err.(type) {
	case *pflag.InvalidValueError:
		bad = e
	case *pflag.NotExistError:
		return fmt.Errorf("there is no flag %s", dashed(e.GetSpecifiedName(), e.GetSpecifiedShortnames()))
	case *pflag.ValueRequiredError:
		return fmt.Errorf("flag %s needs a value", dashed(e.GetSpecifiedName(), e.GetSpecifiedShortnames()))
	case *pflag.InvalidSyntaxError:
		return fmt.Errorf("%q is no flag", e.GetSpecifiedFlag())
	default:
		return err
	}
	wants := map[string]string{"int": "a whole number", "bool": "true or false", "float64": "a number", "duration": "a time span such as 90s"}[bad.GetFlag().Value.Type()]
	if number, ok := errors.AsType[*strconv.NumError](err); !ok || wants == "" || number == nil {
		return fmt.Errorf("--%s: %q: %w", bad.GetFlag().Name, bad.GetValue(), errors.Unwrap(bad))
	}
	return fmt.Errorf("--%s: %q is not %s", bad.GetFlag().Name, bad.GetValue(), wants)
}

// dashed is a flag as it was written; letters are those that stand with it behind one dash.
func dashed(name, letters string) string {
	if letters != "" {
		return "-" + name[:1]
	}
	return "--" + name
}

// cobra's errors about flags that are missing, or that exclude each other, have texts and no types.
var (
	required = regexp.MustCompile(`^required flag\(s\) (.*) not set$`)
	excluded = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// flagGroupError says in words of ours which flags a command cannot do without, and which it takes one of.
func flagGroupError(err error) error {
	if m := required.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("give --%s, too", strings.ReplaceAll(strings.ReplaceAll(m[1], `"`, ""), ", ", " and --"))
	}
	if m := excluded.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("give one of --%s", strings.ReplaceAll(m[1], " ", " and --"))
	}
	return err
}

// help is the command that shows a command's page; a topic that there is not is refused.
func help(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: "help [COMMAND]", Short: "Show what a command does and takes"}
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, sub := range root.Commands() {
			names = append(names, sub.Name()+"\t"+sub.Short)
		}
		return names, noFiles
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return fmt.Errorf("there is no help on %q; 'ao --help' lists the commands", strings.Join(args, " "))
		}
		of.InitDefaultHelpFlag()
		return of.Help()
	}
	return c
}
