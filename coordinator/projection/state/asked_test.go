package state

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"testing"
	"time"
)

// asked is a state with what tests ask of it.
type asked struct{ state *State }

func joined(key func(string, int) string, checked func(string, int, string) bool) *asked {
	return &asked{New(key, checked, 0)}
}

// over asks a state that was made by hand.
func over(f *State) *asked { return &asked{f} }

func (j *asked) Forget(first uint64) { j.state.Forget(first) }
func (j *asked) Apply(m Record) Change {
	ch, _ := j.state.Apply(m)
	return ch
}

func (j *asked) Eligible() []Active              { return TakeEligible(j.state) }
func (j *asked) DueCallbacks() []PendingCallback { return DueCallbacks(j.state, time.Now()) }
func (j *asked) Prunable(keep int, old, called time.Time) uint64 {
	return Prunable(j.state, keep, old, called)
}

func (j *asked) NewResults() []Active                  { return TakeResults(j.state) }
func (j *asked) NewCallbacks() []PendingCallback       { return TakeCallbacks(j.state, time.Now()) }
func (j *asked) LateRecords() []LateRecord             { return j.state.Late.LateRecords() }
func (j *asked) ForgetLate(gone LateRecord)            { j.state.Late.Forget(gone) }
func (j *asked) Counts() (waiting, claimed, ended int) { return Counts(j.state) }
func (j *asked) Reservations() []Reservation           { return j.state.Callbacks.Reservations() }
func (j *asked) DueWebhooks(q WebhookQuery) []Webhook  { return j.state.Webhooks.Hosts.Due(q) }
func (j *asked) UnverifiedResults() []Active {
	return j.open(func(a *Active) bool { return a.UnverifiedSeq != 0 })
}
func (j *asked) UnwrittenEnds() []Active {
	return j.open(func(a *Active) bool { return a.CarriedEndSeq != 0 })
}

func (j *asked) open(is func(*Active) bool) (all []Active) {
	for r := range OpenRuns(j.state) {
		if is(r.Active()) {
			all = append(all, *r.Active())
		}
	}
	return all
}

// snap writes a checkpoint, with a rest after each entry.
func snap(t testing.TB, j *asked, rest func()) []byte {
	t.Helper()
	var all bytes.Buffer
	to, c := gob.NewEncoder(&all), StartSaving(j.state)
	write := func(p Part) {
		if err := errors.Join(p.EncodeSpecs(), to.Encode(p)); err != nil {
			t.Fatal(err)
		}
	}
	for p := (Part{}); ; rest() {
		more, err := c.Next(j.state, &p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		write(p)
	}
	last, texts, err := c.Last(j.state)
	if err != nil {
		t.Fatal(err)
	}
	last.Sort()
	write(Part{Texts: texts})
	write(last)
	if last.End.Seq != j.state.seq {
		t.Fatalf("it is of record %d, the state has %d", last.End.Seq, j.state.seq)
	}
	return all.Bytes()
}

// load reads a checkpoint.
func load(raw []byte, key func(string, int) string) (*State, error) {
	from, l := gob.NewDecoder(bytes.NewReader(raw)), NewLoader(key)
	for p := (Part{}); ; p.Clear() {
		if err := from.Decode(&p); err != nil {
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
		if f, err := l.Add(&p); f != nil || err != nil {
			return f, err
		}
	}
}
