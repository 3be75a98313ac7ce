package ledger

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"ao/coordinator/highwater"
	"ao/nats/bus"
	"ao/shared/run"
)

// rotten is a stream one record of which cannot be read at first.
type rotten struct {
	msgs      []bus.Message
	clustered bool
	bad       int // reads without the record
	reads     int
	verified  []uint64 // what was reported to the mark as unreadable
}

func (r *rotten) Clustered() bool { return r.clustered }

func (r *rotten) State(context.Context) (bus.State, error) {
	return bus.State{First: 1, Last: uint64(len(r.msgs)), Msgs: uint64(len(r.msgs))}, nil
}

func (r *rotten) HasRecords(context.Context, uint64, uint64) (bool, error) { return true, nil }

func (r *rotten) Follow(_ context.Context, _ string, _ uint64, _ []string, f func(bus.Message) error) error {
	r.reads++
	for i, m := range r.msgs {
		if i == 1 && r.reads <= r.bad {
			continue
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

func (r *rotten) Verify(_ context.Context, unreadable uint64) ([]highwater.Damage, error) {
	r.verified = append(r.verified, unreadable)
	return nil, nil
}

func (r *rotten) Accept(context.Context) ([]highwater.Damage, error) { return nil, nil }

// TestAnUnreadableRecordIsReadAgain: another server of a cluster can read what one cannot. Only what no server gives,
// and what a single one does not, is a damage.
func TestAnUnreadableRecordIsReadAgain(t *testing.T) {
	for _, tt := range []struct {
		clustered bool
		bad       int
		reads     int
		verified  []uint64
	}{
		{true, 1, 2, []uint64{0}},
		{true, 100, clusterReads, []uint64{0, 1}},
		{false, 1, 1, []uint64{0, 1}},
	} {
		t.Run(fmt.Sprint(tt.clustered, tt.bad), func(t *testing.T) {
			s := newStory(t)
			s.run(s.session()).queued(1).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
			r := &rotten{msgs: s.msgs, clustered: tt.clustered, bad: tt.bad}
			a := Auditor{Stream: r, Mark: r, Rules: Rules{Key: keyOf}}
			if _, err := a.Ledger(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.reads != tt.reads || !slices.Equal(r.verified, tt.verified) {
				t.Errorf("read %d times, and the mark got %v; want %d and %v", r.reads, r.verified, tt.reads,
					tt.verified)
			}
		})
	}
}
