package query

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/budget"
	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// packed writes runs of two sessions whose events came in packs and alone, and gives the last position.
func (b *bench) packed() (last string) {
	one, two := b.actor("ses_one"), b.actor("ses_two")
	next := newActor(b.t, run.NewID(), "ses_one", "x")
	b.write(one.Queued(1), two.Queued(1), next.Accepted(), one.Claimed(1))
	b.emitAll(one.Pack(1, 10, 11, 12, 13))
	b.write(two.Claimed(1))
	b.emitAll(one.Event(14), two.Pack(1, 10, 11), one.Pack(1, 15, 16))
	n := b.emitAll(two.Event(12), one.Pack(1, 17, 18, 19))
	b.write(one.Ended(1, run.Completed, n), next.Queued(1), next.Claimed(1))
	m := b.emitAll(two.Pack(1, 13, 14, 15))
	n = b.emitAll(next.Pack(1, 10, 11))
	b.write(two.Ended(1, run.Failed, m))
	seq := b.write(next.Ended(1, run.Completed, n))
	b.Await(b.t.Context(), seq)
	return position{runs: seq, events: n}.String()
}

// numbers are those that events of a run say, in their order.
func numbers(events []run.Event, id string) (all []string) {
	for _, e := range events {
		if numbered, ok := strings.CutPrefix(e.Type, run.EventMessage); ok && numbered == "" && e.RunID == id {
			var m run.Message
			json.Unmarshal(e.Body, &m)
			all = append(all, m.Content[0].Text[strings.LastIndexByte(m.Content[0].Text, ' ')+1:])
		}
	}
	return all
}

// TestReaderResumesInsideAPack: cut at any position, live or by pages of any size, the rest comes exactly: in order,
// nothing twice and nothing missing.
func TestReaderResumesInsideAPack(t *testing.T) {
	b := start(t, projection.Config{Key: keyOf})
	last := b.packed()
	for _, session := range []string{"", "ses_one"} {
		all := b.read(session, PositionBefore(1), last, 0)
		events := eventsOf(all)
		inOrder(t, events)
		want := map[string]string{}
		for _, e := range events {
			want[e.RunID] = strings.Join(numbers(events, e.RunID), " ")
		}
		for id, got := range want {
			if !strings.HasPrefix("10 11 12 13 14 15 16 17 18 19", got) || got == "" {
				t.Errorf("session %q, run %s: %s", session, id, got)
			}
		}
		seen := map[string]bool{}
		for k, at := range all {
			if seen[at.ID] {
				t.Errorf("session %q: two items have the id %s", session, at.ID)
			}
			seen[at.ID] = true
			rest := b.read(session, at.ID, last, 0)
			if got, want := names(append(slices.Clone(all[:k+1]), rest...)), names(all); !slices.Equal(got, want) {
				t.Fatalf("session %q, resumed at %s:\ngot  %q\nwant %q", session, at.ID, got, want)
			}
			inOrder(t, eventsOf(append(slices.Clone(all[:k+1]), rest...)))
		}
		if session == "" {
			continue
		}
		whole, end, err := b.Events(t.Context(), session, "", 1000)
		if err != nil || len(numbers(whole, whole[0].RunID)) != 10 {
			t.Fatal(len(whole), err)
		}
		text := string(must(json.Marshal(whole)))
		for limit := 1; limit <= len(whole)+1; limit++ {
			var got []run.Event
			for after := ""; ; {
				list, next, err := b.Events(t.Context(), session, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(list) > limit {
					t.Errorf("%d events by %d", len(list), limit)
				}
				got = append(got, list...)
				if len(list) == 0 {
					break
				}
				after = next
				live, rest := b.read(session, next, end, 0), whole[len(got):]
				if fmt.Sprint(kindsOf(eventsOf(live))) != fmt.Sprint(kindsOf(rest)) {
					t.Errorf(
						"%s by %d: live from %s come %v, want %v",
						session,
						limit,
						next,
						kindsOf(eventsOf(live)),
						kindsOf(rest),
					)
				}
			}
			if g := string(must(json.Marshal(got))); g != text {
				t.Errorf("%s by %d:\ngot  %s\nwant %s", session, limit, g, text)
			}
		}
	}
}

func kindsOf(events []run.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.Type+string(e.Body))
	}
	return all
}

