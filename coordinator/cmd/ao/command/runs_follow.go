package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"
)

// followAgain is how many runs are read when more changed at once than the stream lists.
const followAgain = maxListed

// followRuns shows the matching runs, then each change of state, until Ctrl-C.
func followRuns(ctx context.Context, a *app, f filter) error {
	q, err := f.query(a.now())
	if err != nil {
		return err
	}
	of := client.RunWatch{Filters: q, First: f.limit, Again: followAgain}
	if terminal := newFullScreen(a); terminal.out != nil {
		of.First = max(f.limit, screenPage)
		of.Again = of.First
		return (&runScreen{app: a, filter: f, page: of.First, changed: make(chan struct{}, 1)}).watch(ctx, terminal, of)
	}
	p := runPrinter{app: a, filter: f, states: map[string]runState{}}
	err = a.client.WatchRuns(ctx, of, p.changes)
	if ctx.Err() != nil { // the regular end
		return nil
	}
	return err
}

// runState is the part of a run whose change is printed.
type runState struct {
	status  run.Status
	attempt int
	pauses  bool // before the next attempt
}

func stateOf(r run.Run) runState {
	return runState{r.Status, r.Attempt, r.NextAt != nil && !r.Status.Final()}
}

// matches reports whether a run has a status and runner asked for. The coordinator applied the other filters.
func (f filter) matches(r run.Run) bool {
	return (f.status == "" || slices.Contains(strings.Split(f.status, ","), string(r.Status))) &&
		(f.runner == "" || f.runner == r.RunnerID)
}

// runPrinter prints one line per change of state.
type runPrinter struct {
	app         *app
	filter      filter
	states, old map[string]runState // as printed last, by run
}

// mostStates bounds states and old, each. A forgotten run is treated as new.
const mostStates = 10_000

func (p *runPrinter) changes(c client.RunChanges) error {
	if c.Omitted > 0 {
		p.app.note("about %d runs changed at once; reading the newest %d", c.Omitted, followAgain)
	}
	for _, doc := range slices.Backward(c.Runs) { // the newest come first
		if err := p.run(doc); err != nil {
			return err
		}
	}
	for _, id := range c.Deleted {
		if err := p.deleted(id); err != nil {
			return err
		}
	}
	return nil
}

func (p *runPrinter) printed(id string) (runState, bool) {
	if s, ok := p.states[id]; ok {
		return s, true
	}
	s, ok := p.old[id]
	return s, ok
}

func (p *runPrinter) run(doc json.RawMessage) error {
	var r run.Run
	if err := json.Unmarshal(doc, &r); err != nil {
		return err
	}
	before, known := p.printed(r.ID)
	matches := p.filter.matches(r)
	if known && before == stateOf(r) || !known && !matches {
		return nil
	}
	if len(p.states) >= mostStates {
		p.old, p.states = p.states, map[string]runState{}
	}
	p.states[r.ID] = stateOf(r)
	if !matches { // it left the list
		p.forget(r.ID)
	}
	if p.app.json {
		return p.app.printDoc(doc)
	}
	line := fmt.Sprintf("%s  %s  %-16s  %-9s  %s", changedAt(p.app.now(), r), r.ID, r.Agent, r.Status,
		p.app.lastCell(runNote(r)))
	return p.app.print(screen.Line(strings.TrimRight(line, " ")) + "\n")
}

func (p *runPrinter) deleted(id string) error {
	if _, known := p.printed(id); !known {
		return nil
	}
	p.forget(id)
	if p.app.json {
		return p.app.printJSON(map[string]any{"run_id": id, "deleted": true})
	}
	return p.app.print(fmt.Sprintf("%s  %s  session deleted\n", p.app.now().Local().Format(time.TimeOnly),
		screen.Line(id)))
}

func (p *runPrinter) forget(id string) {
	delete(p.states, id)
	delete(p.old, id)
}

// changedAt returns when a run reached its state: the time of day, with the date unless it is today.
func changedAt(now time.Time, r run.Run) string {
	at := cmp.Or(r.EndedAt, r.StartedAt, r.ClaimedAt, &r.CreatedAt).Local()
	if r.Status == run.Stopping || r.Status == run.Pending && r.Attempt > 1 {
		at = now.Local() // no field has it
	}
	if y, m, d := now.Local().Date(); at.Before(time.Date(y, m, d, 0, 0, 0, 0, time.Local)) {
		return at.Format(time.DateTime)
	}
	return at.Format(time.TimeOnly)
}
