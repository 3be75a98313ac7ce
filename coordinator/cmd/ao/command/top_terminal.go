package command

import (
	"context"
	"time"

	client "ao/shared/clients/go"

	"github.com/spf13/cobra"
)

// watch refreshes the screen until q or Ctrl-C, then returns nil. It waits for a coordinator that is unavailable; any
// other error ends it.
func (t *top) watch(ctx context.Context) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	terminal := newFullScreen(t.app)
	restore, err := terminal.watchKeys(quit)
	if err != nil {
		return err
	}
	defer restore()
	if terminal.out != nil {
		t.app.print(enterScreen)
		defer func() { _ = t.app.print(leaveScreen) }()
	}
	tick := time.NewTicker(topInterval)
	defer tick.Stop()
	for {
		if err := t.draw(terminal); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := t.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case client.Temporary(err):
			t.lastError = err.Error()
		case err != nil:
			return err
		}
	}
}

// draw shows the current snapshot: in place on a terminal, otherwise appended.
func (t *top) draw(terminal fullScreen) error {
	if terminal.out != nil {
		return terminal.paint(t.render)
	}
	if err := t.print(); err != nil || t.app.json {
		return err
	}
	return t.app.print("\n")
}

func topCommand(a *app) *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use: "top", Short: "Watch queues, runners, runs and rates, live", Args: noArguments,
		Long: `Watch the state of the deployment, refreshed every second: queues, runners with slots and
heartbeats, runs by status, rates, the newest runs. q or Ctrl-C quits. If the output is no terminal, the
screens follow each other; with --json each is one document on a line: {"status":…,"runners":[…],"runs":[…]}.`,
		Example: "  ao top\n  ao top --once --json | jq .status.queues",
	}
	c.Flags().BoolVar(&once, "once", false, "print one screen and exit (without rates, which need two)")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		t := &top{app: a}
		if err := t.refresh(ctx); err != nil || !once {
			if err != nil {
				return err
			}
			return t.watch(ctx)
		}
		return t.print()
	})
	return c
}
