package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

var errEnough = errors.New("enough")

// name says what an item is about, whatever its position.
func name(i Item) string {
	switch d := i.Data.(type) {
	case run.Event:
		return i.Event + " " + d.RunID + " " + d.Type + " " + string(d.Body)
	case run.Session:
		return i.Event + " " + d.ID
	case run.Run:
		return i.Event + " " + d.ID
	case Deleted:
		return i.Event + " " + d.SessionID
	}
	return i.Event
}

// read streams from a position until an item has the last one, or most items have come (0: no limit).
func (b *bench) read(session, after, last string, most int) (items []Item) {
	b.t.Helper()
	if after == last {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	err := b.Stream(ctx, session, after, func(i Item) error {
		items = append(items, i)
		if i.ID == last || len(items) == most {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		for _, i := range items {
			b.t.Log(i.ID, name(i))
		}
		b.t.Fatalf("stream from %s to %s: %v", after, last, err)
	}
	return items
}

// scene writes what may happen in two sessions, with events of both runs between, and gives the last position.
func (b *bench) scene() (sessions []string, last string) {
	one, two := b.actor("ses_one"), b.actor("ses_two")
	next := newActor(b.t, run.NewID(), "ses_one", "x")
	deleted := b.actor("ses_gone")
	b.write(one.Queued(1), two.Queued(1), next.Accepted(), deleted.Queued(1), one.Claimed(1))
	b.emitAll(one.Event(1))
	b.write(two.Claimed(1), deleted.Claimed(1), deleted.Ended(1, run.Completed, 0))
	b.emitAll(two.Event(1), one.Event(2), two.Event(2))
	n := b.emitAll(one.Event(3))
	b.write(deleted.Deleted(), one.Ended(1, run.Completed, n))
	b.emitAll(two.Event(3))
	b.write(one.Ended(2, run.Failed, 0), two.Stopping(), next.Queued(1), next.Claimed(1))
	m := b.emitAll(next.Event(1), two.Event(4))
	b.write(two.Ended(1, run.Failed, m))
	m = b.emitAll(next.Event(2))
	seq := b.write(next.Ended(1, run.Stopped, m))
	b.Await(b.t.Context(), seq)
	return []string{"ses_one", "ses_two"}, position{runs: seq, events: m}.String()
}

// inOrder checks that each run's events are run_start, its messages, result, the end.
func inOrder(t *testing.T, events []run.Event) {
	t.Helper()
	byRun := map[string][]string{}
	for _, e := range events {
		s := e.Type
		if e.Type == run.EventMessage {
			s = string(e.Body)
		}
		byRun[e.RunID] = append(byRun[e.RunID], s)
	}
	for id, list := range byRun {
		end := list[len(list)-1]
		rest := list[:len(list)-1]
		if end == run.EventCompleted {
			if rest[len(rest)-1] != run.EventResult {
				t.Errorf("run %s: no result before its end: %q", id, list)
			}
			rest = rest[:len(rest)-1]
		}
		if rest[0] != run.EventStart || !strings.HasPrefix(end, "run_") || !slices.IsSorted(rest[1:]) ||
			slices.Contains(rest[1:], run.EventStart) {
			t.Errorf("run %s: %q", id, list)
		}
	}
}

func eventsOf(items []Item) (events []run.Event) {
	for _, i := range items {
		if e, ok := i.Data.(run.Event); ok {
			events = append(events, e)
		}
	}
	return events
}

func names(items []Item) (all []string) {
	for _, i := range items {
		all = append(all, name(i))
	}
	slices.Sort(all)
	return all
}

func TestStreamResumesAtEveryPosition(t *testing.T) {
	b := start(t, projection.Config{})
	_, last := b.scene()
	for _, session := range []string{"", "ses_one"} {
		all := b.read(session, PositionBefore(1), last, 0)
		want := names(all)
		inOrder(t, eventsOf(all))
		for k, at := range all {
			rest := b.read(session, at.ID, last, 0)
			if got := names(append(slices.Clone(all[:k+1]), rest...)); !slices.Equal(got, want) {
				t.Fatalf("session %q, resumed at %s, after %s:\ngot  %q\nwant %q", session, at.ID, name(at), got, want)
			}
			inOrder(t, eventsOf(append(slices.Clone(all[:k+1]), rest...)))
		}
	}
	var got []string
	for _, i := range b.read("ses_two", PositionBefore(1), "15-8", 0) {
		label := i.Event
		if e, ok := i.Data.(run.Event); ok {
			label = e.Type
		}
		if label != run.EventMessage { // they come when they come, but before the end
			got = append(got, label)
		}
	}
	want := "session_created run_updated run_start session_updated run_updated session_updated " +
		"run_updated run_failed " +
		"session_updated run_updated run_failed"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

// ofDeletedSession reports whether an item is of the deleted session: only a fast reader gets those.
func ofDeletedSession(i Item) bool {
	switch d := i.Data.(type) {
	case run.Event:
		return d.SessionID == "ses_gone"
	case run.Session:
		return d.ID == "ses_gone"
	case run.Run:
		return d.SessionID == "ses_gone"
	}
	return false
}

func TestStreamResumesDuringChanges(t *testing.T) {
	b := start(t, projection.Config{})
	var all []Item
	done := make(chan string, 1)
	go func() {
		_, last := b.scene()
		done <- last
	}()
	at, last := PositionBefore(1), ""
	rng := rand.New(rand.NewPCG(1, 1))
	for at != last {
		timeout := 200 * time.Millisecond // all may have been sent before it is known which was the last
		most := 1 + rng.IntN(4)
		if last == "" {
			select {
			case last = <-done:
				continue // perhaps it has been sent
			default:
			}
		} else {
			timeout = 30 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		n := 0
		err := b.Stream(ctx, "", at, func(i Item) error {
			at = i.ID
			if !ofDeletedSession(i) {
				all = append(all, i)
			}
			n++
			if n == most || at == last {
				return errEnough
			}
			return nil
		})
		early := last == "" && ctx.Err() != nil
		cancel()
		if !errors.Is(err, errEnough) && !early {
			t.Fatal(at, last, err)
		}
	}
	want := names(b.read("", PositionBefore(1), last, 0))
	if got := names(all); !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	inOrder(t, eventsOf(all))
}

func TestInitThenChanges(t *testing.T) {
	b := start(t, projection.Config{})
	old := b.actor("ses_old")
	b.Await(t.Context(), b.write(old.Queued(1), old.Claimed(1)))
	items := make(chan Item)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		b.Stream(ctx, "", "", func(i Item) error {
			select {
			case items <- i:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	next := func(want string) Item {
		t.Helper()
		select {
		case i := <-items:
			if i.Event != want {
				t.Errorf("got %s, want %s", name(i), want)
			}
			return i
		case <-time.After(time.Minute):
			t.Fatal("nothing comes; want", want)
		}
		return Item{}
	}
	snap, _ := next(ItemInit).Data.(Snapshot)
	if len(snap.Sessions) != 1 || len(snap.Runs) != 1 || snap.Runs[0].Status != run.Claimed ||
		snap.Sessions[0].Status != run.SessionRunning {
		t.Errorf("%+v", snap)
	}
	b.Started("ses_old", "no key", time.Now())
	b.Started(old.Spec.ID, old.Key(1), time.Now())
	if r := next(ItemRunUpdated).Data.(run.Run); r.Status != run.Running {
		t.Error(r.Status)
	}
	b.write(old.Ended(1, run.Failed, 0))
	next(ItemEvent)
	if s := next(ItemSessionUpdated).Data.(run.Session); s.Status != run.SessionFailed {
		t.Error(s.Status)
	}
	if r := next(ItemRunUpdated).Data.(run.Run); r.Status != run.Failed || r.Error.Code != "command_failed" {
		t.Error(r)
	}
	next(ItemRunFailed)
	b.write(old.Deleted())
	if d := next(ItemSessionDeleted).Data.(Deleted); d.SessionID != "ses_old" {
		t.Error(d)
	}
	if err := b.Stream(t.Context(), "ses_none", "", nil); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	for _, after := range []string{"x", "1", "1-", "-1", "1-2.x", "1-2.-1", "1-2-3", "1-2.99",
		"9999999999999999999999-1", strings.Repeat("1", 99)} {
		if err := b.Stream(t.Context(), "", after, nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("position %q: %v", after, err)
		}
	}
}

func TestTruncatedPositionIsAGap(t *testing.T) {
	b := start(t, projection.Config{})
	_, last := b.scene()
	if err := b.bus.Purge(t.Context(), subject.Runs, subject.AllRuns, 10); err != nil {
		t.Fatal(err)
	}
	for _, after := range []string{"3-1", "999999-1", "12-9999"} {
		items := b.read("", after, "", 2)
		if items[0].Event != ItemGap || items[1].Event != ItemInit {
			t.Errorf("from %s: %s, %s", after, name(items[0]), name(items[1]))
		}
	}
	if items := b.read("", "9-1", last, 1); items[0].Event == ItemGap {
		t.Error("a gap where nothing is missing")
	}
}

func TestEndRecordNamesMissingEvents(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor("ses_a")
	seq := b.write(a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 1<<40))
	items := b.read("", PositionBefore(1), fmt.Sprintf("%d-0", seq), 0)
	if e := eventsOf(items); len(e) != 3 {
		t.Errorf("%d events", len(e))
	}
	if list, _, err := b.Events(t.Context(), "ses_a", "", 0); err != nil || len(list) != 3 {
		t.Error(list, err)
	}
}

func TestEventPages(t *testing.T) {
	b := start(t, projection.Config{})
	sessions, _ := b.scene()
	for _, session := range sessions {
		all, end, err := b.Events(t.Context(), session, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		inOrder(t, all)
		want := string(must(json.Marshal(all)))
		for limit := 1; limit <= len(all); limit++ {
			var got []run.Event
			after := ""
			for {
				list, next, err := b.Events(t.Context(), session, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, list...)
				after = next
				if len(list) == 0 {
					break
				}
			}
			if g := string(must(json.Marshal(got))); g != want || after != end {
				t.Errorf("%s by %d, to %s:\ngot  %s\nwant %s, to %s", session, limit, after, g, want, end)
			}
		}
		items := b.read(session, PositionBefore(1), end, 0)
		if g := string(must(json.Marshal(eventsOf(items)))); g != want {
			t.Errorf("the stream has\n%s\nthe list\n%s", g, want)
		}
	}
	if _, _, err := b.Events(t.Context(), "ses_none", "", 1); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	for _, after := range []string{"x", "1-2-3"} {
		if _, _, err := b.Events(t.Context(), sessions[0], after, 1); fault.KindOf(err) != fault.Invalid {
			t.Error(after, err)
		}
	}
	if _, _, err := b.Events(t.Context(), sessions[0], "", 1001); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}
