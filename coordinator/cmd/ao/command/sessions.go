package command

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

var sessionStatuses = []run.SessionStatus{
	run.SessionPending, run.SessionRunning, run.SessionIdle, run.SessionStopping, run.SessionFinished,
	run.SessionStopped, run.SessionFailed,
}

func sessionsCommand(a *app) *cobra.Command {
	var f filter
	c := &cobra.Command{Use: "sessions", Short: "List sessions, newest first; delete one", Args: cobra.NoArgs}
	filterFlags(a, c, &f, statuses(sessionStatuses))
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.listPages(ctx, "sessions", f)
		if err != nil {
			return err
		}
		table := screen.NewTable("SESSION", "AGENT", "STATUS", "RUNS", "CREATED", "CHANGED")
		err = a.printList(p, "no sessions", table, func(doc json.RawMessage) error {
			var s run.Session
			if err := json.Unmarshal(doc, &s); err != nil {
				return err
			}
			table.Row(s.ID, s.Agent, string(s.Status), strconv.Itoa(s.Runs), screen.Age(a.now(), s.CreatedAt),
				screen.Age(a.now(), s.ModifiedAt))
			return nil
		})
		if err == nil {
			a.noteMore(p, "sessions")
		}
		return err
	})
	gone := &cobra.Command{
		Use: "delete SESSION", Short: "Delete a session with its runs and events, unless one is running",
		Args: exactlyOne("a session"), ValidArgsFunction: completer{a}.sessions}
	gone.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if err := run.CheckSessionID(args[0]); err != nil {
			return usageError{err}
		}
		return a.delete(ctx, "sessions", args[0])
	})
	c.AddCommand(gone)
	return c
}

// delete deletes a resource and reports it.
func (a *app) delete(ctx context.Context, path ...string) error {
	answer, err := a.client.Do(ctx, client.Call{Method: http.MethodDelete, Path: path})
	switch {
	case err != nil:
		return err
	case a.json && len(answer.Doc) > 0:
		return a.printDoc(answer.Doc)
	case a.json:
		return nil
	}
	a.note("%s deleted", path[len(path)-1])
	return nil
}
