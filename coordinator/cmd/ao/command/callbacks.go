package command

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

func callbacksCommand(a *app) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use: "callbacks", Short: "List the runs that call back, the newest first; try a dead one again", Args: cobra.NoArgs,
		Long: "List the runs whose end a parent session or a callback_url is told of, and where that stands:\n" +
			"waiting (the run has not ended), owed (the parent is busy, or tries are left), delivered, suppressed (stopped with a tree),\n" +
			"undeliverable (the parent is gone or cannot be resumed), dead (all tries of an HTTP callback were in vain).",
		Example: "  ao callbacks --status dead,undeliverable\n  ao callbacks redeliver run_…",
	}
	filterFlags(a, c, &f, run.CallbackStatuses)
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.listPages(ctx, "callbacks", f)
		if err != nil {
			return err
		}
		statuses := strings.Split(f.status, ",")
		wanted := func(status string) bool { return f.status == "" || slices.Contains(statuses, status) } // a run may call back twice
		table := screen.NewTable("RUN", "ENDED", "TO", "CALLBACK", "TRIES", "NOTE")
		err = a.printList(p, "no callbacks", table, func(doc json.RawMessage) error {
			var r run.Run
			if err := json.Unmarshal(doc, &r); err != nil {
				return err
			}
			ended := ""
			if r.EndedAt != nil {
				ended = screen.Age(a.now(), *r.EndedAt)
			}
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
			return nil
		})
		if err == nil {
			a.noteMore(p, "callbacks")
		}
		return err
	})
	var m bulk
	again := &cobra.Command{
		Use: "redeliver RUN | redeliver --status dead", Short: "Try the HTTP callback of a run again, now, or of all that match", Args: m.args(exactlyOne("a run")), ValidArgsFunction: completer{a}.runs,
		Example: "  ao callbacks redeliver run_…\n  ao callbacks redeliver --status dead --since 2h",
	}
	addBulkFlags(a, again, &m, []string{run.CallbackDead, run.CallbackPending})
	again.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if m.hasFilters() {
			return m.apply(ctx, a, "tell again of", "run", "callbacks", "redeliver")
		}
		if err := run.CheckID(args[0]); err != nil {
			return usageError{err}
		}
		answer, err := a.client.Do(ctx, client.Call{Method: http.MethodPost, Path: []string{"callbacks", args[0], "redeliver"}})
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printDoc(answer.Doc)
		}
		a.note("the receiver of %s is told again; 'ao callbacks' shows how that went", args[0])
		return nil
	})
	c.AddCommand(again)
	return c
}
