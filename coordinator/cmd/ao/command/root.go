// Package command contains the commands of ao, one file per noun. Each calls the API and prints the answer: text and
// tables for people, or the API's own documents with --json.
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

	client "ao/shared/clients/go"
	"ao/shared/version"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the command in args and returns the exit code (see exit.go).
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer, servers Servers) int {
	a := &app{servers: servers, in: in, out: out, terminal: isTerminal(out), errs: &lineWriter{w: errs}, now: time.Now}
	root := a.root()
	a.json = wantsJSON(args) // also for usage errors
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	checkShells(root)
	at, err := root.ExecuteContextC(ctx)
	if err != nil && !a.parsed {
		err = flagGroupError(err)
	}
	if a.outErr != nil {
		err = a.outErr
	}
	return a.exit(at.CommandPath(), err)
}

// wantsJSON reports whether args contain --json, before they are parsed.
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

const about = `The command line of Agent Orchestrator: start runs of agents, follow them, get their results.

  ao up                                       start NATS, a coordinator and a worker here
  ao agents                                   list the agents
  ao run hello --param name=you               run one, wait, print the result
  ao runs                                     list runs
  ao events -f SESSION                        watch a session
  ao explain RUN                              why it is waiting, or why it ended
  ao top                                      watch queues, runners and runs
  ao dashboard                                open the dashboard in a browser

Exit codes: 0 success (a run: completed), 1 failed or refused, 2 usage error, 3 the run was stopped,
4 wait timed out and the run continues, 5 coordinator unreachable, 130 interrupted.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "ao", Short: "Start runs of agents, follow them, get their results", Long: about,
		SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true, Version: version.Current(),
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return checkFilled(c.Flags()) },
	}
	root.SetVersionTemplate(version.Line("ao"))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.PersistentFlags().StringVar(&a.url, "url", "", "the coordinator's address (AO_URL; default "+client.DefaultURL+
		")")
	root.PersistentFlags().StringVar(&a.token, "token", "",
		"API token (prefer AO_TOKEN: other users of this machine can see flags)")
	root.PersistentFlags().StringVar(&a.ca, "ca", "",
		"file of certificate authorities to trust besides the system's, for https (AO_CA)")
	root.PersistentFlags().BoolVar(&a.json, "json", false,
		"print the API's JSON documents, lists one per line; errors too")
	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs:"}, &cobra.Group{ID: "around", Title: "Other commands:"})
	for _, c := range []*cobra.Command{runCommand(a), runsCommand(a), treeCommand(a), showCommand(a), explainCommand(a),
		definitionCommand(a), resultCommand(a), waitCommand(a), retryCommand(a), stopCommand(a), eventsCommand(a),
		validateCommand(a)} {
		c.GroupID = "runs"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{topCommand(a), dashboardCommand(a), sessionsCommand(a), agentsCommand(a),
		schemasCommand(a), runnersCommand(a), callbacksCommand(a), rejectedCommand(a), auditCommand(a),
		settingsCommand(a), meCommand(a), tokensCommand(a), initCommand(a), verifyCommand(a), backupCommand(a),
		restoreCommand(a), conformanceCommand(a), doctorCommand(a), healthCommand(a), versionCommand(a),
		serverCommand(a, "up", "Start NATS, a coordinator and a worker in this process", aboutUp),
		serverCommand(a, "worker", "Start a worker more, beside 'ao up'", aboutWorker)} {
		c.GroupID = "around"
		root.AddCommand(c)
	}
	root.SetHelpCommand(help(root))
	root.SetHelpCommandGroupID("around")
	root.SetCompletionCommandGroupID("around")
	completeNoFiles(root)
	return root
}

// checkShells makes the command completion refuse unknown shells. Call it after the output of root is set.
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
		return fmt.Errorf("unknown shell %q; use one of %s", args[0], strings.Join(names, ", "))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// checkFilled refuses flags with an empty text: an unset variable of a script must not mean "all".
func checkFilled(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = usagef("--%s is empty: give a value, or leave it out", f.Name)
		}
	})
	return err
}

// flagError describes an error of a flag without Go's parser messages.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	switch e := err.(type) {
	case *pflag.InvalidValueError:
		bad = e
	case *pflag.NotExistError:
		return fmt.Errorf("unknown flag %s", dashed(e.GetSpecifiedName(), e.GetSpecifiedShortnames()))
	case *pflag.ValueRequiredError:
		return fmt.Errorf("flag %s needs a value", dashed(e.GetSpecifiedName(), e.GetSpecifiedShortnames()))
	case *pflag.InvalidSyntaxError:
		return fmt.Errorf("%q is not a flag", e.GetSpecifiedFlag())
	default:
		return err
	}
	wants := map[string]string{"int": "a whole number", "bool": "true or false", "float64": "a number",
		"duration": "a duration such as 90s"}[bad.GetFlag().Value.Type()]
	if number, ok := errors.AsType[*strconv.NumError](err); !ok || wants == "" || number == nil {
		return fmt.Errorf("--%s: %q: %w", bad.GetFlag().Name, bad.GetValue(), errors.Unwrap(bad))
	}
	return fmt.Errorf("--%s: %q is not %s", bad.GetFlag().Name, bad.GetValue(), wants)
}

// dashed returns a flag as it was written; letters are the short flags in the same group.
func dashed(name, letters string) string {
	if letters != "" {
		return "-" + name[:1]
	}
	return "--" + name
}

// cobra's errors about missing or exclusive flags have no types.
var (
	required = regexp.MustCompile(`^required flag\(s\) (.*) not set$`)
	excluded = regexp.MustCompile(
		`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// flagGroupError rewrites cobra's errors about required and exclusive flags.
func flagGroupError(err error) error {
	if m := required.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("missing --%s", strings.ReplaceAll(strings.ReplaceAll(m[1], `"`, ""), ", ", " and --"))
	}
	if m := excluded.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("use only one of --%s", strings.ReplaceAll(m[1], " ", " and --"))
	}
	return err
}

// help returns the help command, which refuses unknown topics.
func help(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: "help [COMMAND]", Short: "Show the help of a command"}
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
			return fmt.Errorf("no help for %q; 'ao --help' lists the commands", strings.Join(args, " "))
		}
		of.InitDefaultHelpFlag()
		return of.Help()
	}
	return c
}
