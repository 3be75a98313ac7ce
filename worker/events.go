package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
)

// maxEvent is the largest event, in bytes; it must fit into one message.
const maxEvent = 512 << 10

// emit writes an event. It waits while too much is not written yet, until the executor is to end; what comes then is left out.
func (e *events) emit(ctx context.Context, kind string, body json.RawMessage) {
	if kind == executor.LineBind {
		e.bind(body)
		return
	}
	if !slices.Contains(run.ToldKinds, kind) {
		e.log.Warn("an executor's event is of no known kind and left out", "run", e.a, "kind", kind)
		say := fmt.Sprintf("An event of the kind %.80q is left out: executors tell %s", kind, strings.Join(run.ToldKinds, ", "))
		kind, body = run.EventMessage, run.Say("system", say)
	}
	ev := run.Event{Type: kind, SessionID: e.a.SessionID, RunID: e.a.ID, At: time.Now().UTC(), Body: body}
	raw, err := json.Marshal(ev)
	if len(raw) > maxEvent {
		e.leftOut(ctx, len(raw))
		return
	}
	if err != nil {
		e.log.Warn("an executor's event is not readable and left out", "run", e.a, "kind", kind, "err", err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost > 0 {
		e.lost++
		return
	}
	if e.out == nil {
		e.out = e.bus.PackingEmitter(e.a.wanted, e.seal)
	}
	if err := e.send(ctx, bus.Entry{Subject: e.at(ev.Type), Body: raw}); err != nil {
		e.lost++
	}
}

// send sends an event, with others where all can read that. The caller holds mu.
func (e *events) send(ctx context.Context, event bus.Entry) error {
	if e.packs && e.terms.packs() {
		return e.out.EmitPacked(ctx, event)
	}
	alone := e.seal([]bus.Entry{event})
	return e.out.Emit(ctx, alone.Subject, alone.Body)
}

// seal makes the message of an event, or of several that go together, with the attempt's proof.
func (e *events) seal(all []bus.Entry) bus.Entry {
	m := all[0]
	if len(all) > 1 {
		bodies := make([][]byte, len(all))
		for i, event := range all {
			bodies[i] = event.Body
		}
		m = bus.Entry{Subject: e.at(run.PackKind), Body: run.Pack(bodies)}
	}
	m.Body = run.Prove(e.a.Key, m.Subject, m.Body)
	return m
}

// at is where the attempt's events of a kind go.
func (e *events) at(kind string) string {
	return subject.Event(e.a.partition, e.a.SessionID, e.a.ID, kind)
}

// leftOut tells the session's readers that an event was too large, and keeps it in mind.
func (e *events) leftOut(ctx context.Context, bytes int) {
	e.mu.Lock()
	e.large = bytes
	e.mu.Unlock()
	e.emit(ctx, run.EventMessage, run.Say("system", fmt.Sprintf("An event of %d bytes is left out; it may have %d", bytes, maxEvent)))
}

// unsaid is why a run that gave no result has failed all the same: what it had to say may stand in an event that was left out.
func (e *events) unsaid() *fault.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.large == 0 {
		return nil
	}
	return fault.New(fault.Internal, "event_too_large", fmt.Sprintf(
		"The run gave no result, and an event of %d bytes was left out; an event may have %d: give what is larger as the result", e.large, maxEvent)).
		With("size", e.large).With("limit", maxEvent)
}

// flush waits until every event and what was bound is written and gives the last one's sequence, 0 where there is none.
func (e *events) flush(ctx context.Context) uint64 {
	e.bond.settled()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.out == nil {
		return 0
	}
	seq, err := e.out.Flush(ctx)
	if err != nil || e.lost > 1 {
		e.log.Warn("not all events are written", "run", e.a, "left_out", max(e.lost-1, 0), "err", err)
	}
	return seq
}
