package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/connection"
	"ao/coordinator/cmd/ao/param"
	"ao/shared/agent"
	client "ao/shared/clients/go"
	"ao/shared/run"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

const runLong = `Start a run of an agent, wait until it ends, and print its result: text as it is, data as
indented JSON, a program's output if it printed no JSON (--json: {"return_code","stdout","stderr"} in the
run's document). Progress goes to standard error. Ctrl-C ends the wait, not the run.

If the coordinator becomes unreachable or unavailable (503), ao retries for up to 5 minutes with the same
idempotency key, so nothing is started twice. If it was unreachable from the beginning, ao fails at once.

The agent's schema gives the types of parameters ('ao agents show AGENT'); unknown ones are strings.
  --param depth=3                an integer if the schema says so
  --param verbose                true
  --param tag=a --param tag=b    an array, as is --param tag=a,b
  --param 'opts:={"a":1}'        any JSON
  --params FILE, -, or '{…}'     a JSON object; --param adds to it or replaces its members

With --output-schema the result matches the schema, or the run fails and says why ('ao show RUN').

Exit codes: 0 completed, 1 failed or refused, 2 usage error, 3 stopped, 4 wait timed out, 5 coordinator
unreachable, 130 interrupted. The exit code of a procedural agent's program is printed, not passed on.`

const runExample = `  ao run hello --param name=you
  ao run log-grep -p files=README.md,CHANGELOG.md -p pattern=agent -p ignore_case
  ao run checksum-tree --project-dir . --param summary --detach
  echo '{"file":"README.md","top":3}' | ao run text-stats --params -`

// runFlags are the flags of `ao run` and `ao validate`.
type runFlags struct {
	given    []param.Argument // in the order given
	tags     []string
	timeout  seconds
	attempts int
	callback bool
	output   outputOptions

	params, session, resume, parent, dir, hostname, profile, url, key string
}

// typedFlag adds parameters to a list. Several flags share one list, so the order of the command line is kept.
type typedFlag struct {
	to   *[]param.Argument
	kind string
	read func(string) (param.Argument, error)
}

func (f typedFlag) String() string { return "" }
func (f typedFlag) Type() string   { return f.kind }
func (f typedFlag) Set(s string) error {
	g, err := f.read(s)
	if err == nil {
		*f.to = append(*f.to, g)
	}
	return err
}

func addRunFlags(a *app, c *cobra.Command, o *runFlags) {
	f := c.Flags()
	f.VarP(typedFlag{&o.given, "name=value", param.Parse}, "param", "p",
		"a parameter: name=value, name:=JSON, or name alone for true")
	f.Var(typedFlag{&o.given, "text", func(s string) (param.Argument, error) {
		if s == "-" {
			raw, err := io.ReadAll(a.in)
			if err != nil {
				return param.Argument{}, err
			}
			s = strings.TrimRight(string(strictjson.TrimBOM(raw)), "\n")
		}
		return param.Text("prompt", s)
	}}, "prompt", "the parameter prompt, or - for standard input")
	f.StringVar(&o.params, "params", "", "all parameters as a JSON object: a file, '{…}', or - for standard input")
	f.StringVar(&o.session, "session", "", "id for the new session (ses_…)")
	f.StringVar(&o.resume, "resume", "", "resume this session instead of starting one")
	f.StringVar(&o.parent, "parent", "", "parent session of the new session")
	f.StringVar(&o.dir, "project-dir", "", "only on runners of this folder; relative to the current folder")
	f.StringVar(&o.hostname, "hostname", "", "only on runners on this host")
	f.StringVar(&o.profile, "profile", "", "only on runners with this executor profile")
	f.StringArrayVar(&o.tags, "tag", nil, "only on runners with this tag; repeatable")
	f.IntVar(&o.attempts, "max-attempts", 0, "maximum attempts if one fails or is lost; 0: the agent's setting, else 1")
	f.BoolVar(&o.callback, "call-back", false, "deliver the end to the parent session as a turn (mode async_callback)")
	f.StringVar(&o.url, "callback-url", "", "deliver the end to this URL")
	f.Var(&o.timeout, "timeout", "maximum execution time, such as 90s")
	addOutputFlags(a, c, &o.output)
	c.MarkFlagsMutuallyExclusive("session", "resume")
	completeFlag(c, "param", completer{a}.param)
	completeFlag(c, "resume", completer{a}.sessions)
	completeFlag(c, "parent", completer{a}.sessions)
}

