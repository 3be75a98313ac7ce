package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

func runsCommand(a *app) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use: "runs", Short: "List runs, newest first, or watch them (-f)", Args: noArguments, Aliases: []string{"ps"},
		Long: `List runs, newest first. With -f a terminal shows the list live; q or Ctrl-C quits. If the
output is no terminal, -f prints the runs of the list, oldest first, then a line for each change of state.
Changes of a run within 0.25 s are one line. A run that no longer has a status asked for gets a last line.
With --json each line is the run as it is at that time, or {"run_id":"…","deleted":true}. -f reconnects after
an outage without missing a run's newest state. Ctrl-C ends it with exit code 0.`,
		Example: "  ao runs --status failed --since 2h\n  ao runs -f --agent crawler\n" +
			"  ao runs -f --status failed --json | jq -r .run_id\n  ao runs --json --all | jq -r .run_id",
	}
	filterFlags(a, c, &f, statuses(run.Statuses))
	c.Flags().StringVar(&f.session, "session", "", "only of this session")
	c.Flags().StringVarP(&f.text, "q", "q", "",
		"only with this prefix of the id, or this text in agent, error, prompt or parameters")
	c.Flags().StringVar(&f.runner, "runner", "", "only of this runner")
	c.Flags().StringVar(&f.retryOf, "retry-of", "", "only retries of this run")
	c.Flags().StringVar(&f.agentHash, "agent-hash", "", "only of the agent's definition with this hash")
	c.Flags().BoolVar(&f.roots, "roots", false, "only of sessions without a parent")
	var count, csv, follow bool
	c.Flags().BoolVar(&count, "count", false, "print only the number of matching runs")
	c.Flags().BoolVar(&csv, "csv", false, "print all matching runs as CSV (at most --limit)")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "show changes, too, until Ctrl-C")
	c.MarkFlagsMutuallyExclusive("count", "csv", "all", "follow")
	c.MarkFlagsMutuallyExclusive("cursor", "follow")
	completeFlag(c, "session", completer{a}.sessions)
	completeFlag(c, "retry-of", completer{a}.runs)
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		switch {
		case count:
			return countRuns(ctx, a, f)
		case csv:
			return runsAsCSV(ctx, a, f, c.Flags().Changed("limit"))
		case follow:
			return followRuns(ctx, a, f)
		}
		return listRuns(ctx, a, f)
	})
	return c
}

func listRuns(ctx context.Context, a *app, f filter) error {
	p, err := a.listPages(ctx, "runs", f)
	if err != nil {
		return err
	}
	table := newRunTable()
	return printList(a, p, "no runs", table, func(r run.Run) {
		table.Row(runCells(a, r, a.lastCell(runNote(r)))...)
	})
}

func newRunTable() *screen.Table {
	return screen.NewTable("RUN", "AGENT", "STATUS", "CREATED", "TOOK", "NOTE")
}

// runCells returns a row of newRunTable.
func runCells(a *app, r run.Run, note string) []string {
	return []string{r.ID, r.Agent, string(r.Status), screen.Age(a.now(), r.CreatedAt), durationOf(a, r), note}
}

// durationOf returns how long a run has been running, or ran.
func durationOf(a *app, r run.Run) string {
	started := cmp.Or(r.StartedAt, r.ClaimedAt)
	switch {
	case started == nil:
		return ""
	case r.EndedAt != nil:
		return screen.Duration(r.EndedAt.Sub(*started))
	case r.Status.Final():
		return ""
	}
	return screen.Duration(a.now().Sub(*started))
}

// runNote returns what matters most about a run besides its status.
func runNote(r run.Run) string {
	switch {
	case r.Error != nil && r.Error.Message != "":
		first, _, more := strings.Cut(r.Error.Message, "\n")
		if more {
			first += " …"
		}
		return first
	case r.Error != nil:
		return r.Error.Code
	}
	return r.WaitingFor
}

func showCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show RUN|SESSION", Short: "Show the details of a run or a session",
		Args: exactlyOne("a run or a session"), ValidArgsFunction: completer{a}.runsOrSessions,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			path, err := apiPath(args[0])
			if err != nil {
				return err
			}
			doc, err := a.once.Read(ctx, nil, path...)
			if path[0] == "sessions" {
				return show(a, doc, err, showSession)
			}
			return show(a, doc, err, showRun)
		}),
	}
}

