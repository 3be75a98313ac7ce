package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/executor/conformance"

	"github.com/spf13/cobra"
)

const aboutConformance = `Test an executor as a worker uses it: reading the invocation, reporting a result,
resuming, any input text, stopping. The program is started about eight times with a short prompt in an empty
folder; no coordinator is needed. It gets PATH, HOME, LANG, TMPDIR and TZ; name other variables with --env.

  ao conformance -- ./my-executor
  ao conformance --persistent --env OPENAI_API_KEY -- ./my-executor --model small

Exit codes: 0 every check that MUST pass does (others are warnings), 1 one fails, 2 usage error.
How to write an executor: shared/docs/executors.md.`

func conformanceCommand(a *app) *cobra.Command {
	var c conformance.Config
	var env []string
	var config string
	cmd := &cobra.Command{Use: "conformance -- PROGRAM [ARGUMENT...]",
		Short: "Test a program that implements an executor", Long: aboutConformance, Args: cobra.ArbitraryArgs}
	cmd.Flags().BoolVar(&c.Persistent, "persistent", false, `run it as a profile with "lifecycle":"persistent" does`)
	cmd.Flags().StringVar(&c.Prompt, "prompt", "", "prompt for the program; default: a request for a greeting")
	cmd.Flags().StringArrayVar(&env, "env", nil, "name of an environment variable to pass on; repeatable")
	cmd.Flags().StringVar(&config, "config", "", "executor_config of the invocation, a JSON object")
	cmd.Flags().DurationVar(&c.Timeout, "timeout", 30*time.Second, "how long each answer may take")
	cmd.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return usagef("give the program after --, for example: ao conformance -- ./my-executor")
		}
		for _, name := range env {
			value, ok := os.LookupEnv(name)
			if !ok {
				return usagef("--env %s: variable is not set", name)
			}
			c.Env = append(c.Env, name+"="+value)
		}
		if config != "" {
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(config), &object); err != nil {
				return usagef("--config must be a JSON object: %v", err)
			}
			c.Executor = json.RawMessage(config)
		}
		c.Command = args
		r, err := conformance.Run(ctx, c)
		if err != nil {
			return err
		}
		return showConformance(a, r)
	})
	return cmd
}

// showConformance prints a report. The exit code is 1 if a check that must pass fails.
func showConformance(a *app, r conformance.Report) error {
	var way error
	if !r.OK {
		way = exitCode(exitFailed)
	}
	if a.json {
		return cmp.Or(a.printJSON(r), way)
	}
	counts := map[string]int{}
	table := screen.NewTable("RESULT", "LEVEL", "CHECK", "DETAIL")
	for _, c := range r.Checks {
		counts[c.Result]++
		level := "should"
		if c.Must {
			level = "MUST"
		}
		table.Row(strings.ToUpper(c.Result), level, c.Name, c.Detail)
	}
	verdict := "the program conforms"
	if !r.OK {
		verdict = "the program does not conform"
	}
	a.print(table.String(), fmt.Sprintf("\n%d passed, %d failed, %d warnings, %d skipped, lifecycle %s: %s\n",
		counts[conformance.Pass], counts[conformance.Fail], counts[conformance.Warn], counts[conformance.Skip],
		r.Lifecycle, verdict))
	return way
}
