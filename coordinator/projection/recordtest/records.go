// Package recordtest writes the records of runs, as coordinators and workers do, for tests of the projection.
package recordtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Entry is a record, as coordinators and workers write it.
type Entry = bus.Entry

// Began is when all runs were accepted.
var Began = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// Body is a record as JSON.
func Body(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := strictjson.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Actor writes the records of one run.
type Actor struct {
	t    testing.TB
	Spec run.Spec
	Part string
}

// NewActor returns the writer of a run's records. Parameters, agent and times are always the same.
func NewActor(t testing.TB, id, session, agent string) Actor {
	spec := run.Spec{
		ID: id, Type: run.Start, SessionID: session, Agent: agent, AgentType: run.Procedural, Mode: run.AsyncPoll,
		Timeout: 300, TimeoutBy: "default",
		CreatedAt: Began, Input: &run.Input{Parameters: json.RawMessage(`{"z":1,"a":"` + id + ` \"}{"}`),
			Blueprint: json.RawMessage(`{"name":"` + agent + `","status":"active"}`)},
	}
	if strings.HasSuffix(id, "1") { // some callers trace
		spec.Trace = &run.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
	}
	return Actor{t, spec, subject.Partition(session)}
}

// Key is the key of an attempt.
func (a Actor) Key(attempt int) string { return KeyOf(a.Spec.ID, attempt) }

// Queued queues an attempt.
func (a Actor) Queued(attempt int) Entry {
	return Entry{
		Subject: subject.Queued(a.Part, "procedural._._", a.Spec.ID, attempt),
		Body:    Body(a.t, run.Queued{V: 1, Attempt: attempt, Key: a.Key(attempt), Spec: a.Spec}),
	}
}

// Elsewhere queues an attempt in another queue.
func (a Actor) Elsewhere(attempt int, queue string) Entry {
	return Entry{Subject: subject.Queued(a.Part, queue, a.Spec.ID, attempt), Body: a.Queued(attempt).Body}
}

// Accepted accepts the run, which waits.
func (a Actor) Accepted() Entry {
	return Entry{
		Subject: subject.Accepted(a.Part, a.Spec.SessionID, a.Spec.ID),
		Body:    Body(a.t, run.Accepted{V: 1, Spec: a.Spec}),
	}
}

// Claimed claims an attempt for runner rnr_1.
func (a Actor) Claimed(attempt int) Entry {
	c := run.Claim{
		V:         1,
		SessionID: a.Spec.SessionID,
		RunnerID:  "rnr_1",
		Instance:  "i",
		Nonce:     "n",
		Attempt:   attempt,
		At:        Began.Add(time.Second),
	}
	return Entry{Subject: subject.Claimed(a.Part, a.Spec.ID, a.Key(attempt)), Body: Body(a.t, c)}
}

// Bound binds the session to an executor's.
func (a Actor) Bound(attempt int, model string) Entry {
	b := run.Bound{
		V:                 1,
		SessionID:         a.Spec.SessionID,
		RunnerID:          "rnr_1",
		Attempt:           attempt,
		ExecutorSessionID: model,
		Hostname:          "h",
		Profile:           "p",
		At:                Began,
	}
	return Entry{Subject: subject.Bound(a.Part, a.Spec.ID, a.Key(attempt)), Body: Body(a.t, b)}
}

// Stopping asks for the run to be stopped.
func (a Actor) Stopping() Entry {
	return Entry{
		Subject: subject.Stopping(a.Part, a.Spec.ID),
		Body:    Body(a.t, run.Stop{V: 1, SessionID: a.Spec.SessionID, At: Began}),
	}
}

// Ended ends an attempt. events is the number of its last one.
func (a Actor) Ended(attempt int, s run.Status, events uint64) Entry {
	at := Began.Add(2 * time.Second)
	e := run.Ended{
		V:         1,
		SessionID: a.Spec.SessionID,
		RunnerID:  "rnr_1",
		Nonce:     "n",
		Attempt:   attempt,
		Status:    s,
		Events:    events,
		StartedAt: &at,
		At:        Began.Add(3 * time.Second),
	}
	code := 0
	switch s {
	case run.Completed:
		e.Result = &run.Result{Type: run.Procedural, Data: json.RawMessage(`{"ok":true}`), ExitCode: &code}
	case run.Failed:
		e.Error = fault.New(fault.Internal, "command_failed", "Process exited with code 1").With("exit_code", 1)
	}
	return Entry{Subject: subject.Ended(a.Part, a.Spec.ID, a.Key(attempt)), Body: Body(a.t, e)}
}

// Contract gives the run an output schema.
func (a *Actor) Contract() {
	a.Spec.HasOutputSchema = true
	a.Spec.Output = &run.Output{Schema: json.RawMessage(`{"type":"object"}`), Source: run.SourceBlueprint, Retries: 1}
}

// Offered is the unverified result of the worker (record kind offered).
func (a Actor) Offered(attempt int) Entry {
	e := a.Ended(attempt, run.Completed, 0)
	e.Subject = subject.Offered(a.Part, a.Spec.ID, a.Key(attempt))
	return e
}

// Checked is a coordinator's end record after an unverified result.
func (a Actor) Checked(attempt int, mark string) Entry {
	e := run.Ended{
		V:         1,
		SessionID: a.Spec.SessionID,
		Nonce:     "n",
		Attempt:   attempt,
		Status:    run.Completed,
		Checked:   mark,
		At:        Began.Add(4 * time.Second),
		Result:    &run.Result{Type: run.Autonomous, Data: json.RawMessage(`{"ok":true}`)},
	}
	return Entry{Subject: subject.Ended(a.Part, a.Spec.ID, a.Key(attempt)), Body: Body(a.t, e)}
}

// Deleted deletes the run's session.
func (a Actor) Deleted() Entry {
	return Entry{Subject: subject.Deleted(a.Part, a.Spec.SessionID), Body: Body(a.t, run.Deleted{V: 1, At: Began})}
}

// Event is a message of the run.
func (a Actor) Event(n int) Entry {
	e := run.Event{
		Type:      run.EventMessage,
		SessionID: a.Spec.SessionID,
		RunID:     a.Spec.ID,
		At:        Began,
		Body:      run.TextMessage("assistant", fmt.Sprint(a.Spec.ID, " says ", n)),
	}
	return Entry{Subject: subject.Event(a.Part, a.Spec.SessionID, a.Spec.ID, run.EventMessage), Body: Body(a.t, e)}
}

// Signed is what coordinators prove with that they have checked a result; Marked reports whether it is that.
func Signed(id string, attempt int) string { return fmt.Sprint("mark of ", id, " ", attempt) }

func Marked(id string, attempt int, mark string) bool { return mark == Signed(id, attempt) }

// Message is a record in the stream.
func Message(seq int, e Entry) stream.Message {
	return stream.Message{Seq: uint64(seq), Subject: e.Subject, Body: e.Body, Time: Began}
}

// Must panics if there is an error.
func Must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// KeyOf is the key of an attempt, as actors have it.
func KeyOf(run string, attempt int) string { return fmt.Sprintf("key%d%s", attempt, run) }

// Moved queues the attempt again, in another queue.
func (a Actor) Moved(attempt int, queue string) Entry {
	e := a.Queued(attempt)
	e.Subject = subject.Queued(a.Part, queue, a.Spec.ID, attempt)
	return e
}

// ClaimedBy is a claim of another.
func (a Actor) ClaimedBy(attempt int, runner string) Entry {
	e := a.Claimed(attempt)
	e.Body = Body(
		a.t,
		run.Claim{V: 1, SessionID: a.Spec.SessionID, RunnerID: runner, Nonce: "n", Attempt: attempt, At: Began},
	)
	return e
}

// Callback is the record of a turn that reports these children.
func (a Actor) Callback(children ...string) Entry {
	return Entry{
		Subject: subject.Callback(a.Part, a.Spec.SessionID, children[0], 0),
		Body:    Body(a.t, run.Callback{V: 1, RunID: a.Spec.ID, Children: children, At: Began}),
	}
}

// Notified is a step of the run's webhook.
func (a Actor) Notified(n int, status string) Entry {
	return Entry{
		Subject: subject.Notified(a.Part, a.Spec.ID, n),
		Body:    Body(a.t, run.Notified{V: 1, SessionID: a.Spec.SessionID, N: n, Status: status, At: Began}),
	}
}

// Pack is one message with events of the actor's run, as its worker writes it.
func (a Actor) Pack(attempt int, numbers ...int) Entry {
	var bodies [][]byte
	for _, n := range numbers {
		bodies = append(bodies, a.Event(n).Body)
	}
	at := subject.Event(a.Part, a.Spec.SessionID, a.Spec.ID, run.PackKind)
	return Entry{Subject: at, Body: run.SignEvent(a.Key(attempt), at, run.Pack(bodies))}
}

// Returnable queues an attempt that its runner may give back.
func (a Actor) Returnable(attempt int) Entry {
	e := a.Queued(attempt)
	e.Body = Body(a.t, run.Queued{V: 1, Attempt: attempt, Key: a.Key(attempt), Returnable: true, Spec: a.Spec})
	return e
}

// Returned is the end record of a runner that gives the run back, with this status.
func (a Actor) Returned(attempt int, s run.Status) Entry {
	return Entry{Subject: subject.Ended(a.Part, a.Spec.ID, a.Key(attempt)), Body: Body(a.t, run.Ended{V: 1,
		SessionID: a.Spec.SessionID, RunnerID: "rnr_1", Nonce: "n", Attempt: attempt, Status: s, Returned: true,
		At: Began})}
}

// DeletedBelow is a session's end as coordinators write it, with its parent.
func (a Actor) DeletedBelow(parent string) Entry {
	return Entry{
		Subject: subject.Deleted(a.Part, a.Spec.SessionID),
		Body:    Body(a.t, run.Deleted{V: 1, Parent: parent, At: Began}),
	}
}

// Plain is the three records of each of many runs.
func Plain(t testing.TB, runs int) (records []stream.Message) {
	a := NewActor(t, run.NewID(), run.NewSessionID(), "agent")
	for range runs {
		session := run.NewSessionID()
		new := strings.NewReplacer(a.Spec.ID, run.NewID(), a.Spec.SessionID, session,
			"ao.runs."+a.Part+".", "ao.runs."+subject.Partition(session)+".")
		for _, e := range []Entry{a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 0)} {
			m := Message(
				len(records)+1,
				Entry{Subject: new.Replace(e.Subject), Body: []byte(new.Replace(string(e.Body)))},
			)
			records = append(records, m)
		}
	}
	return records
}

