package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

// filter is what a list of runs or sessions is narrowed by.
type filter struct {
	status, agent, session, parent, since, cursor string
	runner, retryOf, text                         string

	roots bool

	limit int
	all   bool
}

func filterFlags(a *app, c *cobra.Command, f *filter, statuses []string) {
	flags := c.Flags()
	flags.StringVar(&f.status, "status", "", strings.Join(statuses, ", "))
	flags.StringVar(&f.agent, "agent", "", "of this agent")
	flags.StringVar(&f.parent, "parent", "", "whose parent is this session")
	flags.StringVar(&f.since, "since", "", "created since: 2h, 30m, 2026-01-31 or 2026-01-31T12:00:00Z")
	flags.IntVar(&f.limit, "limit", 20, "at most so many on a page")
	flags.StringVar(&f.cursor, "cursor", "", "go on where a page ended")
	flags.BoolVar(&f.all, "all", false, "page after page, to the end")
	completeFlag(c, "status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))
	completeFlag(c, "agent", completer{a}.agents)
	completeFlag(c, "parent", completer{a}.sessions)
	for _, name := range []string{"since", "limit", "cursor"} {
		completeFlag(c, name, cobra.NoFileCompletions)
	}
}

func (f filter) query(now time.Time) (url.Values, error) {
	q := url.Values{}
	for name, v := range map[string]string{
		"status": f.status, "agent_name": f.agent, "session_id": f.session, "parent_session_id": f.parent, "cursor": f.cursor,
		"runner_id": f.runner, "retry_of": f.retryOf, "q": f.text,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if f.roots {
		q.Set("roots", "true")
	}
	switch {
	case f.limit < 1 || f.limit > maxListed:
		return nil, usagef("limit must be from 1 to %d, got %d; --all lists everything", maxListed, f.limit)
	case f.all:
		f.limit = maxListed // fewer pages; the reader sees one list
	}
	q.Set("limit", strconv.Itoa(f.limit))
	if f.since != "" {
		t, err := parseSince(now, f.since)
		if err != nil {
			return nil, err
		}
		q.Set("created_after", t.UTC().Format(time.RFC3339Nano))
	}
	return q, nil
}

func parseSince(now time.Time, s string) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	return time.Time{}, usagef("since %q: write a time span such as 2h or 30m, a day such as 2026-01-31, or a moment such as 2026-01-31T12:00:00Z", s)
}

// listPages reads a page, or all of them, of a filtered list.
func (a *app) listPages(ctx context.Context, of string, f filter) (client.Page, error) {
	q, err := f.query(a.now())
	if err != nil {
		return client.Page{}, err
	}
	p, err := a.client.List(ctx, of, q, of)
	for err == nil && f.all && p.Next != "" {
		q.Set("cursor", p.Next)
		var more client.Page
		more, err = a.client.List(ctx, of, q, of)
		p = client.Page{Items: append(p.Items, more.Items...), Next: more.Next}
	}
	return p, err
}

// noteMore says how to go on after a page.
func (a *app) noteMore(p client.Page, of string) {
	if p.Next != "" {
		a.errs.println(screen.Line(fmt.Sprintf("more: --cursor %s (or --all) with the same %s command", p.Next, of)))
	}
}

func statuses[S ~string](all []S) []string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return names
}

// atLeastOne wants one argument or more, and says what of.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("which one? name %s, or several", what)
		}
		return nil
	}
}

// exactlyOne wants exactly one argument, and says what of.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("which one? name %s, one at a time (got %d)", what, len(args))
		}
		return nil
	}
}

// apiPath is where the API has what an id names.
func apiPath(id string) ([]string, error) {
	switch {
	case run.CheckID(id) == nil:
		return []string{"runs", id}, nil
	case run.CheckSessionID(id) == nil:
		return []string{"sessions", id}, nil
	}
	return nil, usageError{errors.New(screen.Line(fmt.Sprintf("%.80q is neither a run (run_…) nor a session (ses_…); 'ao runs' and 'ao sessions' list them", id)))}
}
