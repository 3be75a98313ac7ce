package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/param"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

const runLong = `Start a run of an agent, wait for its end, and print its result: text as it is, data as indented JSON; of a program that
printed no JSON what it printed (--json: {"return_code","stdout","stderr"} in the run's document). What happens on the way
is told on standard error. Ctrl-C ends the waiting, not the run.

A coordinator that goes away, or that has no NATS (503), is asked again for up to 5 minutes, always with the same idempotency
key, so nothing is started twice; one that is not there at all is told of at once.

Parameters are typed by the agent's schema ('ao agents show AGENT' lists them); what it does not name is a string.
  --param depth=3                an integer where the schema says so; its digits stay as typed
  --param verbose                true
  --param tag=a --param tag=b    an array, as is --param tag=a,b
  --param 'opts:={"a":1}'        any JSON, as it stands
  --params FILE, -, or '{…}'     a JSON object; parameters given one by one come after it, or replace its own

With --output-schema the result is data that match it, or the run fails and says why ('ao show RUN').

Exit codes: 0 completed, 1 failed or refused, 2 the words were not understood, 3 stopped, 4 the time to wait was over,
5 no coordinator was reached, 130 interrupted. The exit code of a procedural agent's own program is shown, not passed on.`

const runExample = `  ao run text-stats --param file=README.md
  ao run log-grep -p files=README.md,CHANGELOG.md -p pattern=agent -p ignore_case
  ao run checksum-tree --project-dir . --param summary --detach
  echo '{"file":"README.md","top":3}' | ao run text-stats --params -`

// runFlags is what is asked for with `ao run` and `ao validate`.
type runFlags struct {
	given    []param.Argument // in the order typed
	params   string
	session  string
	resume   string
	parent   string
	dir      string
	hostname string
	profile  string
	tags     []string
	timeout  seconds
	attempts int
	callback bool
	url      string
	key      string
	output   outputOptions
}

// typedFlag adds to an order's parameters; several flags share one list, so that their order is that of the words.
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
	f.VarP(typedFlag{&o.given, "name=value", param.Parse}, "param", "p", "a parameter: name=value, name:=JSON, or name alone for true")
	f.Var(typedFlag{&o.given, "text", func(s string) (param.Argument, error) {
		if s == "-" {
			raw, err := io.ReadAll(a.in)
			if err != nil {
				return param.Argument{}, err
			}
			s = strings.TrimRight(string(raw), "\n")
		}
		return param.Text("prompt", s)
	}}, "prompt", "the parameter prompt, or - for standard input")
	f.StringVar(&o.params, "params", "", "all parameters as a JSON object: a file, '{…}', or - for standard input")
	f.StringVar(&o.session, "session", "", "start the session under this id (ses_…)")
	f.StringVar(&o.resume, "resume", "", "go on with this session instead of starting one")
	f.StringVar(&o.parent, "parent", "", "the session that this one belongs to")
	f.StringVar(&o.dir, "project-dir", "", "only on runners of this folder; a relative one begins here")
	f.StringVar(&o.hostname, "hostname", "", "only on runners of this host")
	f.StringVar(&o.profile, "profile", "", "only on runners with this executor profile")
	f.StringArrayVar(&o.tags, "tag", nil, "only on runners with this tag; can be repeated")
	f.IntVar(&o.attempts, "max-attempts", 0, "how often it may be begun when attempts fail or are lost; 0: as its agent says, else once")
	f.BoolVar(&o.callback, "call-back", false, "tell the parent session of the end, with a turn of its own (mode async_callback)")
	f.StringVar(&o.url, "callback-url", "", "tell an HTTP receiver of the end")
	f.Var(&o.timeout, "timeout", "limit of the execution, such as 90s")
	addOutputFlags(a, c, &o.output)
	c.MarkFlagsMutuallyExclusive("session", "resume")
	completeFlag(c, "param", completer{a}.param)
	completeFlag(c, "resume", completer{a}.sessions)
	completeFlag(c, "parent", completer{a}.sessions)
	for _, name := range []string{"prompt", "session", "hostname", "profile", "tag", "timeout", "max-attempts", "callback-url"} {
		completeFlag(c, name, cobra.NoFileCompletions)
	}
}

// one wants an agent's name, unless a session is resumed, which has one.
func (o *runFlags) args(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("one agent at a time, got %d names; parameters are given as --param name=value", len(args))
	case len(args) == 0 && o.resume == "":
		return errors.New("which agent? 'ao agents' lists them")
	}
	return nil
}

