package query

import (
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// TestAnEventOfTheNextAttempt: events come by another way than records. One that proves an attempt which is not read
// yet is early, and shown once that is; one that proves nothing stays out.
func TestAnEventOfTheNextAttempt(t *testing.T) {
	a := newActor(t, "run_00000000000000000000000001", "ses_00000000000000000000000001", "a")
	a.Spec.Attempts = 2
	j, seq := joined(nil, projection.Config{Key: keyOf}), uint64(0)
	apply := func(all ...entry) {
		for _, e := range all {
			seq++
			j.Apply(state.Record{Subject: e.Subject, Body: e.Body, Seq: seq, Time: began})
		}
	}
	proves := func(attempt int) entry {
		e := a.Claimed(attempt)
		e.Body = body(
			t,
			run.Claim{
				V:           1,
				SessionID:   a.Spec.SessionID,
				RunnerID:    "rnr_1",
				Nonce:       "n",
				Attempt:     attempt,
				At:          began,
				SignsEvents: true,
			},
		)
		return e
	}
	at := subject.Event(a.Part, a.Spec.SessionID, a.Spec.ID, run.EventMessage)
	raw := body(
		t,
		run.Event{
			Type:      run.EventMessage,
			SessionID: a.Spec.SessionID,
			RunID:     a.Spec.ID,
			At:        began,
			Body:      run.TextMessage("assistant", "x"),
		},
	)
	second := state.Record{Subject: at, Body: run.SignEvent(a.Key(2), at, append([]byte{}, raw...)), Seq: 1,
		Time: began}
	bare := state.Record{Subject: at, Body: raw, Seq: 2, Time: began}
	hear := func(m state.Record) (eventMessage, bool) {
		e := readEvents(m)
		return e, j.judge(&e)
	}
	apply(a.Queued(1), proves(1))
	for _, m := range []state.Record{second, bare} {
		if e, ok := hear(m); !ok || !e.early {
			t.Errorf("event %d before its attempt is read: %v %+v", m.Seq, ok, e)
		}
	}
	apply(a.Ended(1, run.Failed, 0), a.Queued(2), proves(2))
	if e, ok := hear(second); !ok || !e.shown() {
		t.Errorf("an event of the attempt: %v %+v", ok, e)
	}
	if e, ok := hear(bare); ok && e.shown() {
		t.Error("an event without a proof is shown")
	}
}