func showRun(a *app, r run.Run) error {
	var f screen.Facts
	f.Add("run", r.ID, "session", r.SessionID, "parent", parent(r.Parent, r.ParentDeleted), "retry of", r.RetryOf,
		"agent", r.Agent, "agent hash", r.AgentHash, "type", r.Type, "status", string(r.Status),
		"waiting for", r.WaitingFor, "stopped with the tree of", r.StoppedWith)
	if r.Error != nil {
		f.Add("error", strings.Join(faultLines(r.Error), "\n"))
	}
	f.Add("runner", r.RunnerID)
	switch {
	case r.MaxAttempts > 1:
		f.Add("attempt", fmt.Sprintf("%d of %d", r.Attempt, r.MaxAttempts))
	case r.Attempt > 1:
		f.Add("attempt", strconv.Itoa(r.Attempt))
	}
	if c := r.Callback; c != nil {
		f.Add("callback", strings.TrimSpace(c.Status+" "+callNote(*c)))
	}
	if c := r.HTTPCallback; c != nil {
		f.Add("HTTP callback", strings.TrimSpace(r.CallbackURL+": "+c.Status+" "+callNote(*c)))
	}
	f.Add("next attempt", a.at(r.NextAt), "demands", demands(r.Demands), "created", a.at(&r.CreatedAt),
		"claimed", a.at(r.ClaimedAt), "started", a.at(r.StartedAt), "ended", a.at(r.EndedAt))
	if r.TimeoutAt != nil && !r.Status.Final() {
		f.Add("times out", r.TimeoutAt.Local().Format(time.DateTime))
	}
	f.Add("took", durationOf(a, r))
	if len(r.Parameters) > 0 {
		f.Add("parameters", screen.JSON([]byte(indented(r.Parameters))))
	}
	return a.print(f.String())
}

// parent formats a parent session's id.
func parent(id string, gone bool) string {
	if gone {
		return id + " (deleted)"
	}
	return id
}

// demands formats a run's demands on one line.
func demands(d run.Demands) string {
	var all []string
	for _, m := range []struct{ name, v string }{
		{"type", d.ExecutorType}, {"profile", d.ExecutorProfile}, {"host", d.Hostname}, {"dir", d.ProjectDir},
		{"tags", strings.Join(d.Tags, ",")},
	} {
		if m.v != "" {
			all = append(all, m.name+"="+m.v)
		}
	}
	return screen.Line(strings.Join(all, " "))
}

func resultCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "result RUN|SESSION", Short: "Print the result of a run, or of a session's last ended run",
		Args: exactlyOne("a run or a session"),
		Long: `Print a result: text as it is, data as indented JSON, or the output of a program that printed
no JSON, its standard error on standard error. With --json, the whole result document.`,
		ValidArgsFunction: completer{a}.runsOrSessions,
	}
	var most int
	c.Flags().IntVar(&most, "max-bytes", 0, "cut longer texts to about this many bytes; 0: the whole result")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		path, err := apiPath(args[0])
		if err != nil {
			return err
		}
		q := url.Values{}
		switch {
		case most < 0:
			return usagef("max-bytes must be 1 or more, got %d", most)
		case most > 0:
			q.Set("max_bytes", strconv.Itoa(most))
		}
		doc, err := a.once.Read(ctx, q, append(path, "result")...)
		return show(a, doc, err, showCutResult)
	})
	return c
}

// cutResult is a result that may have been cut.
type cutResult struct {
	run.Result
	Truncated bool   `json:"truncated"`
	Bytes     int    `json:"bytes"`
	Head      string `json:"head"` // beginning of a result that is too large even without its texts
}

func showCutResult(a *app, res cutResult) error {
	if o, ok := programOutputOf(res.Result); ok && o.Stderr != "" {
		a.note("%s", o.Stderr)
	}
	if res.ExitCode != nil && *res.ExitCode != 0 {
		a.note("the program exited with code %d", *res.ExitCode)
	}
	if res.Truncated {
		a.note("truncated; the whole result has %d bytes", res.Bytes)
	}
	if res.Head != "" {
		return a.print(a.lastCell(res.Head) + "\n")
	}
	return showResult(a, res.Result)
}

func waitCommand(a *app) *cobra.Command {
	var limit seconds
	var quiet bool
	c := &cobra.Command{
		Use: "wait RUN", Short: "Wait until a run ends and print its result, as 'ao run' does",
		Args: oneRun, ValidArgsFunction: completer{a}.runs,
		Long: "Wait until a run ends, show its progress, print its result.\n" +
			"Exit codes: 0 completed, 1 failed, 3 stopped, 4 wait timed out and the run continues.",
	}
	c.Flags().Var(&limit, "timeout", "how long to wait, such as 90s; the run continues after it (default: no limit)")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not show progress")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		r, err := fetch[run.Run](ctx, a, "runs", args[0])
		if err != nil {
			return err
		}
		return a.awaitRun(ctx, r, time.Duration(limit), quiet || r.Status.Final())
	})
	return c
}

