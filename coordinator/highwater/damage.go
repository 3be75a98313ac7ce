package highwater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ao/nats/stream"
	"ao/shared/clock"
)

// unresolved reports whether the runs that the last damage affects are not known yet.
func (m *mark) unresolved() bool {
	n := len(m.Damages)
	return n > 0 && m.Damages[n-1].ResolvedAt == nil
}

// view is what is known, for those who do not wait for NATS.
type view struct {
	held     error
	damages  []Damage
	rebuilds uint64
	connects uint64 // the connection that RUNS was compared over
	todo     bool   // this process has not looked for the affected runs yet
}

// show publishes what is known. The caller holds mu.
func (k *Keeper) show() {
	v := &view{rebuilds: k.rebuilds, connects: k.reconnects}
	if k.known != nil {
		v.damages = k.known.Damages
	}
	switch {
	case !k.checked || !k.doubt.IsZero():
		v.held = errCompared
	case k.known.unresolved():
		v.held = errHeld("the history is damaged (see 'ao verify'); nothing starts until the affected runs are known")
	}
	v.todo = k.checked && len(v.damages) > 0 && k.handled < k.known.Generation
	k.shown.Store(v)
}

// Held returns why nothing may start now: RUNS was not compared yet, or the runs that a damage affects are not known.
func (k *Keeper) Held() error {
	v := k.shown.Load()
	if v.held == nil && v.connects != k.Stream.Reconnects() {
		return errCompared
	}
	return v.held
}

var errCompared = errHeld("the history is being compared with its high-water mark")

// Unhandled reports whether this process must look for the runs that a damage affects. It is false until the
// projection has read what is left.
func (k *Keeper) Unhandled() bool {
	v := k.shown.Load()
	return v.todo && k.History.Rebuilds() >= v.rebuilds && k.History.Confirmed()
}

// Affects reports whether a record is from before a damage: what followed it may be missing.
func (k *Keeper) Affects(seq uint64) bool {
	return seq != 0 && slices.ContainsFunc(k.Damages(), func(d Damage) bool { return seq <= d.Ends })
}

// Lost reports whether records of a run may be lost that were written after a sequence, and whether the run is known to
// have begun. A damage with more runs than it names may have any. The sequence may be of records that were lost before
// the mark had them, so every damage makes a loss possible.
func (k *Keeper) Lost(id string, after uint64) (possible, begun bool) {
	for _, d := range k.Damages() {
		possible = true
		begun = begun || after < d.Reached && len(d.Runs) < d.Failed+d.Lost ||
			slices.ContainsFunc(d.Runs, func(r Run) bool { return r.ID == id })
	}
	return possible, begun
}

// MayInclude reports whether an unknown run may be among what is lost: it is named, or no admin has accepted the loss.
// final: it is named, and all is accepted.
func MayInclude(all []Damage, id string) (may, final bool) {
	open := slices.ContainsFunc(all, func(d Damage) bool { return d.AcceptedAt == nil })
	named := slices.ContainsFunc(all, func(d Damage) bool {
		return slices.ContainsFunc(d.Runs, func(r Run) bool { return r.ID == id })
	})
	return open || named, named && !open
}

// Truncatable returns an error while RUNS counts records that a single server cannot read. A truncation that reaches
// one loses what follows it, and a restart brings back what was removed before.
func Truncatable(k *Keeper) error {
	if k.Stream.Clustered() || !slices.ContainsFunc(k.Damages(), func(d Damage) bool { return d.Unreadable }) {
		return nil
	}
	return errHeld("NATS cannot read some records of the history, and would lose more of it; restore a backup " +
		"with 'ao restore'")
}

// Damages returns the damages that are known.
func (k *Keeper) Damages() []Damage { return k.shown.Load().damages }

