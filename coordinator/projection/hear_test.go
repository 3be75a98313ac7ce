package projection

import (
	"testing"

	"ao/nats/subject"
	"ao/shared/run"
)

// TestAnEventOfTheNextAttempt: events come by another way than records. One that proves an attempt which is not read
// yet is early, and shown once that is; one that proves nothing stays out.
func TestAnEventOfTheNextAttempt(t *testing.T) {
	a := newActor(t, "run_00000000000000000000000001", "ses_00000000000000000000000001", "a")
	a.spec.Attempts = 2
	j, seq := joined(nil, Config{Key: keyOf}), uint64(0)
	apply := func(all ...entry) {
		for _, e := range all {
			seq++
			if _, err := j.reducer.apply(Record{Subject: e.Subject, Body: e.Body, Seq: seq, Time: began}); err != nil {
				t.Fatal(err)
			}
		}
	}
	proves := func(attempt int) entry {
		e := a.claimed(attempt)
		e.Body = body(
			t,
			run.Claim{
				V:           1,
				SessionID:   a.spec.SessionID,
				RunnerID:    "rnr_1",
				Nonce:       "n",
				Attempt:     attempt,
				At:          began,
				SignsEvents: true,
			},
		)
		return e
	}
	at := subject.Event(a.part, a.spec.SessionID, a.spec.ID, run.EventMessage)
	raw := body(
		t,
		run.Event{
			Type:      run.EventMessage,
			SessionID: a.spec.SessionID,
			RunID:     a.spec.ID,
			At:        began,
			Body:      run.TextMessage("assistant", "x"),
		},
	)
	second := Record{Subject: at, Body: run.SignEvent(a.key(2), at, append([]byte{}, raw...)), Seq: 1, Time: began}
	bare := Record{Subject: at, Body: raw, Seq: 2, Time: began}
	hear := func(m Record) (eventMessage, bool) {
		e := readEvents(m)
		return e, j.judge(&e)
	}
	apply(a.queued(1), proves(1))
	for _, m := range []Record{second, bare} {
		if e, ok := hear(m); !ok || !e.early {
			t.Errorf("event %d before its attempt is read: %v %+v", m.Seq, ok, e)
		}
	}
	apply(a.ended(1, run.Failed, 0), a.queued(2), proves(2))
	if e, ok := hear(second); !ok || !e.shown() {
		t.Errorf("an event of the attempt: %v %+v", ok, e)
	}
	if e, ok := hear(bare); ok && e.shown() {
		t.Error("an event without a proof is shown")
	}
}