// TestEventIDsOfOlderPrograms: a position from a program that knew no packs still means the same. A position inside
// both a record and a pack leaves out the beginning of each.
func TestEventIDsOfOlderPrograms(t *testing.T) {
	b := start(t, projection.Config{Key: keyOf})
	a := b.actor("ses_a")
	b.write(a.Queued(1), a.Claimed(1))
	n := b.emitAll(a.Event(1), a.Pack(1, 2, 3, 4))
	seq := b.write(a.Ended(1, run.Completed, n))
	b.Await(t.Context(), seq)
	end := position{runs: seq, events: n}.String()
	for after, want := range map[string]string{
		"1-0":     "run_start 1 2 3 4 result run_completed",
		"2-0":     "1 2 3 4 result run_completed",
		"2-1":     "2 3 4 result run_completed",
		"2-1.0.2": "4 result run_completed",
		"2-2":     "result run_completed",
		"2-2.1":   "run_completed", // items of the record behind it, as ever
		"2-1.1":   "2 3 4 run_completed",
		"2-1.1.1": "3 4 run_completed",
		"2-0.0.3": "2 3 4 result run_completed", // message 1 is no pack: its one event is taken for read
	} {
		list, next, err := b.Events(t.Context(), "ses_a", after, 0)
		var got []string
		for _, e := range list {
			if numbered := numbers([]run.Event{e}, a.Spec.ID); len(numbered) > 0 {
				got = append(got, numbered[0])
			} else {
				got = append(got, e.Type)
			}
		}
		if s := strings.Join(got, " "); s != want || err != nil || next != end {
			t.Errorf("after %s: %q to %s, %v, want %q to %s", after, s, next, err, want, end)
		}
		if live := kindsOf(eventsOf(b.read("ses_a", after, end, 0))); !slices.Equal(live, kindsOf(list)) {
			t.Errorf("after %s live: %q", after, live)
		}
	}
	for _, bad := range []string{"1-2.0.256", "1-2.0.-1", "1-2.0.x", "1-2.0.1.1", "1-2..1"} {
		if _, _, err := b.Events(t.Context(), "ses_a", bad, 0); err == nil {
			t.Errorf("position %s is taken", bad)
		}
	}
}

// TestTruncatedPackIsAGap: a reader that returns to a position inside it gets the gap.
func TestTruncatedPackIsAGap(t *testing.T) {
	b := start(t, projection.Config{Key: keyOf})
	a := b.actor("ses_a")
	b.write(a.Queued(1), a.Claimed(1))
	b.emitAll(a.Pack(1, 1, 2, 3))
	b.emitAll(a.Pack(1, 4, 5))
	if err := b.bus.Purge(t.Context(), subject.Events, subject.AllEvents, 2); err != nil {
		t.Fatal(err)
	}
	if items := b.read("", "2-0.0.2", "", 2); items[0].Event != ItemGap || items[1].Event != ItemInit {
		t.Errorf("inside of what is gone: %s, %s", name(items[0]), name(items[1]))
	}
	if items := b.read("", "2-1.0.1", "2-2", 0); len(items) != 1 || items[0].ID != "2-2" {
		t.Errorf("inside of what is kept: %v", items)
	}
	if list, next, err := b.Events(t.Context(), "ses_a", "2-0.0.2", 0); err != nil || next != "2-2" ||
		!slices.Equal(numbers(list, a.Spec.ID), []string{"4", "5"}) {
		t.Errorf("a page: %v to %s, %v", list, next, err)
	}
}

// TestPackPagesCountAgainstTheBudget: what a reader gets of a pack is taken from the memory for answers, member by
// member.
func TestPackPagesCountAgainstTheBudget(t *testing.T) {
	b := start(t, projection.Config{Key: keyOf})
	a := b.actor("ses_a")
	b.write(a.Queued(1), a.Claimed(1))
	var bodies [][]byte
	for range 5 {
		e := run.Event{
			Type:      run.EventMessage,
			SessionID: "ses_a",
			RunID:     a.Spec.ID,
			At:        began,
			Body:      run.TextMessage("x", strings.Repeat("x", 50<<10)),
		}
		bodies = append(bodies, body(t, e))
	}
	at := subject.Event(a.Part, "ses_a", a.Spec.ID, run.PackKind)
	b.emitAll(entry{Subject: at, Body: run.SignEvent(a.Key(1), at, run.Pack(bodies))})
	memory := budget.New(4 << 20) // half of it is one caller's
	for _, tt := range []struct {
		limit int
		more  bool // the caller's share has room for 1.5 MiB beside that
	}{{1, true}, {2, true}, {6, false}, {2, true}} { // run_start is the first
		answering := &budget.Answering{Context: t.Context()}
		answering.Answer.Begin(memory, "somebody")
		if list, _, err := b.Events(answering, "ses_a", "", tt.limit); err != nil || len(list) != tt.limit {
			t.Errorf("%d events: got %d, %v", tt.limit, len(list), err)
		}
		beside := memory.Open("somebody")
		if err := beside.Take(3 << 19); (err == nil) != tt.more {
			t.Errorf("beside %d events: %v", tt.limit, err)
		}
		beside.Close()
		answering.Answer.Close()
	}
}

