package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
)

// StopAll stops runs that have not ended, the newest first: a turn that ends lets none begin that is to be stopped.
// With tree, what is below them is stopped too. A run that ends meanwhile is left out.
func (a *Bulk) StopAll(ctx context.Context, m Selection, tree bool) (BulkResult, error) {
	if len(m.Filter.Statuses) == 0 {
		m.Filter.Statuses = []string{string(run.Pending), string(run.Claimed), string(run.Running)}
	}
	// what another coordinator has accepted a moment ago is stopped too
	if err := a.runs.reads.CatchUp(ctx); err != nil {
		return BulkResult{}, err
	}
	picked, next, err := a.pick(ctx, a.ofRuns(m), m)
	if err != nil {
		return BulkResult{}, err
	}
	done, err := each(context.WithoutCancel(ctx), bySession(picked), func(ctx context.Context, id string) (string,
		error) {
		_, err := a.runs.StopRun(ctx, id, tree)
		return id, err
	})
	return done.result(ids(picked), next, false), err
}

// RetrySelection asks for runs like those that have ended so.
type RetrySelection struct {
	Selection
	Scope string // whose request it is
	Key   string // the caller's idempotency key; empty: each run's is derived from the filter
}

// ended are the statuses of runs that have.
var ended = []string{string(run.Completed), string(run.Failed), string(run.Stopped)}

// RetryAll starts a run like each of those that match, the oldest first. A repeat of the call makes none of them twice:
// under a key it is about the runs that the first call was about, and without one each run is retried once for a
// filter.
func (a *Bulk) RetryAll(ctx context.Context, m RetrySelection) (BulkResult, error) {
	if len(m.Key) > MaxKey {
		return BulkResult{}, errKeyTooLong()
	}
	if len(m.Filter.Statuses) == 0 {
		m.Filter.Statuses = []string{string(run.Failed)}
	}
	for _, s := range m.Filter.Statuses {
		if !slices.Contains(ended, s) {
			return BulkResult{}, fault.Newf(fault.Invalid, "status %.40q is none of %v: a run is retried with "+
				"others when "+
				"it has ended", s, ended).With("field", "status")
		}
	}
	b, err := a.batch(ctx, m)
	if err != nil {
		return BulkResult{}, err
	}
	of := derivedKey("filter", m.filterKey())
	if m.Key != "" {
		of = derivedKey("batch", m.Key)
	}
	groups := make([][]string, 0, len(b.Runs))
	for _, id := range slices.Backward(b.Runs) {
		groups = append(groups, []string{id})
	}
	done, err := each(context.WithoutCancel(ctx), groups, func(ctx context.Context, id string) (string, error) {
		acc, err := a.retry(ctx, Retry{RunID: id, Scope: m.Scope, Key: derivedKey(of, id)})
		return acc.RunID, err
	})
	return done.result(slices.Concat(groups...), b.Next, true), err
}

// filterKey is the filter, the same for each page of it.
func (m Selection) filterKey() string {
	m.Filter.Limit, m.Filter.Cursor, m.Expect = 0, "", nil
	raw, _ := json.Marshal(m) // texts, numbers and a time
	return string(raw)
}

// batch is what an idempotency key of many retries stands for.
type batch struct {
	Body []byte   `json:"body"` // SHA-256 of what was asked for, but for how many were expected
	Runs []string `json:"runs"` // that are retried, the newest first
	Next string   `json:"next,omitempty"`
}

// batch picks the runs to be retried, or gives those that were picked under the key.
func (a *Bulk) batch(ctx context.Context, m RetrySelection) (*batch, error) {
	sum, at := sha256.Sum256(fmt.Append(nil, m.filterKey(), m.Filter.Limit, m.Filter.Cursor)), keyName(m.Scope, m.Key)
	if m.Key != "" {
		if b, err := a.storedBatch(ctx, at, sum[:]); !errors.Is(err, bus.ErrNotFound) {
			return b, err
		}
	}
	picked, next, err := a.pick(ctx, a.ofRuns(m.Selection), m.Selection)
	if err != nil {
		return nil, err
	}
	b := &batch{Body: sum[:], Next: next}
	for _, one := range picked {
		b.Runs = append(b.Runs, one.id)
	}
	if m.Key == "" {
		return b, nil
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	// another one was faster
	_, err = a.runs.Idempotency.keys.Create(context.WithoutCancel(ctx), at, raw)
	if errors.Is(err, bus.ErrTaken) {
		return a.storedBatch(ctx, at, sum[:])
	}
	if err != nil {
		return nil, bus.WriteUnanswered(err)
	}
	return b, nil
}

// storedBatch is what a key stands for; ErrNotFound: nothing yet.
func (a *Bulk) storedBatch(ctx context.Context, at string, sum []byte) (*batch, error) {
	raw, _, err := a.runs.Idempotency.keys.Get(ctx, at)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		err = bus.WriteUnanswered(err)
	}
	if err != nil {
		return nil, err
	}
	b := &batch{}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, err
	}
	if !bytes.Equal(b.Body, sum) {
		return nil, fault.New(fault.Conflict, "idempotency_key_reused",
			"This Idempotency-Key was used with another body; use a new key for a new request")
	}
	return b, nil
}

// RedeliverAll has HTTP callbacks tried again. One that is delivered meanwhile is left out.
func (a *Bulk) RedeliverAll(ctx context.Context, m Selection) (BulkResult, error) {
	if len(m.Filter.Statuses) == 0 {
		m.Filter.Statuses = []string{run.CallbackDead}
	}
	for _, s := range m.Filter.Statuses {
		if s != run.CallbackDead && s != run.CallbackPending {
			return BulkResult{}, fault.Newf(fault.Invalid, "status %.40q is none of [dead owed]: those are the HTTP "+
				"callbacks that can be tried again", s).With("field", "status")
		}
	}
	picked, next, err := a.pick(ctx, source{
		list: func(ctx context.Context, q projection.Query) ([]run.Run, string, error) {
			p, err := a.index.Callbacks(ctx, q)
			return p.Runs, p.Next, err
		},
		matches: func(r run.Run) bool {
			return r.HTTPCallback != nil && slices.Contains(m.Filter.Statuses, r.HTTPCallback.Status)
		},
	}, m)
	if err != nil {
		return BulkResult{}, err
	}
	done, err := each(context.WithoutCancel(ctx), bySession(picked), func(ctx context.Context, id string) (string,
		error) {
		_, err := a.redeliver(ctx, id)
		return id, err
	})
	return done.result(ids(picked), next, false), err
}
