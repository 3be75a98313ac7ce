package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/agent"
	client "ao/shared/clients/go"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

// filter holds the filters of a list of runs or sessions.
type filter struct {
	status, agent, session, parent, since, cursor string
	runner, retryOf, agentHash, text              string

	roots bool

	limit int
	all   bool
}

func filterFlags(a *app, c *cobra.Command, f *filter, statuses []string) {
	flags := c.Flags()
	flags.StringVar(&f.status, "status", "", strings.Join(statuses, ", "))
	flags.StringVar(&f.agent, "agent", "", "only of this agent")
	flags.StringVar(&f.parent, "parent", "", "only with this parent session")
	pageFlags(c, f, 20)
	completeFlag(c, "status", cobra.FixedCompletions(statuses, noFiles))
	completeFlag(c, "agent", completer{a}.agents)
	completeFlag(c, "parent", completer{a}.sessions)
}

// pageFlags adds the flags of every paged list.
func pageFlags(c *cobra.Command, f *filter, limit int) {
	flags := c.Flags()
	flags.StringVar(&f.since, "since", "", "only since: 2h, 30m, 2026-01-31 or 2026-01-31T12:00:00Z")
	flags.IntVar(&f.limit, "limit", limit, "maximum rows per page")
	flags.StringVar(&f.cursor, "cursor", "", "continue after the page that printed this cursor")
	flags.BoolVar(&f.all, "all", false, "all pages")
}

func (f filter) query(now time.Time) (url.Values, error) {
	q := url.Values{}
	for name, v := range map[string]string{
		"status": f.status, "agent_name": f.agent, "session_id": f.session, "parent_session_id": f.parent,
		"cursor":    f.cursor,
		"runner_id": f.runner, "retry_of": f.retryOf, "agent_hash": f.agentHash, "q": f.text,
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
		f.limit = maxListed // fewer requests
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
	return time.Time{}, usagef("since %q: write a duration such as 2h or 30m, a date such as 2026-01-31, or a time "+
		"such as 2026-01-31T12:00:00Z", s)
}

// listPages reads one page or all pages of a filtered list.
func (a *app) listPages(ctx context.Context, of string, f filter) (client.Page, error) {
	q, err := f.query(a.now())
	if err != nil {
		return client.Page{}, err
	}
	return pages(q, func(client.Page) bool { return f.all }, func() (client.Page, error) {
		return a.once.List(ctx, of, q, of)
	})
}

// pages reads a page of a list, and the next ones while more returns true; q gets their cursors.
func pages(q url.Values, more func(client.Page) bool, read func() (client.Page, error)) (client.Page, error) {
	all, err := read()
	for err == nil && all.Next != "" && more(all) {
		q.Set("cursor", all.Next)
		var next client.Page
		next, err = read()
		all = client.Page{Items: append(all.Items, next.Items...), Next: next.Next}
	}
	return all, err
}

func statuses[S ~string](all []S) []string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return names
}

// atLeastOne requires one or more arguments.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("name %s, or several", what)
		}
		return nil
	}
}

// noArguments refuses arguments. It names subcommands that may have been meant.
func noArguments(c *cobra.Command, args []string) error {
	err := cobra.NoArgs(c, args)
	if err == nil {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, ", "))
	}
	return err
}

// exactlyOne requires exactly one argument that the checks accept.
func exactlyOne(what string, checks ...func(string) error) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("name %s", what)
		case len(args) > 1:
			return fmt.Errorf("name %s, only one; these are %d", what, len(args))
		}
		for _, check := range checks {
			if err := check(args[0]); err != nil {
				return err
			}
		}
		return nil
	}
}

// The arguments of commands on one thing.
var (
	oneRun     = exactlyOne("a run", run.CheckID)
	oneSession = exactlyOne("a session", run.CheckSessionID)
	oneAgent   = exactlyOne("an agent", func(name string) error { return agent.CheckName("agent", name) })
	oneSchema  = exactlyOne("an output schema", func(name string) error { return agent.CheckName("name", name) })
)

// apiPath returns the API path of a run or session.
func apiPath(id string) ([]string, error) {
	switch {
	case run.CheckID(id) == nil:
		return []string{"runs", id}, nil
	case run.CheckSessionID(id) == nil:
		return []string{"sessions", id}, nil
	}
	return nil, usageError{
		errors.New(screen.Line(fmt.Sprintf("%.80q is not the id of a run (run_…) or session (ses_…); 'ao runs' and "+
			"'ao sessions' list them", id)))}
}