// Raced reports whether this is a build with -race, which makes the reducer some thirty times slower.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok &&
		slices.ContainsFunc(
			info.Settings,
			func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" },
		)
}

// InVersion gives a record another version.
func InVersion(version int, e Entry) Entry {
	e.Body = []byte(strings.Replace(string(e.Body), `"v":1`, fmt.Sprintf(`"v":%d`, version), 1))
	return e
}

// Prompted returns the records of n ended runs with a prompt of a size. Their sequences are to be filled in.
func Prompted(t testing.TB, n, size int) (records []stream.Message) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(
		"the report must list every open finding of last week with its owner and a date please check the sources " +
			"first then compare prices for three vendors summarise what changed since the review and say which tests " +
			"fail why they fail what would mend them",
	)
	for i := range n {
		a := NewActor(t, run.NewID(), run.NewSessionID(), "researcher")
		var b strings.Builder
		for b.Len() < size {
			fmt.Fprintf(&b, "%s %x ", words[rng.IntN(len(words))], rng.IntN(1<<12))
		}
		a.Spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"` + b.String()[:size] + `"}`)}
		s := run.Completed
		if i%10 == 0 {
			s = run.Failed
		}
		for _, e := range []Entry{a.Queued(1), a.Claimed(1), a.Ended(1, s, 0)} {
			records = append(records, stream.Message{Subject: e.Subject, Body: e.Body, Time: Began})
		}
	}
	return records
}