func stopCommand(a *app) *cobra.Command {
	var m bulk
	c := &cobra.Command{
		Use: "stop [--tree] RUN|SESSION... | stop --agent AGENT", Short: "Stop runs, or all runs of sessions",
		Args: m.args(atLeastOne("a run or a session")), ValidArgsFunction: completer{a}.runsOrSessions,
		Long: `Stop runs, or all running and waiting runs of sessions. 'ao wait RUN' waits until one has ended.
Runs of descendants continue and are listed. With --tree they are stopped too, and so are runs started below
later, until the session is resumed.
With several ids, each is stopped even if another is refused; the exit code is that of the first refusal.
With filters instead of ids, all matching runs that have not ended are stopped, after confirmation unless
--yes is given.`,
		Example: "  ao stop run_…\n  ao stop --tree ses_…\n  ao stop --agent crawler --status pending",
	}
	var tree bool
	c.Flags().BoolVar(&tree, "tree", false, "also stop the runs of all descendants")
	addBulkFlags(a, c, &m, []string{string(run.Pending), string(run.Claimed), string(run.Running)})
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		if m.hasFilters() {
			m.tree = tree
			return m.apply(ctx, a, "stop", "run", "runs", "stop")
		}
		var paths [][]string
		for _, id := range args { // check all ids before stopping any run
			path, err := apiPath(id)
			if err != nil {
				return err
			}
			paths = append(paths, path)
		}
		var first error
		for i, path := range paths {
			err := stopOne(ctx, a, args[i], path, tree)
			if err != nil && first != nil {
				a.exit(c.CommandPath(), err)
			}
			if first == nil {
				first = err
			}
			if ctx.Err() != nil {
				break
			}
		}
		return first
	})
	return c
}

// stopOne stops a run or session and prints its status.
func stopOne(ctx context.Context, a *app, id string, path []string, tree bool) error {
	call := client.Call{Method: http.MethodPost, Path: append(path, "stop")}
	if tree {
		call.Body = []byte(`{"tree":true}`)
	}
	answer, err := a.once.Do(ctx, call)
	if err != nil {
		return err
	}
	if a.json {
		return a.printDoc(answer.Document)
	}
	var s struct {
		Status string `json:"status"`
		Below  struct {
			Count    int      `json:"count"`
			Runs     []string `json:"run_ids"`
			Stopping bool     `json:"stopping"`
		} `json:"open_below"`
	}
	if json.Unmarshal(answer.Document, &s) != nil || s.Status == "" {
		s.Status = string(run.Stopping)
	}
	switch b := s.Below; {
	case b.Count == 0:
	case b.Stopping:
		a.note("%s: %d open runs below it are stopped too", id, b.Count)
	default:
		named := strings.Join(b.Runs[:min(len(b.Runs), 5)], " ")
		if len(b.Runs) > 5 || b.Count > len(b.Runs) {
			named += " …"
		}
		a.note("%s: %d open runs below it continue: %s\nhint: 'ao stop --tree %s' stops them too", id, b.Count, named,
			id)
	}
	return a.print(id + "\t" + screen.Line(s.Status) + "\n")
}

// callNote returns what matters most about a callback besides its status.
func callNote(c run.CallbackState) string {
	switch {
	case c.RunID != "":
		return "by " + c.RunID
	case c.Next != nil && c.Tries > 0:
		return fmt.Sprintf("%s; next attempt at %s", strings.TrimPrefix(fmt.Sprintf("%d %s", c.HTTP, c.Reason), "0 "),
			c.Next.Local().Format(time.DateTime))
	case c.HTTP != 0:
		return strconv.Itoa(c.HTTP) + " " + c.Reason
	}
	return c.Reason
}

func showSession(a *app, s run.Session) error {
	var f screen.Facts
	f.Add("session", s.ID, "parent", parent(s.Parent, s.ParentGone), "agent", s.Agent, "type", s.AgentType,
		"status", string(s.Status), "folder", s.ProjectDir, "runs", strconv.Itoa(s.Runs), "last run", s.LastRun,
		"created", a.at(&s.CreatedAt), "changed", a.at(&s.ModifiedAt))
	return a.print(f.String())
}
