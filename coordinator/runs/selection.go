package runs

import (
	"cmp"
	"context"
	"fmt"

	"ao/coordinator/budget"
	"ao/coordinator/projection/query"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// maxBulk is the most runs of one bulk call.
const maxBulk = 1000

// bulkConcurrency is how many groups of a bulk call are worked on at a time.
const bulkConcurrency = 8

// Selection says which runs a bulk call is about.
type Selection struct {
	Filter query.Query // its Limit is the most runs
	Error  string      // code of the runs' errors; empty: any
	Expect *int        // how many matches the caller has seen; nil: not checked
}

// BulkResult answers a bulk call.
type BulkResult struct {
	Count   int       `json:"count"`
	Runs    []string  `json:"runs"`
	Refused []Refused `json:"refused,omitempty"`
	Next    string    `json:"next_cursor,omitempty"` // where the next call goes on; empty: these were all
}

// Refused is a run that was left out, and why.
type Refused struct {
	RunID string       `json:"run_id"`
	Error *fault.Fault `json:"error"`
}

// lists lists and counts runs.
type lists interface {
	Runs(ctx context.Context, q query.Query) (query.Page, error)
	Count(ctx context.Context, q query.Query) (query.Count, error)
	Callbacks(ctx context.Context, q query.Query) (query.CallbackPage, error)
}

// source is a list that runs are picked from.
type source struct {
	list    func(ctx context.Context, q query.Query) (page []run.Run, next string, err error)
	count   func(ctx context.Context, q query.Query) (query.Count, error) // nil: total lists all
	matches func(run.Run) bool                                            // nil: all match
}

// ofRuns returns the list of runs.
func (a *Bulk) ofRuns(m Selection) source {
	s := source{count: a.index.Count, list: func(ctx context.Context, q query.Query) ([]run.Run, string, error) {
		p, err := a.index.Runs(ctx, q)
		return p.Runs, p.Next, err
	}}
	if m.Error != "" {
		s.count, s.matches = nil, func(r run.Run) bool { return r.Error != nil && r.Error.Code == m.Error }
	}
	return s
}

// pickedRun is a selected run.
type pickedRun struct{ id, session string }

// pick returns the selected runs, the newest first, and the cursor of the next call; it is empty at the end.
// It fails where Expect names another number. It ends with ctx: nothing is done once the caller hung up.
func (a *Bulk) pick(ctx context.Context, s source, m Selection) (picked []pickedRun, next string, err error) {
	a.runs.Reads.WaitOwnWrites(ctx)
	most := cmp.Or(m.Filter.Limit, maxBulk)
	first := m.Filter.Cursor
	picked, next, err = s.find(ctx, m.Filter, most)
	if err != nil || m.Expect == nil {
		return picked, next, err
	}
	n := len(picked)
	if first != "" || next != "" {
		n, err = s.total(ctx, m.Filter)
		if err != nil {
			return nil, "", err
		}
	}
	if n != *m.Expect {
		return nil, "", fault.New(fault.Conflict, "expect_mismatch",
			fmt.Sprintf("%d match now, %d were expected: check the list, then send the new number", n, *m.Expect)).
			With("count", n).With("expect", *m.Expect)
	}
	return picked, next, nil
}

// page returns one page. A list may end early with ctx, so an ended ctx is an error.
func (s source) page(ctx context.Context, q query.Query) (page []run.Run, next string, err error) {
	page, next, err = s.list(ctx, q)
	return page, next, cmp.Or(err, ctx.Err())
}

// find returns at most most runs. It never asks for more than are missing, so the cursor of the last page is where
// the next call goes on.
func (s source) find(ctx context.Context, q query.Query, most int) (picked []pickedRun, next string, err error) {
	for len(picked) < most {
		q.Limit = min(most-len(picked), maxBulk)
		page, end, err := s.page(ctx, q)
		if err != nil {
			return nil, "", err
		}
		budget.Sent(ctx) // only their ids are kept
		for _, r := range page {
			if s.matches == nil || s.matches(r) {
				picked = append(picked, pickedRun{r.ID, r.SessionID})
			}
		}
		next, q.Cursor = end, end
		if end == "" {
			break
		}
	}
	return picked, next, nil
}

// total counts all matching runs.
func (s source) total(ctx context.Context, q query.Query) (n int, err error) {
	q.Cursor = ""
	if s.count != nil {
		c, err := s.count(ctx, q)
		if err != nil || c.Exact {
			return c.N, err
		}
	}
	for {
		q.Limit = maxBulk
		page, next, err := s.page(ctx, q)
		if err != nil {
			return 0, err
		}
		budget.Sent(ctx)
		for _, r := range page {
			if s.matches == nil || s.matches(r) {
				n++
			}
		}
		q.Cursor = next
		if next == "" {
			return n, nil
		}
	}
}

func ids(picked []pickedRun) (all []string) {
	for _, r := range picked {
		all = append(all, r.id)
	}
	return all
}

// bySession groups runs by session and keeps their order.
func bySession(picked []pickedRun) (groups [][]string) {
	at := map[string]int{}
	for _, r := range picked {
		i, ok := at[r.session]
		if !ok {
			i = len(groups)
			at[r.session] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r.id)
	}
	return groups
}

// outcomes are the outcomes of runs by id.
type outcomes map[string]outcome

type outcome struct {
	id  string // of the run that was stopped or made
	err error  // why it was refused
}

// each calls do for each run: several groups at a time, one run after the other within a group. A refusal becomes the
// run's outcome. Any other error ends the call, which may be repeated.
func each(ctx context.Context, groups [][]string, do func(ctx context.Context, id string) (string, error)) (outcomes,
	error) {
	all := make([][]outcome, len(groups))
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(bulkConcurrency)
	for i, ids := range groups {
		g.Go(func() error {
			for _, id := range ids {
				if going.Err() != nil {
					return going.Err()
				}
				got, err := do(ctx, id)
				if fault.Retryable(err) && fault.Of(err).Code != run.CodeHistoryShare { // a share that lasts refuses
					return err
				}
				all[i] = append(all[i], outcome{got, err})
			}
			return nil
		})
	}
	err := g.Wait()
	done := outcomes{}
	for i, ids := range groups {
		for k, o := range all[i] {
			done[ids[k]] = o
		}
	}
	return done, err
}

// result lists the outcomes in the order of ids; with refusals, also why runs were left out.
func (o outcomes) result(ids []string, next string, refusals bool) BulkResult {
	d := BulkResult{Runs: []string{}, Next: next}
	for _, id := range ids {
		switch one, ok := o[id]; {
		case !ok:
		case one.err == nil:
			d.Runs = append(d.Runs, one.id)
		case refusals:
			d.Refused = append(d.Refused, Refused{id, fault.Of(one.err)})
		}
	}
	d.Count = len(d.Runs)
	return d
}
