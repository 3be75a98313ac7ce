package command

import (
	"context"
	"encoding/json"
	"time"

	"ao/coordinator/cmd/ao/param"
	client "ao/shared/clients/go"
	"ao/shared/run"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

const retryLong = `Start a run again with the same parameters, demands and limits, checked against the agent's
current definition. --param replaces single parameters, --params all of them. It waits until the run ends, as
'ao run' does.

With filters instead of an id, it starts all matching ended runs again, by default the failed ones, prints the
new ids and does not wait. It asks for confirmation unless --yes is given. Each run costs again, and side
effects may happen twice.`

const retryExample = `  ao retry run_…
  ao retry run_… -p depth=3 --detach
  ao retry run_… --same-session --prompt "try once more"
  ao retry --agent crawler --error timeout --since 2h
  ao retry --status failed,stopped --since 1h --yes`

// retryFlags are the changes of a retry.
type retryFlags struct {
	given               []param.Argument
	params              string
	timeout             seconds
	same, detach, quiet bool
}

func retryCommand(a *app) *cobra.Command {
	var m bulk
	var o retryFlags
	c := &cobra.Command{
		Use: "retry RUN | retry --status failed [--agent AGENT]", Short: "Start a run again, or all matching runs",
		Long: retryLong, Example: retryExample, Args: m.args(oneRun), ValidArgsFunction: completer{a}.runs,
	}
	f := c.Flags()
	f.VarP(typedFlag{&o.given, "name=value", param.Parse}, "param", "p",
		"replace a parameter: name=value, name:=JSON, or name alone for true")
	f.Var(typedFlag{&o.given, "text", func(s string) (param.Argument, error) { return param.Text("prompt", s) }},
		"prompt", "replace the prompt")
	f.StringVar(&o.params, "params", "", "all parameters as a JSON object: a file, '{…}', or - for standard input")
	f.BoolVar(&o.same, "same-session", false, "start it as another turn of the same session instead of a new session")
	f.Var(&o.timeout, "timeout", "replace the maximum execution time, such as 90s")
	f.StringVar(&m.key, "idempotency-key", "", "repeating the same command with the same key starts the runs once")
	f.BoolVarP(&o.detach, "detach", "d", false, "do not wait: print the run's id and the session's")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not show progress")
	f.StringVar(&m.code, "error", "", "select by error code, such as timeout")
	addBulkFlags(a, c, &m, []string{string(run.Failed), string(run.Stopped), string(run.Completed)})
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			if len(o.given) > 0 || o.params != "" || o.same || o.timeout != 0 {
				return usagef("parameters, --same-session and --timeout need one run; omit them or give the run's id")
			}
			return m.apply(ctx, a, "retry", "run", "runs", "retry")
		}
		body, err := o.body(ctx, a, args[0])
		if err != nil {
			return err
		}
		return submit(ctx, a, submission{[]string{"runs", args[0], "retry"}, body, m.key, o.detach, o.quiet})
	})
	return c
}

// body returns the request body with the changes.
func (o retryFlags) body(ctx context.Context, a *app, id string) ([]byte, error) {
	var all []strictjson.Member
	if o.same {
		all = append(all, member("in", "same_session"))
	}
	if o.timeout != 0 {
		all = append(all, member("timeout_seconds", int(time.Duration(o.timeout)/time.Second)))
	}
	if o.params == "" && len(o.given) == 0 {
		return strictjson.Object(all), nil
	}
	parameters, err := o.parameters(ctx, a, id)
	if err != nil {
		return nil, err
	}
	return strictjson.Object(append(all, strictjson.Member{Key: "parameters", Value: parameters})), nil
}

// parameters returns the run's parameters with the given ones replaced.
func (o retryFlags) parameters(ctx context.Context, a *app, id string) (json.RawMessage, error) {
	answer, err := a.client.Do(ctx, client.Call{Path: []string{"runs", id}})
	if err != nil {
		return nil, err
	}
	var r run.Run
	if err := json.Unmarshal(answer.Document, &r); err != nil {
		return nil, err
	}
	req := request{Type: run.Start, Agent: r.Agent}
	if o.same {
		req.Type = run.Resume
	}
	return a.parameters(ctx, req, r.Parameters, o.params, o.given)
}

// noteChanged says of a retry that its agent has changed since the first run.
func noteChanged(a *app, r run.Run, doc json.RawMessage) {
	var again struct {
		Changed bool `json:"agent_changed"`
	}
	if json.Unmarshal(doc, &again) == nil && again.Changed {
		a.note("the agent has changed since: 'ao definition %s' shows what was run then", r.RetryOf)
	}
}