func runCommand(a *app) *cobra.Command {
	var o runFlags
	var detach, quiet bool
	c := &cobra.Command{
		Use: "run AGENT [--param name=value]...", Short: "Run an agent, wait for its end, print its result",
		Long: runLong, Example: runExample, Args: o.args, ValidArgsFunction: completer{a}.agents,
	}
	addRunFlags(a, c, &o)
	c.Flags().StringVar(&o.key, "idempotency-key", "", "the same key and the same order are one run, however often it is sent")
	c.Flags().BoolVarP(&detach, "detach", "d", false, "do not wait: print the run's id and the session's")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not tell what happens on the way")
	completeFlag(c, "idempotency-key", cobra.NoFileCompletions)
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := requestBody(ctx, a, o, args)
		if err != nil {
			return err
		}
		return submit(ctx, a, submission{[]string{"runs"}, body, o.key, detach, quiet})
	})
	return c
}

// submission is an order as it goes out.
type submission struct {
	path          []string
	body          []byte
	key           string // empty: one of its own
	detach, quiet bool
}

// submit sends an order, and waits for its run's end, unless nobody is to.
func submit(ctx context.Context, a *app, o submission) error {
	created, doc, err := createRun(ctx, a, o.path, o.body, o.key)
	switch {
	case err != nil:
		return err
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

// createRun sends an order. It always carries a key, so that it can be sent again over a connection that broke.
func createRun(ctx context.Context, a *app, path []string, body []byte, key string) (run.Run, json.RawMessage, error) {
	if key == "" {
		key = client.NewKey()
	}
	var created run.Run
	answer, err := a.client.DoWithRetry(ctx, client.Call{Method: http.MethodPost, Path: path, Body: body, Key: key})
	if err != nil {
		if errors.Is(err, context.Canceled) || errors.As(err, new(*client.ConnectionLost)) {
			a.note("Whether the run was accepted is not known; the same command with --idempotency-key %s tells, and starts none twice", key)
		}
		return created, nil, err
	}
	if err := json.Unmarshal(answer.Doc, &created); err != nil || run.CheckID(created.ID) != nil || run.CheckSessionID(created.SessionID) != nil {
		return created, nil, fmt.Errorf("the answer to the order names no run: %.200q", answer.Doc)
	}
	return created, answer.Doc, nil
}

func validateCommand(a *app) *cobra.Command {
	var o runFlags
	c := &cobra.Command{
		Use: "validate AGENT [--param name=value]...", Short: "Check what 'ao run' would be refused for; start nothing",
		Args: o.args, ValidArgsFunction: completer{a}.agents,
		Long: "Check an order as 'ao run' would send it, with the same flags, and start nothing.\n" +
			"Exit codes, as of 'ao run': 0 it would be accepted, 1 it would not, 2 the words were not understood, 5 no coordinator was reached.",
	}
	addRunFlags(a, c, &o)
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		body, err := requestBody(ctx, a, o, args)
		if err != nil {
			return err
		}
		answer, err := a.client.DoWithRetry(ctx, client.Call{Method: http.MethodPost, Path: []string{"runs", "validate"}, Body: body})
		if err != nil {
			return err
		}
		if a.json {
			return a.printDoc(answer.Doc)
		}
		var v struct {
			Available *bool `json:"runner_available"`
		}
		if json.Unmarshal(answer.Doc, &v) == nil && v.Available != nil && !*v.Available {
			a.note("no runner that could take it is online now; it would wait for one")
		}
		return a.print("valid\n")
	})
	return c
}

// requestBody makes the body of a request out of the words.
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
	var base []strictjson.Member
	if o.params != "" {
		raw, err := a.readObject("params", o.params)
		if err != nil {
			return nil, err
		}
		if base, err = param.ParseObject(raw); err != nil {
			return nil, err
		}
	}
	schema, err := schemaFor(ctx, a, req, o.given)
	if err != nil {
		return nil, err
	}
	if req.Parameters, err = param.Object(base, o.given, schema); err != nil {
		return nil, parameterError{err}
	}
	return strictjson.Encode(req)
}

// schemaFor is what the parameters are typed by. It is asked for only where it matters.
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
	answer, err := a.client.DoWithRetry(ctx, client.Call{Path: []string{"agents", r.Agent}})
	if err != nil {
		return param.Schema{}, err
	}
	return schemaOf(answer.Doc)
}

// schemaOf is the schema of an agent as the API shows it; an autonomous agent without one takes a prompt.
func schemaOf(doc json.RawMessage) (param.Schema, error) {
	var b struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"parameters_schema"`
	}
	if err := json.Unmarshal(doc, &b); err != nil {
		return param.Schema{}, fmt.Errorf("the agent cannot be read: %w", err)
	}
	if b.Type == run.Autonomous && (b.Schema == nil || string(b.Schema) == "null") {
		return param.Implicit, nil
	}
	return param.NewSchema(b.Schema), nil
}