// TestForeignPacksAreHidden: a pack is shown as a whole or not at all: as its worker wrote it, under its run's own
// subject, with its key.
func TestForeignPacksAreHidden(t *testing.T) {
	b := start(t, projection.Config{Key: keyOf})
	a, other := b.actor("ses_a"), b.actor("ses_b")
	proves := a.Claimed(1)
	proves.Body = body(
		t,
		run.Claim{
			V:           1,
			SessionID:   a.Spec.SessionID,
			RunnerID:    "rnr_1",
			Nonce:       "n",
			Attempt:     1,
			At:          began,
			SignsEvents: true,
		},
	)
	b.write(a.Queued(1), proves, other.Queued(1), other.Claimed(1))
	good := a.Pack(1, 1, 2)
	at := good.Subject
	proven := func(at, raw string) entry {
		return entry{Subject: at, Body: run.SignEvent(a.Key(1), at, []byte(raw))}
	}
	one := string(a.Event(9).Body)
	odd := string(
		body(
			t,
			run.Event{
				Type:      run.EventResult,
				SessionID: "ses_a",
				RunID:     a.Spec.ID,
				At:        began,
				Body:      run.TextMessage("x", "x"),
			},
		),
	)
	bare, _ := run.SplitSignature(at, good.Body)
	deep := strings.Repeat("[", 100_000)
	strangers := []entry{
		{Subject: at, Body: bare}, // without a proof
		{Subject: at, Body: run.SignEvent("a guess", at, append([]byte{}, bare...))},
		a.Pack(2, 1, 2), // of an attempt that there is not
		{
			Subject: subject.Event(a.Part, "ses_a", a.Spec.ID, run.EventMessage),
			Body:    good.Body,
		}, // under an event's subject
		{
			Subject: subject.Event(other.Part, "ses_b", other.Spec.ID, run.PackKind),
			Body:    good.Body,
		}, // under another's
		proven(
			subject.Event(other.Part, "ses_b", a.Spec.ID, run.PackKind),
			string(run.Pack([][]byte{[]byte(one)})),
		), // of another session
		proven(at, `{"events":[`+one+`,`+string(other.Event(1).Body)+`]}`),
		proven(at, `{"events":[`+one+`,`+odd+`]}`), // a kind that no worker writes
		proven(at, `{"events":[`+one+`,`+string(good.Body)+`]}`),
		proven(
			at,
			`{"events":[]}`,
		), proven(at, `{}`), proven(at, one), proven(at, `{"events":`+one+`}`), proven(at, `{"events":[`+one+
			`],"more":1}`),
		proven(at, `{"events":[`+strings.TrimSuffix(strings.Repeat(one+",", run.MaxPacked+1), ",")+`]}`),
		proven(at, `{"events":[`+strings.Repeat("{},", 100_000)+`{}]}`),
		proven(at, `{"events":[{"x":`+deep+strings.Repeat("]", len(deep))+`}]}`),
		proven(at, `{"events":`+deep+strings.Repeat("]", len(deep))+`}`),
	}
	for i, e := range strangers {
		began := time.Now()
		if all := b.VisibleEvents(state.Record{Seq: 1, Subject: e.Subject, Body: e.Body,
			Time: time.Now()}); len(all) != 0 {
			t.Errorf("pack %d is shown: %v", i, all)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("pack %d took %v", i, took)
		}
	}
	n := b.emitAll(append(append(strangers, good), strangers...)...)
	b.write(a.Ended(1, run.Completed, n))
	b.emitAll(a.Pack(1, 8, 9)) // after the end
	b.Await(t.Context(), b.write(other.Ended(1, run.Failed, 0)))
	want := []string{"1", "2"}
	list, _, err := b.Events(t.Context(), "ses_a", "", 0)
	if err != nil || !slices.Equal(numbers(list, a.Spec.ID), want) || len(list) != 5 {
		t.Errorf("the list has %q, %v", kindsOf(list), err)
	}
	const items = 20 // of three records of each run, and the two events
	live := eventsOf(b.read("", PositionBefore(1), "", items))
	if !slices.Equal(numbers(live, a.Spec.ID), want) || len(live) != 7 {
		t.Errorf("the stream has %q", kindsOf(live))
	}
	if list, _, err := b.Events(t.Context(), "ses_b", "", 0); err != nil || len(list) != 2 {
		t.Errorf("the other session has %q, %v", kindsOf(list), err)
	}
}

// TestForeignPackIsReadOnce, however little a reader asks for at a time.
func TestForeignPackIsReadOnce(t *testing.T) {
	var asked atomic.Int64
	b := start(t, projection.Config{Key: func(id string, attempt int) string {
		asked.Add(1)
		return keyOf(id, attempt)
	}})
	a := b.actor("ses_a")
	b.write(a.Queued(1), a.Claimed(1))
	foreign := a.Pack(2, slices.Repeat([]int{1}, run.MaxPacked)...) // of an attempt that there is not
	n := b.emitAll(foreign, a.Pack(1, 1, 2))
	b.Await(t.Context(), b.write(a.Ended(1, run.Completed, n)))
	asked.Store(0)
	list, _, err := b.Events(t.Context(), "ses_a", position{runs: 2}.String(), 1)
	if err != nil || !slices.Equal(numbers(list, a.Spec.ID), []string{"1"}) {
		t.Errorf("got %q, %v", kindsOf(list), err)
	}
	if n := asked.Load(); n > 10 {
		t.Errorf("a key was made %d times for a page of one event", n)
	}
}
