package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// How often a look is taken at what another record is to follow, and how long its writer has to write it.
const (
	unfinishedEvery = 500 * time.Millisecond
	unfinishedAfter = time.Second
)

// unfinished writes the records that others say are to follow them, and that their writer did not come to write. Every
// coordinator does so; the stream takes each once.
type unfinished struct {
	history interface {
		Active(id string) (journal.Active, bool)
		Ending() []journal.Active
		Promised() []journal.Promised
		Promise(ctx context.Context, p journal.Promised) ([]byte, error)
		IsPromised(id string) bool
		Unlisted() []journal.Active
		IsUnlisted(id string) bool
		Sure() bool
	}
	records interface {
		Append(ctx context.Context, e bus.Entry) error
		Put(ctx context.Context, e bus.Entry) error
		Listing(s run.Spec, next []byte) (bus.Entry, error)
		EndAsCarried(ctx context.Context, a journal.Active) error
		EndWaiting(ctx context.Context, a journal.Active, status run.Status, f *fault.Fault) error
	}
	torn interface {
		CaughtUp(ctx context.Context) error
		Unsay(ctx context.Context, run, session string) error
		UnsayEarlier(ctx context.Context, run, session string)
	}
	log *slog.Logger

	seen map[uint64]trouble // until when nothing is done, by the sequence of the record that says what is to follow
}

// Reconcile finishes what has been unfinished for a while.
func (u *unfinished) Reconcile(ctx context.Context) error {
	now := time.Now()
	seen := map[uint64]trouble{}
	var g errgroup.Group
	g.SetLimit(16)
	finish := func(seq uint64, id string, f func() error) {
		at, ok := u.seen[seq]
		if !ok {
			at.until = now.Add(unfinishedAfter)
		}
		if seen[seq] = at; now.Before(at.until) {
			return
		}
		seen[seq] = trouble{at.times + 1, now.Add(run.Backoff(at.times + 1))} // what it came to is seen by then
		g.Go(func() error {
			if err := f(); err != nil && ctx.Err() == nil {
				u.log.Warn("what another record is followed by is not written yet; trying again", "run", id, "seq", seq, "err", err)
			}
			return nil
		})
	}
	for _, p := range u.history.Promised() {
		finish(p.Seq, p.RunID, func() error { return u.keepPromise(ctx, p) })
	}
	for _, a := range u.history.Unlisted() {
		finish(a.FirstSeq, a.Spec.ID, func() error { return u.list(ctx, a) })
	}
	for _, a := range u.history.Ending() {
		finish(a.EndSeq, a.Spec.ID, func() error { return u.records.EndAsCarried(ctx, a) })
	}
	_ = g.Wait()
	u.seen = seen
	return nil
}

// keepPromise accepts a run that the record of its session, or of its callback, carries. NATS may have lost the run's
// own records with a crash, and kept what its worker said of it.
func (u *unfinished) keepPromise(ctx context.Context, p journal.Promised) error {
	if err := u.torn.Unsay(ctx, p.RunID, p.SessionID); err != nil {
		return err
	}
	body, err := u.history.Promise(ctx, p)
	if err != nil || !u.history.IsPromised(p.RunID) || !u.history.Sure() {
		return err
	}
	if err := u.records.Put(ctx, bus.Entry{Subject: subject.Accepted(subject.Partition(p.SessionID), p.SessionID, p.RunID), Body: body}); err != nil {
		return err
	}
	u.torn.UnsayEarlier(ctx, p.RunID, p.SessionID)
	u.log.Info("a run was accepted that another record carries", "run", p.RunID, "session", p.SessionID)
	return nil
}

// list writes the callback record of a turn that stands without it. Where another turn has its place, this one tells
// nobody, and ends.
func (u *unfinished) list(ctx context.Context, a journal.Active) error {
	e, err := u.records.Listing(*a.Spec, nil)
	if err != nil {
		return err
	}
	if !u.history.IsUnlisted(a.Spec.ID) || !u.history.Sure() {
		return nil
	}
	switch err := u.records.Append(ctx, e); {
	case err == nil:
		return nil
	case !errors.Is(err, bus.ErrTaken):
		return bus.NotStored(err)
	}
	if err := u.torn.CaughtUp(ctx); err != nil {
		return err
	}
	now, ok := u.history.Active(a.Spec.ID)
	if !ok || now.Claim != nil || !u.history.IsUnlisted(a.Spec.ID) || !u.history.Sure() {
		return nil
	}
	return u.records.EndWaiting(ctx, now, run.Failed, fault.New(fault.Internal, "callback_superseded", "Another turn of the session tells of these runs: NATS crashed while this one was written"))
}
