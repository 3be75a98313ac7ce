package command

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

// treeSession is a session with its runs in the answer of GET /sessions/{id}/tree.
type treeSession struct {
	ID        string     `json:"session_id"`
	Depth     int        `json:"depth"`
	Status    string     `json:"status"`
	Agent     string     `json:"agent_name"`
	CreatedAt *time.Time `json:"created_at"`
	Deleted   bool       `json:"deleted"`
	Runs      []struct {
		run.Run
		Reports []string `json:"reports"`
		Earlier []struct {
			Attempt int          `json:"attempt"`
			Claimed *time.Time   `json:"claimed_at"`
			Started *time.Time   `json:"started_at"`
			Ended   *time.Time   `json:"completed_at"`
			Error   *fault.Fault `json:"error"`
		} `json:"earlier_attempts"`
	} `json:"runs"`
	Omitted int `json:"runs_omitted"`
}

func treeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "tree SESSION", Short: "Show a session and its descendants with their runs", Args: oneSession,
		ValidArgsFunction: completer{a}.sessions,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			q := url.Values{"limit": {strconv.Itoa(maxListed)}}
			p, err := pages(q, func(client.Page) bool { return true }, func() (client.Page, error) {
				return a.once.List(ctx, "sessions", q, "sessions", args[0], "tree")
			})
			if err != nil {
				return err
			}
			table := screen.NewTable("SESSION, RUNS", "AGENT", "STATUS", "CREATED", "TOOK", "NOTE")
			return printList(a, p, "no sessions", table, func(s treeSession) { addSession(a, table, s) })
		}),
	}
}

// addSession adds a session of a tree and its runs to a table.
func addSession(a *app, table *screen.Table, s treeSession) {
	at := strings.Repeat("· ", s.Depth)
	note := ""
	if s.Deleted {
		note = "deleted or expired"
	} else if s.Omitted > 0 {
		note = strconv.Itoa(s.Omitted) + " older runs omitted"
	}
	table.Row(at+s.ID, s.Agent, s.Status, a.age(s.CreatedAt), "", note)
	for _, r := range s.Runs {
		for _, e := range r.Earlier {
			of := run.Run{ClaimedAt: e.Claimed, StartedAt: e.Started, EndedAt: e.Ended, Error: e.Error,
				Status: run.Failed}
			table.Row(at+"· "+r.ID, "", fmt.Sprintf("attempt %d", e.Attempt), "", durationOf(a, of),
				a.lastCell(runNote(of)))
		}
		note := a.lastCell(runNote(r.Run))
		if len(r.Reports) > 0 {
			note = strings.TrimSpace("reports " + strings.Join(r.Reports, ", ") + " " + note)
		}
		table.Row(at+"· "+r.ID, "", string(r.Status), screen.Age(a.now(), r.CreatedAt), durationOf(a, r.Run), note)
	}
}
