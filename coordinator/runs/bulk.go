package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"ao/coordinator/projection/query"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// StopAll stops matching open runs, the newest first, so that no turn starts that is to be stopped.
// With tree, it also stops everything below them. Runs that end meanwhile are left out.
func (a *Bulk) StopAll(ctx context.Context, m Selection, tree bool) (BulkResult, error) {
	if len(m.Filter.Statuses) == 0 {
		m.Filter.Statuses = []string{string(run.Pending), string(run.Claimed), string(run.Running)}
	}
	// Runs that another coordinator has just accepted are stopped too.
	if err := a.runs.Reads.CatchUp(ctx); err != nil {
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

// RetrySelection says which ended runs to retry.
type RetrySelection struct {
	Selection
	Scope string // of the idempotency key: who asks
	Key   string // idempotency key; empty: one is derived from the filter for each run
}

// ended are the final statuses.
var ended = []string{string(run.Completed), string(run.Failed), string(run.Stopped)}

// RetryAll retries each matching run, the oldest first. Repeating the call retries no run twice. A repeat with a key
// is about the runs of the first call. Without a key, each run is retried once per filter.
func (a *Bulk) RetryAll(ctx context.Context, m RetrySelection) (BulkResult, error) {
	if len(m.Key) > maxKey {
		return BulkResult{}, errKeyTooLong()
	}
	if len(m.Filter.Statuses) == 0 {
		m.Filter.Statuses = []string{string(run.Failed)}
	}
	for _, s := range m.Filter.Statuses {
		if !slices.Contains(ended, s) {
			return BulkResult{}, fault.Newf(fault.Invalid, "status %.40q is none of %v: only ended runs can be "+
				"retried in bulk", s, ended).With("field", "status")
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

// filterKey returns the filter as a string that is the same for each page.
func (m Selection) filterKey() string {
	m.Filter.Limit, m.Filter.Cursor, m.Expect = 0, "", nil
	raw, _ := json.Marshal(m) // strings, numbers and a time
	return string(raw)
}

// batch is what an idempotency key of a bulk retry stands for.
type batch struct {
	Body []byte   `json:"body"` // SHA-256 of the request without Expect
	Runs []string `json:"runs"` // to be retried, the newest first
	Next string   `json:"next,omitempty"`
}

// batch picks the runs to retry, or returns those that the key stands for.
func (a *Bulk) batch(ctx context.Context, m RetrySelection) (*batch, error) {
	sum, at := sha256.Sum256(fmt.Append(nil, m.filterKey(), m.Filter.Limit, m.Filter.Cursor)), batchName(m.Scope, m.Key)
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
	raw, err := strictjson.Encode(b)
	if err != nil {
		return nil, err
	}
	// another call was faster
	_, err = a.runs.Batches.Create(context.WithoutCancel(ctx), at, raw)
	if errors.Is(err, bus.ErrTaken) {
		return a.storedBatch(ctx, at, sum[:])
	}
	if err != nil {
		return nil, bus.WriteUnanswered(err)
	}
	return b, nil
}

// batchName returns what the batch of a caller's key is stored under.
func batchName(scope, key string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

// storedBatch returns what a key stands for. ErrNotFound: nothing yet.
func (a *Bulk) storedBatch(ctx context.Context, at string, sum []byte) (*batch, error) {
	raw, _, err := a.runs.Batches.Get(ctx, at)
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
		return nil, errKeyReused()
	}
	return b, nil
}

// RedeliverAll tries matching webhooks again. Those that are delivered meanwhile are left out.
func (a *Bulk) RedeliverAll(ctx context.Context, m Selection) (BulkResult, error) {
	if len(m.Filter.Statuses) == 0 {
		m.Filter.Statuses = []string{run.CallbackDead}
	}
	for _, s := range m.Filter.Statuses {
		if s != run.CallbackDead && s != run.CallbackPending {
			return BulkResult{}, fault.Newf(fault.Invalid, "status %.40q is none of [dead owed]: only these HTTP "+
				"callbacks can be tried again", s).With("field", "status")
		}
	}
	picked, next, err := a.pick(ctx, source{
		list: func(ctx context.Context, q query.Query) ([]run.Run, string, error) {
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