// args requires an agent's name, unless a session is resumed.
func (o *runFlags) args(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("name one agent, got %d arguments; give parameters as --param name=value", len(args))
	case len(args) == 0 && o.resume == "":
		return errors.New("name an agent; 'ao agents' lists them")
	}
	return nil
}

func runCommand(a *app) *cobra.Command {
	var o runFlags
	var detach, quiet bool
	c := &cobra.Command{
		Use: "run AGENT [--param name=value]...", Short: "Run an agent, wait until it ends, print its result",
		Long: runLong, Example: runExample, Args: o.args, ValidArgsFunction: completer{a}.agents,
	}
	addRunFlags(a, c, &o)
	c.Flags().StringVar(&o.key, "idempotency-key", "",
		"repeating the same command with the same key starts one run only")
	c.Flags().BoolVarP(&detach, "detach", "d", false, "do not wait; print the ids of run and session")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not show progress")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := requestBody(ctx, a, o, args)
		if err != nil {
			return err
		}
		return submit(ctx, a, submission{[]string{"runs"}, body, o.key, detach, quiet})
	})
	return c
}

// submission is a request to start a run.
type submission struct {
	path          []string
	body          []byte
	key           string // empty: a new one
	detach, quiet bool
}

// submit starts a run and, unless detached, waits until it ends.
func submit(ctx context.Context, a *app, o submission) error {
	created, doc, err := createRun(ctx, a, o.path, o.body, o.key)
	if err != nil {
		return err
	}
	noteChanged(a, created, doc)
	switch {
	case o.detach && a.json:
		return a.printDoc(doc)
	case o.detach:
		return a.print(created.ID + "\t" + created.SessionID + "\n")
	}
	if !o.quiet {
		a.note("%s in %s", created.ID, created.SessionID)
	}
	return a.awaitRun(ctx, created, 0, o.quiet)
}

// createRun starts a run. The request always has an idempotency key, so it can be retried.
func createRun(ctx context.Context, a *app, path []string, body []byte, key string) (run.Run, json.RawMessage, error) {
	key = cmp.Or(key, client.NewKey())
	var created run.Run
	answer, err := a.client.Do(ctx, client.Call{Method: http.MethodPost, Path: path, Body: body, Key: key})
	if err != nil {
		if errors.Is(err, context.Canceled) || connection.Reason(err) == client.Lost {
			a.note("it is unknown whether the run was accepted; repeat the command with --idempotency-key %s to find "+
				"out without starting it twice", key)
		}
		return created, nil, err
	}
	if err := json.Unmarshal(answer.Document, &created); err != nil || run.CheckID(created.ID) != nil ||
		run.CheckSessionID(created.SessionID) != nil {
		return created, nil, fmt.Errorf("the coordinator's answer names no run: %.200q", answer.Document)
	}
	return created, answer.Document, nil
}

