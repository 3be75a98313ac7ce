package command

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

// auditEntry is an entry of GET /audit.
type auditEntry struct {
	Time       time.Time `json:"time"`
	EntryPoint string    `json:"door"`
	Actor      *struct {
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		Session    string `json:"session_id"`
		Runner     string `json:"runner_id"`
		Credential string `json:"credential"`
	} `json:"actor"`
	From    string `json:"from"`
	Action  string `json:"action"`
	Route   string `json:"route"`
	Run     string `json:"run_id"`
	Session string `json:"session_id"`
	Agent   string `json:"agent_name"`
	Schema  string `json:"schema_name"`
	Runner  string `json:"runner_id"`
	Status  int    `json:"status"`
	Error   string `json:"error"`
	Count   uint64 `json:"count"`
}

// actor names who did it.
func (e auditEntry) actor() string {
	if e.Actor == nil {
		return ""
	}
	return cmp.Or(e.Actor.Name, e.Actor.Session, e.Actor.Runner, e.Actor.Credential, e.Actor.Kind)
}

// target names what it was done to.
func (e auditEntry) target() string {
	return cmp.Or(e.Run, e.Session, e.Agent, e.Schema, e.Runner, e.Route)
}

// outcome describes the result.
func (e auditEntry) outcome() string {
	if e.Count > 0 {
		return strconv.FormatUint(e.Count, 10) + " more, not listed"
	}
	if e.Status == 0 {
		return e.Error
	}
	return strings.TrimSpace(strconv.Itoa(e.Status) + " " + e.Error)
}

func auditCommand(a *app) *cobra.Command {
	var f filter
	var actor, action, of string
	c := &cobra.Command{
		Use: "audit", Short: "List changes and refused requests, newest first", Args: noArguments,
		Long: `List changes and refused requests of all coordinators with their actors, kept for 30 days up to 64 MiB.
It needs a token with scope admin. Lost entries are reported.`,
		Example: "  ao audit --actor ci --since 2h\n  ao audit --action agent   # agent.create, agent.change, " +
			"agent.delete\n  ao audit --run run_…",
	}
	flags := c.Flags()
	flags.StringVar(&actor, "actor", "", "only by this token, kind of actor, session, run, runner or credential")
	flags.StringVar(&action, "action", "", "only this action, or those that start with it and a dot")
	flags.StringVar(&of, "run", "", "only about this run, or by it")
	pageFlags(c, &f, 50)
	completeFlag(c, "run", completer{a}.runs)
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		if of != "" {
			if err := run.CheckID(of); err != nil {
				return usageError{err}
			}
		}
		q, err := f.query(a.now())
		if err != nil {
			return err
		}
		if since := q.Get("created_after"); since != "" {
			q.Del("created_after")
			q.Set("after", since)
		}
		for name, v := range map[string]string{"actor": actor, "action": action, "run": of} {
			if v != "" {
				q.Set(name, v)
			}
		}
		return auditPages(ctx, a, q, f.all)
	})
	return c
}

// auditPages prints one page or all pages.
func auditPages(ctx context.Context, a *app, q url.Values, all bool) error {
	// an empty page with a cursor: the scan is not complete
	more := func(p client.Page) bool { return all || len(p.Items) == 0 }
	p, err := pages(q, more, func() (client.Page, error) { return auditPage(ctx, a, q) })
	if err != nil {
		return err
	}
	table := screen.NewTable("TIME", "ACTOR", "FROM", "ACTION", "TARGET", "OUTCOME")
	return printList(a, p, "no entries", table, func(e auditEntry) {
		table.Row(screen.At(a.now(), e.Time), e.actor(), cmp.Or(e.From, e.EntryPoint), e.Action, e.target(),
			a.lastCell(e.outcome()))
	})
}

// auditPage reads a page and reports missing entries.
func auditPage(ctx context.Context, a *app, q url.Values) (client.Page, error) {
	doc, err := a.once.Read(ctx, q, "audit")
	if err != nil {
		return client.Page{}, err
	}
	var page struct {
		Entries []json.RawMessage `json:"entries"`
		Next    string            `json:"next_cursor"`
		Gaps    []struct {
			After  time.Time `json:"after"`
			Before time.Time `json:"before"`
			Count  uint64    `json:"count"`
		} `json:"gaps"`
	}
	if err := json.Unmarshal(doc, &page); err != nil {
		return client.Page{}, err
	}
	for _, gap := range page.Gaps {
		many := "entries"
		if gap.Count > 0 {
			many = strconv.FormatUint(gap.Count, 10) + " entries"
		}
		a.errs.println(many + " are missing from " + gap.After.Format(time.RFC3339) + " to " +
			gap.Before.Format(time.RFC3339))
	}
	return client.Page{Items: page.Entries, Next: page.Next}, nil
}
