package stream

import (
	"context"
	"errors"
	"time"

	"ao/shared/fault"
)

var (
	// ErrTaken means that another writer was first: the subject has its one message, the key exists, or the
	// revision is not the newest.
	ErrTaken = errors.New("taken")
	// ErrStorageFailing is in every fault about a stream that NATS does not write to, although it answers.
	ErrStorageFailing = errors.New("NATS does not write")
)

// Verifier settles the outcome of appends to subjects that take one message. After a refusal or no reply it reads
// the record back.
type Verifier struct {
	Last      func(ctx context.Context, subj string) (Message, error) // the subject's message, or ErrNotFound
	Clustered func() bool                                             // a refusal may be premature, a replica may lag
}

// ConfirmTaken reports whether a refusal is final. A cluster's leader also refuses because of a write in flight,
// which may be lost with it.
func (v Verifier) ConfirmTaken(ctx context.Context, subjects ...string) error {
	if !v.Clustered() {
		return ErrTaken
	}
	_, err := v.readBack(ctx, subjects...)
	switch {
	case err == nil:
		return ErrTaken
	case errors.Is(err, ErrNotFound):
		return undecided(err)
	}
	return err
}

// Append appends with try and settles the outcome. isOwn reports whether a body is the caller's (by a nonce). nil: the
// record is the caller's. ErrTaken: it is another's, or a single server refuses it twice and cannot read what it has.
// An Unavailable fault: unknown; call it again, and keep what depends on it.
func (v Verifier) Append(ctx context.Context, subj string, try func() (uint64, error),
	isOwn func(body []byte) bool) (seq uint64, err error) {
	for again := false; ; again = true {
		seq, err = try()
		if err == nil {
			return seq, nil
		}
		taken := errors.Is(err, ErrTaken)
		if !taken && fault.KindOf(err) != fault.Unavailable {
			return 0, err
		}
		m, back := v.readBack(ctx, subj)
		switch {
		case errors.Is(back, ErrNotFound) && (!taken || v.Clustered()):
			return 0, undecided(err)
		case errors.Is(back, ErrNotFound) && !again: // it may have been removed in between
			continue
		case errors.Is(back, ErrNotFound):
			return 0, ErrTaken
		case back != nil:
			return 0, back
		case isOwn(m.Body):
			return m.Seq, nil
		}
		return 0, ErrTaken
	}
}

// readBack returns the first message that one of the subjects has. In a cluster it retries for a second, since
// a replica may lag.
func (v Verifier) readBack(ctx context.Context, subjects ...string) (Message, error) {
	for pause, end := 2*time.Millisecond, time.Now().Add(time.Second); ; pause *= 2 {
		for _, subj := range subjects {
			if m, err := v.Last(ctx, subj); !errors.Is(err, ErrNotFound) {
				return m, err
			}
		}
		if !v.Clustered() || time.Now().Add(pause).After(end) || ctx.Err() != nil {
			return Message{}, ErrNotFound
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// undecided is the fault for a record that was neither written nor finally refused. It keeps ErrStorageFailing. It is
// not ErrTaken, though it may come of a refusal: whoever takes it for one gives up.
func undecided(cause error) error {
	if errors.Is(cause, ErrStorageFailing) {
		return cause
	}
	return fault.Wrap(fault.Unavailable, "", "The record was neither written nor definitely refused; try again",
		errors.New(cause.Error())).After(time.Second)
}
