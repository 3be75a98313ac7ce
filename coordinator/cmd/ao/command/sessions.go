package command

import (
	"context"
	"net/http"
	"strconv"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

var sessionStatuses = []run.SessionStatus{
	run.SessionPending, run.SessionRunning, run.SessionIdle, run.SessionStopping, run.SessionFinished,
	run.SessionStopped, run.SessionFailed,
}

func sessionsCommand(a *app) *cobra.Command {
	var f filter
	c := &cobra.Command{Use: "sessions", Short: "List sessions, newest first; delete one", Args: noArguments}
	filterFlags(a, c, &f, statuses(sessionStatuses))
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.listPages(ctx, "sessions", f)
		if err != nil {
			return err
		}
		table := screen.NewTable("SESSION", "AGENT", "STATUS", "RUNS", "CREATED", "CHANGED")
		return printList(a, p, "no sessions", table, func(s run.Session) {
			table.Row(s.ID, s.Agent, string(s.Status), strconv.Itoa(s.Runs), screen.Age(a.now(), s.CreatedAt),
				screen.Age(a.now(), s.ModifiedAt))
		})
	})
	c.AddCommand(deleteCommand(a, "sessions", &cobra.Command{
		Use: "delete SESSION", Short: "Delete a session with its runs and events, unless one is running",
		Args: oneSession, ValidArgsFunction: completer{a}.sessions,
	}))
	return c
}

// deleteCommand makes c delete the resource of a collection that its argument names.
func deleteCommand(a *app, collection string, c *cobra.Command) *cobra.Command {
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		answer, err := a.once.Do(ctx, client.Call{Method: http.MethodDelete, Path: []string{collection, args[0]}})
		return a.done(answer.Document, err, "%s deleted", args[0])
	})
	return c
}
