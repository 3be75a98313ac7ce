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
	"ao/shared/strictjson"
)

// maxEvent is the largest event, in bytes; an event must fit into one message.
const maxEvent = 512 << 10

// emit appends an event. It waits while too many are unwritten; once the executor must end, further events are dropped.
func (e *events) emit(ctx context.Context, kind string, body json.RawMessage) {
	if kind == executor.LineBind {
		e.onBind(body)
		return
	}
	if !slices.Contains(run.ReportedKinds, kind) {
		e.log.Warn("executor's event has an unknown kind, dropped", "run", e.attempt, "kind", kind)
		text := fmt.Sprintf("an event of the unknown kind %.80q is dropped; known kinds: %s", kind,
			strings.Join(run.ReportedKinds, ", "))
		kind, body = run.EventMessage, run.TextMessage("system", text)
	}
	raw, err := e.encode(kind, body)
	if len(raw) > maxEvent {
		e.dropOversized(ctx, len(raw))
		return
	}
	if err != nil {
		e.log.Warn("executor's event is unreadable, dropped", "run", e.attempt, "kind", kind, "err", err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.work && showsWork(kind, body) {
		e.work = true
		if e.onBegun != nil {
			e.onBegun()
		}
	}
	if e.dropped > 0 {
		e.dropped++
		return
	}
	if !e.limit.admit(kind, len(raw)) {
		return
	}
	e.sendNote(ctx)
	e.append(ctx, kind, raw)
}

// encode returns an event as JSON.
func (e *events) encode(kind string, body json.RawMessage) ([]byte, error) {
	return strictjson.Encode(run.Event{Type: kind, SessionID: e.attempt.SessionID, RunID: e.attempt.ID,
		At: time.Now().UTC(), Body: body})
}

// append appends an event. The caller holds mu.
func (e *events) append(ctx context.Context, kind string, raw []byte) {
	if e.emitter == nil {
		e.emitter = e.bus.Emitter(e.attempt.recordCtx, e.message)
	}
	if err := e.send(ctx, bus.Entry{Subject: e.subject(kind), Body: raw}); err != nil {
		e.dropped++
	}
}

// sendNote tells the session's readers how many events were left out, if any were. The caller holds mu.
func (e *events) sendNote(ctx context.Context) {
	text, ok := e.limit.takeNote()
	if !ok {
		return
	}
	e.log.Warn("events were left out", "run", e.attempt, "why", text)
	raw, err := e.encode(run.EventMessage, run.TextMessage("system", text))
	if err != nil {
		return
	}
	e.append(ctx, run.EventMessage, raw)
}

// showsWork reports whether an event is a model's or a tool's, not just a message about the run.
func showsWork(kind string, body json.RawMessage) bool {
	var m struct {
		Role string `json:"role"`
	}
	return kind == run.EventPreTool || kind == run.EventPostTool ||
		kind == run.EventMessage && json.Unmarshal(body, &m) == nil && m.Role != "system"
}

// begun reports whether an event showed work.
func (e *events) begun() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.work
}

// send appends an event, packed with others where all coordinators can read packs. The caller holds mu.
func (e *events) send(ctx context.Context, event bus.Entry) error {
	if e.canPack && e.remote.canPack() {
		return e.emitter.EmitPacked(ctx, event)
	}
	alone := e.message([]bus.Entry{event})
	return e.emitter.Emit(ctx, alone.Subject, alone.Body)
}

// message makes the message of one event, or of several in a pack, with the attempt's proof.
func (e *events) message(all []bus.Entry) bus.Entry {
	m := all[0]
	if len(all) > 1 {
		bodies := make([][]byte, len(all))
		for i, event := range all {
			bodies[i] = event.Body
		}
		m = bus.Entry{Subject: e.subject(run.PackKind), Body: run.Pack(bodies)}
	}
	m.Body = run.SignEvent(e.attempt.Key, m.Subject, m.Body)
	return m
}

func (e *events) subject(kind string) string {
	return subject.Event(e.attempt.partition, e.attempt.SessionID, e.attempt.ID, kind)
}

// dropOversized tells the session's readers that an event was too large, and remembers its size.
func (e *events) dropOversized(ctx context.Context, bytes int) {
	e.mu.Lock()
	e.oversized = bytes
	e.mu.Unlock()
	e.emit(ctx, run.EventMessage, run.TextMessage("system",
		fmt.Sprintf("an event of %d bytes is dropped; the limit is %d", bytes, maxEvent)))
}

// oversizedFault returns why a run without a result fails: its result may have been in an event that was dropped as
// too large.
func (e *events) oversizedFault() *fault.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.oversized == 0 {
		return nil
	}
	return fault.New(fault.Internal, "event_too_large", fmt.Sprintf(
		"the run gave no result, and an event of %d bytes was dropped (limit %d); return large data as the result",
		e.oversized, maxEvent)).With("size", e.oversized).With("limit", maxEvent)
}

// flush waits until every event and the binding are written, and returns the last event's sequence; 0: none.
func (e *events) flush(ctx context.Context) uint64 {
	e.binding.waitWritten()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped == 0 {
		e.sendNote(ctx)
	}
	if e.emitter == nil {
		return 0
	}
	seq, err := e.emitter.Flush(ctx)
	if err != nil || e.dropped > 1 {
		e.log.Warn("not all events were written", "run", e.attempt, "left_out", max(e.dropped-1, 0), "err", err)
	}
	return seq
}
