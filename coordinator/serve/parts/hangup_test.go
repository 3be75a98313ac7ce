package parts

import (
	"context"
	"errors"
	"testing"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/shared/run"
)

// impatient is a history whose reader hangs up during the first page. It has a row to a page.
type impatient struct {
	runs.Index
	hangUp context.CancelFunc
	pages  int
}

func (i *impatient) Runs(ctx context.Context, q query.Query) (query.Page, error) {
	i.pages++
	i.hangUp()
	q.Limit = 1
	return i.Index.Runs(context.WithoutCancel(ctx), q)
}

func (i *impatient) Callbacks(ctx context.Context, q query.Query) (query.CallbackPage, error) {
	i.pages++
	i.hangUp()
	q.Limit = 1
	return i.Index.Callbacks(context.WithoutCancel(ctx), q)
}

// TestBulkSelectionEndsWithItsCaller: if the caller hangs up while runs are selected, none of them is stopped, retried
// or redelivered.
func TestBulkSelectionEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	r := runner("one", echo("a"))
	register(t, c, r)
	const all = 4
	ids := make([]string, 0, all)
	for range all {
		ids = append(ids, submit(t, c, `{"agent_name":"a"}`, "").RunID)
	}
	for name, do := range map[string]func(context.Context, *runs.Bulk) (runs.BulkResult, error){
		"stop": func(ctx context.Context, a *runs.Bulk) (runs.BulkResult, error) {
			return a.StopAll(ctx, runs.Selection{Filter: query.Query{Agent: "a"}}, false)
		},
		"counted stop": func(ctx context.Context, a *runs.Bulk) (runs.BulkResult, error) {
			one := 1
			return a.StopAll(ctx, runs.Selection{Filter: query.Query{Agent: "a", Limit: 1}, Error: "x",
				Expect: &one}, false)
		},
		"retry": func(ctx context.Context, a *runs.Bulk) (runs.BulkResult, error) {
			m := runs.RetrySelection{
				Selection: runs.Selection{Filter: query.Query{Statuses: []string{"completed"}}}}
			return a.RetryAll(ctx, m)
		},
		"redeliver": func(ctx context.Context, a *runs.Bulk) (runs.BulkResult, error) {
			return a.RedeliverAll(ctx, runs.Selection{Filter: query.Query{Agent: "a"}})
		},
	} {
		ctx, hangUp := context.WithCancel(t.Context())
		i := &impatient{Index: c.History, hangUp: hangUp}
		done, err := do(ctx, runs.NewBulk(c.runsService, i, c.Redeliver))
		if !errors.Is(err, context.Canceled) || done.Count != 0 || i.pages != 1 {
			t.Errorf("%s: %d pages, %+v, %v", name, i.pages, done, err)
		}
	}
	for _, id := range ids {
		if got, err := c.History.Get(t.Context(), id); err != nil || got.Status != run.Pending {
			t.Errorf("%s: %s, %v", id, got.Status, err)
		}
	}
}