func validateCommand(a *app) *cobra.Command {
	var o runFlags
	c := &cobra.Command{
		Use: "validate AGENT [--param name=value]...", Short: "Check the arguments of 'ao run' without starting a run",
		Args: o.args, ValidArgsFunction: completer{a}.agents,
		Long: "Check the arguments of 'ao run', with the same flags, without starting a run.\n" +
			"Exit codes, as of 'ao run': 0 valid, 1 not valid, 2 usage error, 5 coordinator unreachable.",
	}
	addRunFlags(a, c, &o)
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := requestBody(ctx, a, o, args)
		if err != nil {
			return err
		}
		answer, err := a.client.Do(ctx,
			client.Call{Method: http.MethodPost, Path: []string{"runs", "validate"}, Body: body})
		if err != nil {
			return err
		}
		if a.json {
			return a.printDoc(answer.Document)
		}
		var v struct {
			Available *bool `json:"runner_available"`
		}
		if json.Unmarshal(answer.Document, &v) == nil && v.Available != nil && !*v.Available {
			a.note("no matching runner is online; the run would wait for one")
		}
		return a.print("valid\n")
	})
	return c
}

// requestBody builds the request body from the command line.
func requestBody(ctx context.Context, a *app, o runFlags, args []string) ([]byte, error) {
	req := request{Type: run.Start, Session: o.session, Mode: run.AsyncPoll, Parent: o.parent,
		Timeout: int(time.Duration(o.timeout) / time.Second), Attempts: o.attempts, Callback: o.url}
	if o.callback {
		req.Mode = run.AsyncCallback
	}
	if len(args) == 1 {
		req.Agent = args[0]
	}
	if o.resume != "" {
		req.Type, req.Session = run.Resume, o.resume
	}
	if o.dir != "" {
		dir, err := filepath.Abs(o.dir)
		if err != nil {
			return nil, err
		}
		req.ProjectDir = dir
	}
	if o.hostname != "" || o.profile != "" || len(o.tags) > 0 {
		req.Demands = &run.Demands{Hostname: o.hostname, ExecutorProfile: o.profile, Tags: o.tags}
	}
	if err := o.output.apply(a, &req); err != nil {
		return nil, err
	}
	var err error
	req.Parameters, err = a.parameters(ctx, req, json.RawMessage(`{}`), o.params, o.given)
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(req)
}

// parameters returns the parameters of a request: those of base or of a source instead, with the given ones.
func (a *app) parameters(ctx context.Context, r request, base []byte, source string, given []param.Argument) (
	json.RawMessage, error) {
	if source != "" {
		var err error
		base, err = a.readObject("params", source)
		if err != nil {
			return nil, err
		}
	}
	members, err := param.ParseObject(base)
	if err != nil {
		return nil, err
	}
	schema, err := schemaFor(ctx, a, r, given)
	if err != nil {
		return nil, err
	}
	parameters, err := param.Object(members, given, schema)
	if err != nil {
		return nil, parameterError{err}
	}
	return parameters, nil
}

// schemaFor returns the schema of the parameters. It is fetched only if an argument needs it.
func schemaFor(ctx context.Context, a *app, r request, given []param.Argument) (param.Schema, error) {
	switch {
	case r.Type == run.Resume:
		return param.Implicit, nil
	case !param.NeedsSchema(given):
		return param.Schema{}, nil
	}
	if err := agent.CheckName("agent", r.Agent); err != nil {
		return param.Schema{}, usageError{err}
	}
	answer, err := a.client.Do(ctx, client.Call{Path: []string{"agents", r.Agent}})
	if err != nil {
		return param.Schema{}, err
	}
	b, err := parseAgent(answer.Document)
	return schemaOf(b), err
}

// schemaOf returns an agent's schema; an autonomous agent without one takes a prompt.
func schemaOf(b agent.Blueprint) param.Schema {
	if b.Type == run.Autonomous && (b.ParametersSchema == nil || string(b.ParametersSchema) == "null") {
		return param.Implicit
	}
	return param.NewSchema(b.ParametersSchema)
}

// parseAgent parses an agent's document.
func parseAgent(doc json.RawMessage) (b agent.Blueprint, err error) {
	if err := json.Unmarshal(doc, &b); err != nil {
		return b, fmt.Errorf("the agent cannot be read: %w", err)
	}
	return b, nil
}
