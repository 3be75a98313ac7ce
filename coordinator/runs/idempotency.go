package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"ao/coordinator/projection/query"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// maxKey is the longest idempotency key, in bytes.
const maxKey = 255

// Idempotency gives a repeated request its first answer. The ids of a run follow from its key, and the run's first
// record holds the hash of its request. So nothing else is stored, and a key lives as long as its run.
type Idempotency struct {
	ids     KeyedIDs
	history keyHistory
	records interface {
		Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	}
	damaged func(id string) (may, final bool)
}

// KeyedIDs returns the ids of the run and the session that a key stands for. scope is whose key it is.
type KeyedIDs func(scope, key string) (runID, sessionID string)

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

// submit accepts a request under a key, or returns the answer of the run that the key stands for.
func (i *Idempotency) submit(ctx context.Context, runs submission, body []byte, scope, key string) (Accepted, error) {
	id, session := i.ids(scope, key)
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:16])
	first := func() (known bool, a Accepted, err error) {
		session, known, err := i.lookup(ctx, id, session, hash)
		if err != nil || !known {
			return known, a, err
		}
		mode, wait, err := runs.WaitMode(body)
		return true, Accepted{RunID: id, SessionID: session, Status: run.Pending, Mode: mode, Wait: wait}, err
	}
	if known, a, err := first(); known || err != nil {
		return a, err
	}
	if err := i.mayBegin(ctx, id); err != nil {
		return Accepted{}, err
	}
	p, err := runs.Check(ctx, body, scope) // a refused request leaves nothing behind
	var a Accepted
	if err == nil {
		p.Spec.RequestHash = hash
		a, err = runs.Place(ctx, p, id, session)
	}
	taken := errors.Is(err, bus.ErrTaken)
	if !taken && fault.KindOf(err) != fault.Conflict {
		return a, err
	}
	// The request may conflict with itself, or with another one with this key, that was accepted just now.
	if known, a, err := first(); known || err != nil {
		return a, err
	}
	if !taken {
		return a, err
	}
	if i.history.IsReserved(id) {
		return Accepted{}, fault.New(fault.Unavailable, "", "The run of this Idempotency-Key is being accepted; try "+
			"again").After(time.Second)
	}
	// It was accepted in the last two minutes, and is no longer kept.
	return Accepted{RunID: id, SessionID: p.Spec.SessionID, Status: run.Pending, Mode: p.Spec.Mode, Wait: p.wait}, nil
}

// lookup returns the session of the run that a key stands for. It returns an error if the run was made by a request
// with another hash. session is the one that the key stands for.
func (i *Idempotency) lookup(ctx context.Context, id, session, hash string) (of string, known bool, err error) {
	of, made, err := i.history.Request(ctx, id)
	gone := fault.KindOf(err) == fault.NotFound &&
		(i.history.WasDeleted(session) || len(i.history.RunsOf(session)) > 0)
	if gone { // or it came into being just now
		of, made, err = i.history.Request(ctx, id)
	}
	switch {
	case fault.KindOf(err) == fault.NotFound: // where its session is known, another run cannot begin that
		return session, gone, nil
	case err != nil:
		return "", false, err
	case made != "" && made != hash:
		return "", true, errKeyReused().With("run_id", id)
	}
	return of, true, nil
}

func errKeyReused() *fault.Fault {
	return fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key was used with another body; use "+
		"a new key for a new request")
}

// mayBegin returns why an unknown run does not begin under its key. It may be among what was lost. Or it was truncated,
// and records of it are left: they would be taken for those of the new one.
func (i *Idempotency) mayBegin(ctx context.Context, id string) error {
	switch may, final := i.damaged(id); {
	case final:
		return fault.New(fault.Conflict, run.CodeDamaged, "The history lost records of run "+id+", which this "+
			"Idempotency-Key stands for; use a new key for a new run").With("run_id", id)
	case may:
		return fault.New(fault.Conflict, run.CodeDamaged, "The history lost records, perhaps those of run "+id+
			", which this Idempotency-Key stands for. Once an admin has accepted the loss with 'ao verify "+
			"--accept-damage', a run is accepted that is not known to have begun").
			With("run_id", id).After(damagePause)
	}
	if !i.history.Truncated() {
		return nil
	}
	left, err := i.records.Records(ctx, subject.RecordsOf(id), 0, 1)
	switch {
	case err != nil:
		return bus.WriteUnanswered(err)
	case len(left) > 0:
		return fault.New(fault.Conflict, query.CodeEvicted, "The run "+id+" of this Idempotency-Key has ended "+
			"and is no longer kept, but for a few records; use a new key for a new run").With("run_id", id)
	}
	return nil
}

// damagePause is when a request may be repeated that waits for an admin.
const damagePause = 5 * time.Second
