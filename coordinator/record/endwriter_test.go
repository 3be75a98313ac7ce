package record

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"ao/coordinator/payload"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// refusing is a stream that refuses some subjects and gives no record of them.
type refusing struct {
	stream
	refused   []string
	clustered bool
	written   []string
}

func (s *refusing) AppendBatch(_ context.Context, entries ...bus.Entry) (uint64, error) {
	for _, e := range entries {
		if slices.Contains(s.refused, e.Subject) {
			return 0, bus.ErrTaken
		}
	}
	for _, e := range entries {
		s.written = append(s.written, e.Subject)
	}
	return 1, nil
}

func (s *refusing) Append(ctx context.Context, e bus.Entry) (uint64, error) {
	return s.AppendBatch(ctx, e)
}

func (s *refusing) Last(context.Context, string) (bus.Message, error) {
	return bus.Message{}, bus.ErrNotFound
}

func (s *refusing) LastEvent(context.Context, string) (uint64, error) { return 0, nil }

func (s *refusing) Purge(context.Context, string, string, uint64) error { return errors.ErrUnsupported }

func (s *refusing) Clustered() bool { return s.clustered }

// open is a history of one open run.
type open struct{ run state.Active }

func (o open) Active(string) (state.Active, bool) { return o.run, true }

func (o open) CarriedEnd(context.Context, state.Active) ([]byte, error) { return nil, nil }

func (open) Seq() uint64                           { return 0 }
func (open) Confirmed() bool                       { return true }
func (open) NoteWritten(uint64)                    {}
func (open) Returns() bool                         { return false }
func (open) CatchUp(context.Context) error         { return nil }
func (open) WaitFor(context.Context, uint64) error { return nil }
func (open) Now() int                              { return 1 }
func (open) Of(state.Active) int                   { return 1 }
func (open) Advertised() int                       { return 1 }

// TestEndRecordRefusedByAnUnreadableRecord: a single server has a record there that it cannot read. In a cluster the
// record may be on its way, and the attempt's own end decides.
func TestEndRecordRefusedByAnUnreadableRecord(t *testing.T) {
	for name, tt := range map[string]struct{ clustered, damaged bool }{
		"one server": {}, "one server, a damage": {damaged: true}, "a cluster, a damage": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			id := run.NewID()
			keys := NewKeys()
			part := subject.Partition("ses_1")
			own, other := subject.Ended(part, id, keys.Of(id, 1)), subject.Ended(part, id, keys.Of(id, run.NoAttempt))
			s := &refusing{refused: []string{own}, clustered: tt.clustered}
			o := open{state.Active{Spec: &run.Spec{ID: id, SessionID: "ses_1"}}}
			e := NewEndWriter(Needs{Records: NewWriter(s, o, keys, o, &payload.Room{}), Stream: s, History: o,
				Barrier: o,
				Damaged: func(uint64) bool { return tt.damaged }, Log: slog.New(slog.DiscardHandler)})
			err := e.AppendEnd(t.Context(), o.run, bus.Entry{Subject: own, Body: []byte("{}")})
			if tt.clustered != (err != nil) {
				t.Errorf("the end of the attempt is refused: %v", err)
			}
			var want []string
			if tt.damaged && !tt.clustered {
				want = []string{other}
			}
			if !slices.Equal(s.written, want) {
				t.Errorf("it wrote %q, want %q", s.written, want)
			}
		})
	}
}

// TestALostAttemptWaitsForItsDamage: the damage counts the run before its end record is written.
func TestALostAttemptWaitsForItsDamage(t *testing.T) {
	id, keys := run.NewID(), NewKeys()
	s, unknown := &refusing{}, errors.New("the affected runs are not known")
	o := open{state.Active{Spec: &run.Spec{ID: id, SessionID: "ses_1"}, Key: keys.Of(id, 1), ClaimSeq: 2,
		Claim: &run.Claim{Attempt: 1, RunnerID: "rnr_1"}}}
	e := NewEndWriter(Needs{Records: NewWriter(s, o, keys, o, &payload.Room{}), Stream: s, History: o, Barrier: o,
		Damaged: func(uint64) bool { return true }, Held: func() error { return unknown },
		Log: slog.New(slog.DiscardHandler)})
	if err := e.FailLost(t.Context(), o.run, "lost"); !errors.Is(err, unknown) || len(s.written) > 0 {
		t.Errorf("while it is held: got %v, and wrote %q", err, s.written)
	}
	unknown = nil
	if err := e.FailLost(t.Context(), o.run, "lost"); err != nil || len(s.written) != 1 {
		t.Errorf("afterwards: got %v, and wrote %q, want one end record", err, s.written)
	}
}
