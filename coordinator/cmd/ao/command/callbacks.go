package command

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

func callbacksCommand(a *app) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use: "callbacks", Short: "List callbacks, newest first; redeliver one", Args: noArguments,
		Long: `List the callbacks of runs, to a parent session or a callback_url, with their status: waiting (the run
has not ended), owed (pending: the parent is busy, or attempts are left), delivered, suppressed (stopped with
a tree), undeliverable (the parent is deleted or cannot be resumed), dead (all attempts of an HTTP callback
failed).`,
		Example: "  ao callbacks --status dead,undeliverable\n  ao callbacks redeliver run_…",
	}
	filterFlags(a, c, &f, run.CallbackStatuses)
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.listPages(ctx, "callbacks", f)
		if err != nil {
			return err
		}
		statuses := strings.Split(f.status, ",")
		// a run may have two callbacks
		wanted := func(status string) bool { return f.status == "" || slices.Contains(statuses, status) }
		table := screen.NewTable("RUN", "ENDED", "TO", "CALLBACK", "TRIES", "NOTE")
		return printList(a, p, "no callbacks", table, func(r run.Run) {
			ended := a.age(r.EndedAt)
			if c := r.Callback; c != nil && wanted(c.Status) {
				table.Row(r.ID, ended, r.Parent, c.Status, "", a.lastCell(callNote(*c)))
			}
			if c := r.HTTPCallback; c != nil && wanted(c.Status) {
				tries := ""
				if c.Tries > 0 {
					tries = strconv.Itoa(c.Tries)
				}
				table.Row(r.ID, ended, screen.Truncate(r.CallbackURL, 40), c.Status, tries, a.lastCell(callNote(*c)))
			}
		})
	})
	var m bulk
	again := &cobra.Command{
		Use:   "redeliver RUN | redeliver --status dead",
		Short: "Redeliver the HTTP callback of a run now, or of all matching runs", Args: m.args(oneRun),
		ValidArgsFunction: completer{a}.runs,
		Example:           "  ao callbacks redeliver run_…\n  ao callbacks redeliver --status dead --since 2h",
	}
	addBulkFlags(a, again, &m, []string{run.CallbackDead, run.CallbackPending})
	again.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if m.hasFilters() {
			return m.apply(ctx, a, "redeliver the callbacks of", "run", "callbacks", "redeliver")
		}
		answer, err := a.once.Do(ctx,
			client.Call{Method: http.MethodPost, Path: []string{"callbacks", args[0], "redeliver"}})
		return a.done(answer.Document, err, "redelivering the callback of %s; 'ao callbacks' shows the result", args[0])
	})
	c.AddCommand(again)
	return c
}
