package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
)

// IdempotencyRecord is what an idempotency key stands for. It is written before its run. A repeat of the request whose
// run is missing stores the run under these ids.
type IdempotencyRecord struct {
	Body    []byte `json:"body"` // SHA-256 of the request's body
	Run     string `json:"run_id"`
	Session string `json:"session_id"`
	Last    uint64 `json:"last"` // last sequence of the stream when the key was made; the run's records follow
}

// maxKey is the longest idempotency key, in bytes.
const maxKey = 255

// Idempotency gives a repeated request its first answer.
type Idempotency struct {
	keys    Keys
	stream  Stream
	history keyHistory
	torn    Torn
}

// placer checks requests and stores their runs under given ids.
type placer interface {
	Check(ctx context.Context, body []byte, scope string) (*Plan, error)
	Place(ctx context.Context, p *Plan, run, session string) (Accepted, error)
}

// submission is a placer that knows how the caller wants to learn of the end.
type submission interface {
	placer
	WaitMode(body []byte) (mode string, seconds *int, err error)
}

// SentKey returns the idempotency key that a caller sent in a header; empty: none.
func SentKey(header string, all []string) (string, error) {
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", fault.Newf(fault.Invalid, "%s was sent more than once; send it once", header).With("field", header)
	case strings.TrimSpace(all[0]) == "":
		return "", fault.Newf(fault.Invalid, "%s is empty: give a key, or leave the header out", header).
			With("field", header)
	}
	return all[0], nil
}

// keyName returns what a caller's key is stored under.
func keyName(scope, key string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

// submit accepts a request under a key, or returns the answer that the key stands for.
func (i *Idempotency) submit(ctx context.Context, runs submission, body []byte, scope, key string) (Accepted, error) {
	sum, at := sha256.Sum256(body), keyName(scope, key)
	if raw, _, err := i.keys.Get(ctx, at); err == nil {
		return i.repeat(ctx, runs, body, scope, sum[:], raw)
	} else if !errors.Is(err, bus.ErrNotFound) {
		return Accepted{}, bus.WriteUnanswered(err)
	}
	p, err := runs.Check(ctx, body, scope) // a refused request leaves nothing behind, not even its key
	if err != nil {
		// The request may conflict with itself: a repeat was accepted just now.
		if raw, _, getErr := i.keys.Get(ctx, at); getErr == nil {
			return i.repeat(ctx, runs, body, scope, sum[:], raw)
		}
		return Accepted{}, err
	}
	state, err := i.stream.State(ctx)
	if err != nil {
		return Accepted{}, bus.WriteUnanswered(err)
	}
	first := IdempotencyRecord{Body: sum[:], Run: run.NewID(), Session: cmp.Or(p.Spec.SessionID, run.NewSessionID()),
		Last: state.Last}
	raw, err := json.Marshal(first)
	if err != nil {
		return Accepted{}, err
	}
	if _, err := i.keys.Create(ctx, at, raw); errors.Is(err, bus.ErrTaken) {
		raw, _, err = i.keys.Get(ctx, at)
		if err != nil {
			return Accepted{}, bus.WriteUnanswered(err)
		}
		return i.repeat(ctx, runs, body, scope, sum[:], raw)
	} else if err != nil {
		return Accepted{}, bus.WriteUnanswered(err)
	}
	return runs.Place(ctx, p, first.Run, first.Session)
}

// repeat returns the first answer again. It stores the run where the first request did not get that far.
func (i *Idempotency) repeat(ctx context.Context, runs submission, body []byte, scope string, sum, raw []byte) (
	Accepted, error) {
	var first IdempotencyRecord
	if err := json.Unmarshal(raw, &first); err != nil {
		return Accepted{}, err
	}
	if !bytes.Equal(first.Body, sum) {
		return Accepted{}, fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key was used with "+
			"another body; use a new key for a new request").With("run_id", first.Run)
	}
	mode, wait, err := runs.WaitMode(body)
	if err != nil {
		return Accepted{}, err
	}
	again := Accepted{RunID: first.Run, SessionID: first.Session, Status: run.Pending, Mode: mode, Wait: wait}
	if _, err := i.history.Get(ctx, first.Run); err == nil {
		return again, nil
	} else if fault.KindOf(err) != fault.NotFound {
		return Accepted{}, err
	}
	if i.history.WasDeleted(first.Session) { // it was stored and has been deleted since
		return again, nil
	}
	if gone, err := i.truncated(ctx, first.Last); err != nil || gone {
		return again, err
	}
	p, err := runs.Check(ctx, body, scope)
	if err != nil {
		if _, getErr := i.history.Get(ctx, first.Run); getErr == nil {
			return again, nil
		}
		return Accepted{}, err
	}
	if exists, err := i.torn.RemoveStale(ctx, first.Run, first.Session, first.Last); err != nil || exists {
		return again, err
	}
	return i.Restore(ctx, runs, p, first)
}

// Restore stores a missing run under its first ids. Records of its old attempts that workers wrote before the run
// existed again are removed.
func (i *Idempotency) Restore(ctx context.Context, runs placer, p *Plan, first IdempotencyRecord) (Accepted, error) {
	a, err := runs.Place(ctx, p, first.Run, first.Session)
	if err == nil {
		i.torn.RemoveEarlier(ctx, first.Run, first.Session)
	}
	return a, err
}

// truncated reports whether the records after last were truncated. A key is kept for RUN_RETENTION. Its run may be
// removed earlier, since at most RUN_KEEP runs are kept; then it must not be run twice. Only the stream's first
// sequence shows that, since clocks differ between coordinators.
func (i *Idempotency) truncated(ctx context.Context, last uint64) (bool, error) {
	s, err := i.stream.State(ctx)
	if err != nil {
		return false, bus.WriteUnanswered(err)
	}
	return s.First > last+1, nil
}
