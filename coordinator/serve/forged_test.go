package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// forge writes into EVENTS what a worker's credential lets it write.
func (s *stack) forge(at, kind, session, id, text string) {
	s.t.Helper()
	e := run.Event{Type: kind, SessionID: session, RunID: id, At: time.Now(), Body: run.TextMessage("assistant", text)}
	raw, err := json.Marshal(e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.emit(at, raw)
}

func (s *stack) emit(at string, raw []byte) {
	s.t.Helper()
	out := s.bus.Emitter(context.Background(), nil)
	if err := out.Emit(context.Background(), at, raw); err != nil {
		s.t.Fatal(err)
	}
	if _, err := out.Flush(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

// TestForgedEvents: a worker writes events under the sessions of others. None is shown that workers may not write, that
// contradicts its subject, or whose run is not active. If the run's own worker signs its events, an unsigned one is not
// shown either.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(map[bool]string{false: "a worker that proves", true: "a worker of an older version"}[old],
			func(t *testing.T) {
				t.Parallel()
				forgedEvents(t, old)
			})
	}
}

func forgedEvents(t *testing.T, old bool) {
	s := start(t)
	var w *worker
	started, gate := make(chan run.Queued, 1), make(chan struct{})
	ready := make(chan struct{})
	w = s.workAs(thinker("minds"), func(q run.Queued) run.Outcome {
		<-ready
		w.message(q, "true, first")
		started <- q
		<-gate
		w.message(q, "true, two", "true, last")
		return done(`"the end"`)
	})
	w.old = old
	close(ready)
	s.post("/agents", `{"name":"mind"}`).want(201)
	s.post("/agents", `{"name":"nowhere","executor_profile":"none"}`).want(201)
	waits := s.submit(`{"agent_name":"nowhere","prompt":"x"}`)
	acc := s.submit(`{"agent_name":"mind","prompt":"x"}`)
	q := <-started
	next, hangUp := s.listen("GET", "/sse/sessions", "")
	defer hangUp()

	part := subject.Partition(q.SessionID)
	own := func(kind string) string { return subject.Event(part, q.SessionID, q.ID, kind) }
	for _, kind := range []string{run.EventStart, run.EventResult, run.EventCompleted, run.EventFailed,
		run.EventStopped, "odd", "error", "init"} {
		s.forge(own(kind), kind, q.SessionID, q.ID, "forged")
		s.forge(own(run.EventMessage), kind, q.SessionID, q.ID, "forged")
		s.forge(own(kind), run.EventMessage, q.SessionID, q.ID, "forged")
	}
	s.forge(own(run.EventMessage), run.EventMessage, waits.SessionID, q.ID, "forged")
	s.forge(own(run.EventMessage), run.EventMessage, q.SessionID, waits.RunID, "forged")
	s.forge(subject.Event(part, q.SessionID, waits.RunID, run.EventMessage), run.EventMessage, q.SessionID, waits.RunID,
		"forged")
	s.forge(subject.Event(part, q.SessionID, "run_nobodys", run.EventMessage), run.EventMessage, q.SessionID,
		"run_nobodys", "forged")
	s.forge(subject.Event(part, q.SessionID, waits.RunID, run.EventMessage), run.EventMessage, q.SessionID, q.ID,
		"forged")
	other := subject.Partition(waits.SessionID)
	s.forge(subject.Event(other, waits.SessionID, q.ID, run.EventMessage), run.EventMessage, q.SessionID, q.ID,
		"forged")
	s.forge(subject.Event(other, waits.SessionID, q.ID, run.EventMessage), run.EventMessage, waits.SessionID, q.ID,
		"forged")
	s.forge(subject.Event(other, waits.SessionID, waits.RunID, run.EventMessage), run.EventMessage, waits.SessionID,
		waits.RunID, "forged")
	if part != "63" {
		s.forge(subject.Event("63", q.SessionID, q.ID, run.EventMessage), run.EventMessage, q.SessionID, q.ID, "forged")
	}
	packs := func(at string, events ...run.Event) []byte {
		var all [][]byte
		for _, e := range events {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, raw)
		}
		return run.SignEvent(q.Key, at, run.Pack(all))
	}
	event := func(kind, session, id string) run.Event {
		return run.Event{Type: kind, SessionID: session, RunID: id, At: time.Now(),
			Body: run.TextMessage("assistant", "forged")}
	}
	mine, pack := event(run.EventMessage, q.SessionID, q.ID), own(run.PackKind)
	for _, theirs := range []run.Event{event(run.EventMessage, waits.SessionID, waits.RunID),
		event(run.EventMessage, q.SessionID, waits.RunID), event(run.EventResult, q.SessionID, q.ID),
		event(run.PackKind, q.SessionID, q.ID)} {
		s.emit(pack, packs(pack, mine, theirs))
	}
	s.emit(subject.Event(other, waits.SessionID, waits.RunID, run.PackKind),
		packs(subject.Event(other, waits.SessionID, waits.RunID, run.PackKind),
			event(run.EventMessage, waits.SessionID, waits.RunID)))
	s.emit(own(run.EventMessage), packs(own(run.EventMessage), mine, mine))
	s.emit(pack, packs(own(run.EventMessage), mine, mine)) // proven for another subject
	s.emit(pack, run.Pack([][]byte{packs(pack, mine)}))
	s.emit(pack, []byte(`{"events":[`+strings.Repeat("{},", 100_000)+`{}]}`))
	s.emit(pack, []byte(strings.Repeat(`{"events":[`, 50_000)))
	s.emit(pack, run.SignEvent("a guess", pack, run.Pack([][]byte{packs(pack, mine)[:1]})))
	if !old { // who knows both ids, and not the key
		s.forge(own(run.EventMessage), run.EventMessage, q.SessionID, q.ID, "forged")
		raw, _ := json.Marshal(run.Event{Type: run.EventMessage, SessionID: q.SessionID, RunID: q.ID, At: time.Now(),
			Body: run.TextMessage("assistant", "forged")})
		s.emit(own(run.EventMessage), run.SignEvent("a guess", own(run.EventMessage), raw))
	}
	close(gate)
	s.until(acc.RunID, run.Completed)
	s.forge(own(run.EventMessage), run.EventMessage, q.SessionID, q.ID, "forged")
	s.post("/runs/"+waits.RunID+"/stop", "").want(200)

	want := "run_start, message true, first, message true, two, message true, last, result, run_completed"
	wantLive := "message, message, result, run_completed, run_stopped"
	if old { // its worker knows no packs, and one without a proof is nobody's
		want, wantLive = "run_start, message true, first, result, run_completed", "result, run_completed, run_stopped"
	}
	shown := func(events []run.Event) string {
		var all []string
		for _, e := range events {
			if text := textIn(e); text != "" {
				all = append(all, e.Type+" "+text)
			} else {
				all = append(all, e.Type)
			}
		}
		return strings.Join(all, ", ")
	}
	list := into[struct{ Events []run.Event }](s.get("/sessions/"+acc.SessionID+"/events"), 200)
	if got := shown(list.Events); got != want {
		t.Errorf("the list\n got %s\nwant %s", got, want)
	}
	rest := into[struct{ Events []run.Event }](s.get("/sessions/"+waits.SessionID+"/events"), 200)
	if got := shown(rest.Events); got != "run_stopped" {
		t.Errorf("the other session: %s", got)
	}
	var live []string
	for {
		e, ok := next()
		if !ok {
			t.Fatalf("the stream ended after %q", live)
		}
		if strings.Contains(e.data, "forged") {
			t.Errorf("the stream shows %s", e.data)
		}
		if e.name == "event" {
			var one run.Event
			if err := json.Unmarshal([]byte(e.data), &one); err != nil {
				t.Fatal(err)
			}
			live = append(live, one.Type)
		}
		if slices.Contains(live, run.EventStopped) {
			break
		}
	}
	if got := strings.Join(live, ", "); got != wantLive {
		t.Errorf("the stream has %s", got)
	}
}

// textIn is the text of a message; empty for anything else.
func textIn(e run.Event) string {
	var m run.Message
	if json.Unmarshal(e.Body, &m) != nil || len(m.Content) == 0 {
		return ""
	}
	return fmt.Sprint(m.Content[0].Text)
}

// TestEventsOfARetriedRun: those of its earlier attempts are shown although the last one emitted nothing.
func TestEventsOfARetriedRun(t *testing.T) {
	t.Parallel()
	s := start(t)
	var w *worker
	ready := make(chan struct{})
	w = s.workAs(thinker("minds"), func(q run.Queued) run.Outcome {
		<-ready
		if q.Attempt == 1 {
			w.message(q, "I fail")
			return run.Outcome{Status: run.Failed}
		}
		return done(`1`)
	})
	close(ready)
	s.post("/agents", `{"name":"mind"}`).want(201)
	acc := s.submit(`{"agent_name":"mind","prompt":"x","max_attempts":2}`)
	s.until(acc.RunID, run.Completed)
	if g := s.get("/sessions/" + acc.SessionID + "/events"); !strings.Contains(g.body, "I fail") {
		t.Errorf("got %s", g.body)
	}
}
