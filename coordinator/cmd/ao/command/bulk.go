package command

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

// bulk holds the filters and options of a command on many runs.
type bulk struct {
	status, agent, session, parent, since, code string

	limit     int
	yes, tree bool
	key       string // of retries
}

// addBulkFlags adds the flags that select runs by filters.
func addBulkFlags(a *app, c *cobra.Command, m *bulk, statuses []string) {
	f := c.Flags()
	f.StringVar(&m.status, "status", "", "select by status: "+strings.Join(statuses, ", "))
	f.StringVar(&m.agent, "agent", "", "select by agent")
	f.StringVar(&m.session, "session", "", "select by session")
	f.StringVar(&m.parent, "parent", "", "select by parent session")
	f.StringVar(&m.since, "since", "", "select by creation: since 2h, 30m, 2026-01-31 or 2026-01-31T12:00:00Z")
	f.IntVar(&m.limit, "limit", 0, "at most this many, newest first (1 to 1000); 0: all")
	f.BoolVarP(&m.yes, "yes", "y", false, "do not ask for confirmation")
	completeFlag(c, "status", cobra.FixedCompletions(statuses, noFiles))
	completeFlag(c, "agent", completer{a}.agents)
	completeFlag(c, "session", completer{a}.sessions)
	completeFlag(c, "parent", completer{a}.sessions)
}

// hasFilters reports whether the command selects by filters instead of ids.
func (m *bulk) hasFilters() bool {
	return m.status+m.agent+m.session+m.parent+m.since+m.code != ""
}

// args requires ids or filters.
func (m *bulk) args(ids cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case m.hasFilters() && len(args) > 0:
			return errors.New("give ids or filters such as --agent and --status, not both")
		case m.hasFilters():
			return nil
		}
		return ids(c, args)
	}
}

// body returns the members of the request, without cursor and expected count.
func (m *bulk) body(now time.Time) (all []strictjson.Member, err error) {
	put := func(key string, v any) { all = append(all, member(key, v)) }
	if m.limit < 0 || m.limit > maxListed {
		return nil, usagef("limit must be from 1 to %d, got %d", maxListed, m.limit)
	}
	for _, f := range []struct{ name, v string }{
		{"status", m.status}, {"agent_name", m.agent}, {"session_id", m.session}, {"parent_session_id", m.parent},
		{"error", m.code},
	} {
		if f.v != "" {
			put(f.name, f.v)
		}
	}
	if m.since != "" {
		t, err := parseSince(now, m.since)
		if err != nil {
			return nil, err
		}
		put("created_after", t.UTC().Format(time.RFC3339Nano))
	}
	if m.limit > 0 {
		put("limit", m.limit)
	}
	if m.tree {
		put("tree", true)
	}
	return all, nil
}

// apply asks for confirmation and applies the action to all matching runs, page by page. verb names it: "stop".
func (m *bulk) apply(ctx context.Context, a *app, verb, noun string, path ...string) error {
	body, err := m.body(a.now())
	if err != nil {
		return err
	}
	n, err := m.count(ctx, a, body, path)
	switch {
	case err != nil:
		return err
	case n == 0:
		a.note("no run matches")
		return nil
	}
	if err := m.confirm(a, verb+" "+plural(min(n, cmp.Or(m.limit, n)), noun)); err != nil {
		return err
	}
	key, refused, last := cmp.Or(m.key, client.NewKey()), 0, member("expect", n)
	for page := 1; ; page++ {
		answer, err := a.client.Do(ctx, client.Call{Method: http.MethodPost, Path: path,
			Body: strictjson.Object(append(body[:len(body):len(body)], last)), Key: fmt.Sprintf("%s.%d", key, page)})
		if err != nil {
			return err
		}
		var done bulkAnswer
		if err := json.Unmarshal(answer.Document, &done); err != nil {
			return err
		}
		if err := done.show(a, answer.Document); err != nil {
			return err
		}
		refused += len(done.Refused)
		if done.Next == "" || m.limit > 0 {
			break
		}
		last = member("cursor", done.Next)
	}
	if refused > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

// bulkAnswer is the API's answer to one page.
type bulkAnswer struct {
	Count   int      `json:"count"`
	Runs    []string `json:"runs"`
	Refused []struct {
		RunID string       `json:"run_id"`
		Error *fault.Fault `json:"error"`
	} `json:"refused"`
	Next string `json:"next_cursor"`
}

// show prints the ids, one per line.
func (d bulkAnswer) show(a *app, doc json.RawMessage) error {
	if a.json {
		return a.printDoc(doc)
	}
	for _, r := range d.Refused {
		a.note("%s: %s (%s)", r.RunID, r.Error.Message, r.Error.Code)
	}
	var b strings.Builder
	for _, id := range d.Runs {
		b.WriteString(screen.Line(id) + "\n")
	}
	return a.print(b.String())
}

// member returns a member of a request; v is anything that encodes, such as strings and numbers.
func member(key string, v any) strictjson.Member {
	raw, _ := strictjson.Encode(v)
	return strictjson.Member{Key: key, Value: raw}
}

// count returns how many runs match: the API reports it if the request expects none.
func (m *bulk) count(ctx context.Context, a *app, body []strictjson.Member, path []string) (int, error) {
	_, err := a.client.Do(ctx, client.Call{Method: http.MethodPost, Path: path,
		Body: strictjson.Object(append(body[:len(body):len(body)], member("expect", 0)))})
	if refused, ok := errors.AsType[*client.APIError](err); ok && refused.Code == "expect_mismatch" {
		var f struct {
			Count int `json:"count"`
		}
		return f.Count, json.Unmarshal(refused.Document, &f)
	}
	return 0, err
}

// confirm asks on a terminal; programs must use --yes.
func (m *bulk) confirm(a *app, what string) error {
	if m.yes {
		return nil
	}
	if f, ok := a.in.(*os.File); !ok || !isTerminal(f) || a.json {
		return usagef("this would %s; confirm with --yes", what)
	}
	a.errs.println(screen.Text("This will " + what + ". Type yes to continue:"))
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "yes" && answer != "y" {
		a.note("cancelled")
		return exitCode(exitFailed)
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