// Resolve notes the runs that the damages affect, as far as this process knows them. The last one names them, first
// those that nothing else names: one that was found before its runs were known is resolved with it.
func (k *Keeper) Resolve(ctx context.Context, failed, lost []Run) error {
	return k.change(ctx, func(m *mark) {
		d := &m.Damages[len(m.Damages)-1]
		d.Failed, d.Lost = max(d.Failed, len(failed)), max(d.Lost, len(lost))
		for _, r := range slices.Concat(lost, failed) {
			named := slices.ContainsFunc(d.Runs, func(o Run) bool { return o.ID == r.ID })
			if !named && len(d.Runs) < maxRuns {
				d.Runs = append(d.Runs, r)
			}
		}
		for i := range m.Damages {
			m.Damages[i].ResolvedAt = orNow(m.Damages[i].ResolvedAt)
		}
	}, func(m *mark) { k.handled = m.Generation })
}

// Accept marks all damages as accepted, and returns them.
func (k *Keeper) Accept(ctx context.Context) ([]Damage, error) {
	err := k.change(ctx, func(m *mark) {
		for i := range m.Damages {
			m.Damages[i].AcceptedAt = orNow(m.Damages[i].AcceptedAt)
		}
	}, func(*mark) {})
	return k.Damages(), err
}

func orNow(at *time.Time) *time.Time {
	if at == nil {
		at = new(time.Now().UTC())
	}
	return at
}

// change changes the damages of the mark, and then calls done with the lock.
func (k *Keeper) change(ctx context.Context, f, done func(*mark)) error {
	return k.locked(ctx, func() error {
		for {
			m, rev, err := current(ctx, k)
			if err != nil || m == nil || len(m.Damages) == 0 {
				return err
			}
			next := *m
			next.Damages = slices.Clone(m.Damages) // readers have the others
			for i := range next.Damages {
				next.Damages[i].Runs = slices.Clone(next.Damages[i].Runs)
			}
			f(&next)
			rev, err = k.write(ctx, &next, rev)
			if errors.Is(err, stream.ErrTaken) {
				continue
			}
			if err == nil {
				k.known, k.rev = &next, rev
				done(&next)
			}
			return err
		}
	})
}

// Verify compares RUNS with the mark now, and returns the damages. unreadable is how many records RUNS counts and does
// not give; that is a damage, too.
func (k *Keeper) Verify(ctx context.Context, unreadable uint64) ([]Damage, error) {
	for {
		settled := false
		err := k.locked(ctx, func() error {
			err := k.verify(ctx, unreadable)
			settled = err == nil && k.doubt.IsZero()
			return err
		})
		switch {
		case settled:
			return k.Damages(), nil
		case err != nil && !errors.Is(err, stream.ErrTaken):
			return nil, err
		}
		if !clock.Sleep(ctx, raiseEvery/5) {
			return nil, ctx.Err()
		}
	}
}

// verify is one try of Verify. The caller holds mu.
func (k *Keeper) verify(ctx context.Context, unreadable uint64) error {
	err := k.check(ctx)
	if err != nil || !k.doubt.IsZero() || unreadable == 0 {
		return err
	}
	if slices.ContainsFunc(k.known.Damages, func(d Damage) bool { return d.Unreadable && d.Missing >= unreadable }) {
		return nil
	}
	s, err := k.Stream.State(ctx)
	if err != nil {
		return err
	}
	d := Damage{Ends: s.Last, Reached: s.Last, Missing: unreadable, Unreadable: true}
	d.Message = fmt.Sprintf("the stream counts %d records, and %d of them cannot be read", s.Msgs, unreadable)
	return k.record(ctx, *k.known, k.rev, d, k.reconnects)
}

// record adds a damage to the mark, and has RUNS read again. The caller holds mu.
func (k *Keeper) record(ctx context.Context, next mark, rev uint64, d Damage, reconnects uint64) error {
	d.FoundAt, d.Runs = time.Now().UTC(), []Run{}
	before := next.Generation
	next.Generation++
	next.Damages = append(slices.Clone(next.Damages), d)
	next.Damages = next.Damages[max(0, len(next.Damages)-maxDamages):]
	rev, err := k.write(ctx, &next, rev)
	if err != nil {
		return err
	}
	k.Log.Error("THE HISTORY IS DAMAGED: run 'ao verify'; nothing starts until the affected runs are known", "what",
		d.Message)
	k.handled = min(max(k.handled, 0), before)
	k.known, k.rev, k.checked, k.doubt, k.reconnects = &next, rev, true, time.Time{}, reconnects
	reread(k)
	return nil
}
