package projection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// entry is a record, as coordinators and workers write it.
type entry = bus.Entry

var began = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func body(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// actor writes the records of one run.
type actor struct {
	t    testing.TB
	spec run.Spec
	part string
}

func newActor(t testing.TB, id, session, agent string) actor {
	spec := run.Spec{
		ID: id, Type: run.Start, SessionID: session, Agent: agent, AgentType: run.Procedural, Mode: run.AsyncPoll,
		Timeout: 300, TimeoutBy: "default",
		CreatedAt: began, Input: &run.Input{Parameters: json.RawMessage(`{"z":1,"a":"` + id + ` \"}{"}`),
			Blueprint: json.RawMessage(`{"name":"` + agent + `","status":"active"}`)},
	}
	if strings.HasSuffix(id, "1") { // some callers trace
		spec.Trace = &run.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
	}
	return actor{t, spec, subject.Partition(session)}
}

func (a actor) key(attempt int) string { return keyOf(a.spec.ID, attempt) }

func (a actor) queued(attempt int) entry {
	return entry{
		Subject: subject.Queued(a.part, "procedural._._", a.spec.ID, attempt),
		Body:    body(a.t, run.Queued{V: 1, Attempt: attempt, Key: a.key(attempt), Spec: a.spec}),
	}
}

// elsewhere queues an attempt in another queue.
func (a actor) elsewhere(attempt int, queue string) entry {
	return entry{Subject: subject.Queued(a.part, queue, a.spec.ID, attempt), Body: a.queued(attempt).Body}
}

func (a actor) accepted() entry {
	return entry{
		Subject: subject.Accepted(a.part, a.spec.SessionID, a.spec.ID),
		Body:    body(a.t, run.Accepted{V: 1, Spec: a.spec}),
	}
}

func (a actor) claimed(attempt int) entry {
	c := run.Claim{
		V:         1,
		SessionID: a.spec.SessionID,
		RunnerID:  "rnr_1",
		Instance:  "i",
		Nonce:     "n",
		Attempt:   attempt,
		At:        began.Add(time.Second),
	}
	return entry{Subject: subject.Claimed(a.part, a.spec.ID, a.key(attempt)), Body: body(a.t, c)}
}

func (a actor) bound(attempt int, model string) entry {
	b := run.Bound{
		V:                 1,
		SessionID:         a.spec.SessionID,
		RunnerID:          "rnr_1",
		Attempt:           attempt,
		ExecutorSessionID: model,
		Hostname:          "h",
		Profile:           "p",
		At:                began,
	}
	return entry{Subject: subject.Bound(a.part, a.spec.ID, a.key(attempt)), Body: body(a.t, b)}
}

func (a actor) stopping() entry {
	return entry{
		Subject: subject.Stopping(a.part, a.spec.ID),
		Body:    body(a.t, run.Stop{V: 1, SessionID: a.spec.SessionID, At: began}),
	}
}

func (a actor) ended(attempt int, s run.Status, events uint64) entry {
	at := began.Add(2 * time.Second)
	e := run.Ended{
		V:         1,
		SessionID: a.spec.SessionID,
		RunnerID:  "rnr_1",
		Nonce:     "n",
		Attempt:   attempt,
		Status:    s,
		Events:    events,
		StartedAt: &at,
		At:        began.Add(3 * time.Second),
	}
	code := 0
	switch s {
	case run.Completed:
		e.Result = &run.Result{Type: run.Procedural, Data: json.RawMessage(`{"ok":true}`), ExitCode: &code}
	case run.Failed:
		e.Error = fault.New(fault.Internal, "exit", "Process exited with code 1").With("exit_code", 1)
	}
	return entry{Subject: subject.Ended(a.part, a.spec.ID, a.key(attempt)), Body: body(a.t, e)}
}

// contract gives the run an output schema.
func (a *actor) contract() {
	a.spec.HasOutputSchema = true
	a.spec.Output = &run.Output{Schema: json.RawMessage(`{"type":"object"}`), Source: run.SourceBlueprint, Retries: 1}
}

// offered is the unverified result of the worker (record kind offered).
func (a actor) offered(attempt int) entry {
	e := a.ended(attempt, run.Completed, 0)
	e.Subject = subject.Offered(a.part, a.spec.ID, a.key(attempt))
	return e
}

// checked is a coordinator's end record after an unverified result.
func (a actor) checked(attempt int, mark string) entry {
	e := run.Ended{
		V:         1,
		SessionID: a.spec.SessionID,
		Nonce:     "n",
		Attempt:   attempt,
		Status:    run.Completed,
		Checked:   mark,
		At:        began.Add(4 * time.Second),
		Result:    &run.Result{Type: run.Autonomous, Data: json.RawMessage(`{"ok":true}`)},
	}
	return entry{Subject: subject.Ended(a.part, a.spec.ID, a.key(attempt)), Body: body(a.t, e)}
}

// markOf is what coordinators prove with that they have checked a result; marked reports whether it is that.
func signed(id string, attempt int) string            { return fmt.Sprint("mark of ", id, " ", attempt) }
func marked(id string, attempt int, mark string) bool { return mark == signed(id, attempt) }

// blank is a reducer of a deployment.
func blank() *reducer {
	f := newReducer(keyOf)
	f.checked = marked
	return f
}

func (a actor) deleted() entry {
	return entry{Subject: subject.Deleted(a.part, a.spec.SessionID), Body: body(a.t, run.Deleted{V: 1, At: began})}
}

func (a actor) event(n int) entry {
	e := run.Event{
		Type:      run.EventMessage,
		SessionID: a.spec.SessionID,
		RunID:     a.spec.ID,
		At:        began,
		Body:      run.TextMessage("assistant", fmt.Sprint(a.spec.ID, " says ", n)),
	}
	return entry{Subject: subject.Event(a.part, a.spec.SessionID, a.spec.ID, run.EventMessage), Body: body(a.t, e)}
}

func message(seq int, e entry) Record {
	return Record{Seq: uint64(seq), Subject: e.Subject, Body: e.Body, Time: began}
}

func reduced(t testing.TB, records []entry) *reducer {
	t.Helper()
	return reducedWith(t, nil, records)
}

func reducedWith(t testing.TB, key func(string, int) string, records []entry) *reducer {
	t.Helper()
	f := newReducer(key)
	f.checked = marked
	for i, e := range records {
		if _, err := f.apply(message(i+1, e)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// draw shows what readers see of a projection; runs and sessions by id, no sequences.
func draw(f *reducer) string {
	var lines []string
	for _, r := range f.runs {
		s := runViewOf(f, r)
		lines = append(
			lines,
			fmt.Sprintf(
				"%s %s %s attempt=%d runner=%s claimed=%d started=%d ended=%d",
				s.id,
				s.sessionID,
				s.status,
				s.Attempt,
				s.Runner,
				s.Claimed,
				s.Started,
				s.Ended,
			),
		)
		lines = append(
			lines,
			fmt.Sprintf(
				"%s calls %s begun=%t",
				s.id,
				must(json.Marshal([]any{s.calls.orphan, s.calls.parent, s.calls.http})),
				s.ClaimedByRunner,
			),
		)
		if a := s.snap; a != nil {
			lines = append(
				lines,
				fmt.Sprintf(
					"%s open=%t queue=%s key=%s stopping=%t offered=%t spec=%s",
					s.id,
					a.open(),
					a.Queue,
					a.Key,
					a.Stopping,
					a.UnverifiedSeq != 0,
					must(json.Marshal(a.Spec)),
				),
			)
		}
	}
	for _, s := range f.sessions {
		lines = append(lines, string(must(json.Marshal(sessionOf(f, s)))))
		if s.everClaimed() || len(s.live) > 0 { // no other session can go on
			lines = append(lines, s.sessionID()+" model="+fmt.Sprint(s.binding()))
		}
	}
	for id := range f.deleted {
		lines = append(lines, "deleted "+id.text(sessionPrefix))
	}
	for id, p := range f.callbacks.reserved {
		lines = append(lines, fmt.Sprint("promised ", id.text(runPrefix), " ", p.session, " ", len(p.children)))
	}
	lines = append(lines, fmt.Sprint("counts ", f.waiting, f.claimed, f.ended))
	return sorted(lines)
}

func sorted(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}
