// Package damage fails the runs that had begun and whose claims a damaged history has lost. Until that is done nothing
// starts (decision 0045).
package damage

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"ao/coordinator/highwater"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// Every is how often the controller looks whether there is a damage.
const Every = 250 * time.Millisecond

// Controller looks for the affected runs once for each damage. All of its fields are required.
type Controller struct {
	Log   *slog.Logger
	Lease time.Duration // so long heartbeats are listened to
	Mark  interface {
		Unhandled() bool
		Affects(seq uint64) bool
		Resolve(ctx context.Context, failed, lost []highwater.Run) error
	}
	History interface {
		Unclaimed() iter.Seq[state.Active] // also those that wait for their session's turn
		Claimed() iter.Seq[state.Active]
		// runs that were claimed or had ended in a history that was replaced, and are not so now
		FormerRuns(f func(id string, was run.Status, missing bool))
		DropFormer()
	}
	Evidence interface {
		LastEvent(ctx context.Context, filter string) (uint64, error) // 0: there is none
		Listening() time.Duration
		Named(key string) bool // by a heartbeat, since this process listens
		FailDamaged(ctx context.Context, a state.Active, evidence string) error
		AttemptKey(a state.Active) string
	}

	failed map[string]highwater.Run // so far
}

// Reconcile fails the affected runs as soon as it knows them, and lets others start when it knows all.
func (c *Controller) Reconcile(ctx context.Context) error {
	if !c.Mark.Unhandled() {
		return nil
	}
	if c.failed == nil {
		c.failed = map[string]highwater.Run{}
	}
	former, lost := map[string]run.Status{}, []highwater.Run{}
	c.History.FormerRuns(func(id string, was run.Status, missing bool) {
		former[id] = was
		if missing {
			lost = append(lost, highwater.Run{ID: id, Was: string(was), Evidence: "a coordinator had read it"})
		}
	})
	heard := c.Evidence.Listening() >= c.Lease
	if err := c.failBegun(ctx, former); err != nil || !heard {
		return err
	}
	failed := slices.Collect(maps.Values(c.failed))
	for a := range c.History.Claimed() {
		open := !a.Stopping && a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0
		if open && c.Mark.Affects(a.ClaimSeq) && !c.Evidence.Named(a.Key) {
			failed = append(failed, highwater.Run{ID: a.Spec.ID, Was: string(former[a.Spec.ID]), Evidence: unnamed})
		}
	}
	if err := c.Mark.Resolve(ctx, failed, lost); err != nil {
		return err
	}
	c.Log.Error("the runs that the damage affects are known", "failed", len(failed), "lost", len(lost))
	c.failed = nil
	c.History.DropFormer()
	return nil
}

// unnamed is why a claimed run fails with its lease.
const unnamed = "it was claimed, and no heartbeat names it"

// failBegun fails the unclaimed runs that had begun. It does so again if the end was not written, or is lost, too.
func (c *Controller) failBegun(ctx context.Context, former map[string]run.Status) error {
	var waiting []state.Active
	for a := range c.History.Unclaimed() {
		if c.Mark.Affects(a.FirstSeq) {
			waiting = append(waiting, a)
		}
	}
	all := make([]highwater.Run, len(waiting))
	var g errgroup.Group
	g.SetLimit(16)
	for i, a := range waiting {
		g.Go(func() error {
			was := former[a.Spec.ID]
			evidence, err := c.evidence(ctx, a, was)
			if err == nil && evidence != "" {
				err = c.Evidence.FailDamaged(ctx, a, evidence)
				all[i] = highwater.Run{ID: a.Spec.ID, Was: string(was), Evidence: evidence}
			}
			if _, again := c.failed[a.Spec.ID]; again && errors.Is(err, stream.ErrTaken) {
				return nil // in a cluster, nobody can write it behind an unreadable record
			}
			return err
		})
	}
	err := g.Wait()
	for _, r := range all {
		if r.ID != "" {
			c.failed[r.ID] = r
		}
	}
	return err
}

// evidence returns how it is known that an unclaimed run had begun; empty: nothing shows it.
func (c *Controller) evidence(ctx context.Context, a state.Active, was run.Status) (string, error) {
	switch {
	case was != "":
		return "a coordinator had read its claim", nil
	case c.Evidence.Named(c.Evidence.AttemptKey(a)):
		return "a heartbeat names it", nil
	}
	last, err := c.Evidence.LastEvent(ctx, subject.RunEvents(a.Spec.SessionID, a.Spec.ID))
	if err != nil || last == 0 {
		return "", err
	}
	return "it has events", nil
}
