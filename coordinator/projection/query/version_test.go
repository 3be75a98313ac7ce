package query

import (
	"context"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// What readers see of a run that ended by such a record: one error, everywhere, and nothing of what the record
// holds.
func TestReadersOfAnEndAboveTheBound(t *testing.T) {
	for name, records := range map[string]func(a actor) []entry{
		"claimed": func(a actor) []entry {
			return []entry{a.Queued(1), inVersion(2, a.Claimed(1))}
		},
		"bound": func(a actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Bound(1, "m"))}
		},
		"ended": func(a actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Ended(1, run.Completed, 0))}
		},
		"failed": func(a actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Ended(1, run.Failed, 0))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, projection.Config{})
			j := w.allParts
			a := w.actor(run.NewSessionID())
			var last uint64
			for _, e := range records(a) {
				last = w.write(e)
			}
			if err := w.Await(t.Context(), last); err != nil {
				t.Fatal(err)
			}
			r, err := j.Get(t.Context(), a.Spec.ID)
			if err != nil || r.Status != run.Failed || r.Error == nil || r.Error.Code != state.CodeRecordVersion ||
				r.EndedAt == nil {
				t.Fatalf("got %+v, %v", r, err)
			}
			if res, _, err := j.Result(t.Context(), a.Spec.ID); err == nil {
				t.Errorf("its result is %+v", res)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var events []string
			err = j.Stream(ctx, a.Spec.SessionID, PositionBefore(1), func(i Item) error {
				events = append(events, i.Event)
				if i.Event == ItemRunFailed {
					cancel()
				}
				return nil
			})
			if ctx.Err() == nil || events[len(events)-1] != ItemRunFailed {
				t.Errorf("a live reader gets %v, %v", events, err)
			}
			if err := j.Ready(); err != nil {
				t.Errorf("not ready: %v", err)
			}
		})
	}
}
