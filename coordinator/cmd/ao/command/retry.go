package command

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/param"
	"ao/shared/run"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

const retryLong = `Start a run like another one: the same parameters, demands and limits, checked against today's agent. Parameters that are
given replace the run's own, one by one; --params replaces all of them. It waits for the end as 'ao run' does.

With filters instead of an id it is about all that match and have ended, by default those that failed; their new runs' ids are
printed, and nothing is waited for. It says how many they are and asks; --yes answers. A run costs again, and what an agent does to
the outside may happen twice.`

const retryExample = `  ao retry run_…
  ao retry run_… -p depth=3 --detach
  ao retry run_… --same-session --prompt "try once more"
  ao retry --agent crawler --error timeout --since 2h
  ao retry --status failed,stopped --since 1h --yes`

// retryFlags is what a retry has anew.
type retryFlags struct {
	given   []param.Argument
	params  string
	same    bool
	timeout seconds
	detach  bool
	quiet   bool
}

func retryCommand(a *app) *cobra.Command {
	var m bulk
	var o retryFlags
	c := &cobra.Command{
		Use: "retry RUN | retry --status failed [--agent AGENT]", Short: "Start a run like another one, or like all that match",
		Long: retryLong, Example: retryExample, Args: m.args(exactlyOne("a run")), ValidArgsFunction: completer{a}.runs,
	}
	f := c.Flags()
	f.VarP(typedFlag{&o.given, "name=value", param.Parse}, "param", "p", "another parameter: name=value, name:=JSON, or name alone for true")
	f.Var(typedFlag{&o.given, "text", func(s string) (param.Argument, error) { return param.Text("prompt", s) }}, "prompt", "another prompt")
	f.StringVar(&o.params, "params", "", "all parameters as a JSON object: a file, '{…}', or - for standard input")
	f.BoolVar(&o.same, "same-session", false, "as a further turn of the run's session; without it a new one begins")
	f.Var(&o.timeout, "timeout", "another limit of the execution, such as 90s")
	f.StringVar(&m.key, "idempotency-key", "", "the same key and the same command are the same runs, however often it is sent")
	f.BoolVarP(&o.detach, "detach", "d", false, "do not wait: print the run's id and the session's")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not tell what happens on the way")
	f.StringVar(&m.code, "error", "", "all whose error has this code, such as timeout")
	addBulkFlags(a, c, &m, []string{string(run.Failed), string(run.Stopped), string(run.Completed)})
	for _, name := range []string{"param", "prompt", "timeout", "idempotency-key", "error"} {
		completeFlag(c, name, cobra.NoFileCompletions)
	}
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			if len(o.given) > 0 || o.params != "" || o.same || o.timeout != 0 {
				return usagef("what is to be another goes with one run; leave it out, or name the run")
			}
			return m.apply(ctx, a, "start again", "run", "runs", "retry")
		}
		if err := run.CheckID(args[0]); err != nil {
			return usageError{err}
		}
		body, err := o.body(ctx, a, args[0])
		if err != nil {
			return err
		}
		return submit(ctx, a, submission{[]string{"runs", args[0], "retry"}, body, m.key, o.detach, o.quiet})
	})
	return c
}

// body is what is to be another.
func (o retryFlags) body(ctx context.Context, a *app, id string) ([]byte, error) {
	var all []strictjson.Member
	if o.same {
		all = append(all, strictjson.Member{Key: "in", Value: json.RawMessage(`"same_session"`)})
	}
	if o.timeout != 0 {
		all = append(all, numberMember("timeout_seconds", int(time.Duration(o.timeout)/time.Second))...)
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

// parameters are the run's own, with those that are given in their place.
func (o retryFlags) parameters(ctx context.Context, a *app, id string) (json.RawMessage, error) {
	answer, err := a.client.DoWithRetry(ctx, client.Call{Method: http.MethodGet, Path: []string{"runs", id}})
	if err != nil {
		return nil, err
	}
	var r run.Run
	if err := json.Unmarshal(answer.Doc, &r); err != nil {
		return nil, err
	}
	raw := r.Parameters
	if o.params != "" {
		if raw, err = a.readObject("params", o.params); err != nil {
			return nil, err
		}
	}
	base, err := param.ParseObject(raw)
	if err != nil {
		return nil, err
	}
	req := request{Type: run.Start, Agent: r.Agent}
	if o.same {
		req.Type = run.Resume
	}
	schema, err := schemaFor(ctx, a, req, o.given)
	if err != nil {
		return nil, err
	}
	parameters, err := param.Object(base, o.given, schema)
	if err != nil {
		return nil, parameterError{err}
	}
	return parameters, nil
}
