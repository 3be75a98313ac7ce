package executor_test

import (
	"context"
	"fmt"
	"strings"

	"ao/shared/executor"
	"ao/shared/run"
)

// A persistent executor: one process for the turns of a session. It serves the lifecycle oneshot as well.
func ExampleServe() {
	var heard []string // lives as long as the process does
	executor.Serve(func(ctx context.Context, v executor.Invocation, out *executor.Out) (run.Result, error) {
		if v.Mode == executor.Start { // the conversation is ours, and in this process alone
			if err := out.Bind("mine-" + v.SessionID); err != nil {
				return run.Result{}, err
			}
		}
		if strings.TrimSpace(v.Prompt) == "" {
			return run.Result{}, fmt.Errorf("there is nothing to answer") // the turn fails, the process stays
		}
		heard = append(heard, v.Prompt)
		out.Message("assistant", "let me think …") // shown at once
		text := fmt.Sprintf("%d: %s", len(heard), strings.Join(heard, ", "))
		return run.Result{Text: &text}, ctx.Err() // ctx ends at SIGTERM
	})
}
