package damage

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"ao/coordinator/highwater"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/shared/run"
)

// history has one run, which had been claimed and is unclaimed as long as nobody has failed it.
type history struct {
	refusals  []error // of the next writes; empty: they succeed
	listening time.Duration
	ended     bool
	failures  int
	resolved  []highwater.Run
}

func (h *history) Unclaimed() iter.Seq[state.Active] {
	if h.ended {
		return slices.Values([]state.Active{})
	}
	return slices.Values([]state.Active{{Spec: &run.Spec{ID: "run_1", SessionID: "ses_1"}, FirstSeq: 1}})
}
func (h *history) Claimed() iter.Seq[state.Active] { return slices.Values([]state.Active{}) }
func (h *history) FormerRuns(f func(id string, was run.Status, missing bool)) {
	f("run_1", run.Claimed, false)
}
func (h *history) DropFormer()         {}
func (h *history) Unhandled() bool     { return h.resolved == nil }
func (h *history) Affects(uint64) bool { return true }
func (h *history) Resolve(_ context.Context, failed, _ []highwater.Run) error {
	h.resolved = failed
	return nil
}
func (h *history) LastEvent(context.Context, string) (uint64, error) { return 0, nil }
func (h *history) Listening() time.Duration                          { return h.listening }
func (h *history) Named(string) bool                                 { return false }
func (h *history) AttemptKey(state.Active) string                    { return "" }
func (h *history) FailDamaged(context.Context, state.Active, string) error {
	h.failures++
	if len(h.refusals) == 0 {
		h.ended = true
		return nil
	}
	err := h.refusals[0]
	h.refusals = h.refusals[1:]
	return err
}

// TestNoRunStartsBeforeFailuresAreStored: nothing starts until a claimed run of a damage has failed, whatever becomes
// of the first write.
func TestNoRunStartsBeforeFailuresAreStored(t *testing.T) {
	down := errors.New("NATS does not answer")
	for _, tt := range []struct {
		name     string
		refusals []error
		between  func(*history)
		ended    bool
	}{
		{"NATS was away", []error{down}, func(*history) {}, true},
		{"NATS lost the end record, too", nil, func(h *history) { h.ended = false }, true},
		{"another record was there, and is lost", []error{stream.ErrTaken}, func(*history) {}, true},
		{"nobody can write it", []error{stream.ErrTaken, stream.ErrTaken}, func(*history) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{refusals: tt.refusals}
			c := &Controller{Log: slog.New(slog.DiscardHandler), Lease: time.Second, Mark: h, History: h, Evidence: h}
			err := c.Reconcile(t.Context())
			if (err != nil) != (len(tt.refusals) > 0) {
				t.Fatalf("the first call: %v", err)
			}
			tt.between(h)
			h.listening = time.Minute
			if err := c.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if h.failures != 2 || h.ended != tt.ended || len(h.resolved) != 1 {
				t.Errorf("%d writes, ended: %v, resolved: %v", h.failures, h.ended, h.resolved)
			}
		})
	}
}
