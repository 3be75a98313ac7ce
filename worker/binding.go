package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"ao/nats/bus"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// maxExecutorSession is the longest executor session id, in bytes.
const maxExecutorSession = 1 << 10

// binding is what an attempt's executor bound: its own session id, or the state that it keeps. The first one counts,
// as the stream accepts only one.
type binding struct {
	mu   sync.Mutex
	id   string
	done chan struct{} // closed: the record is committed, or never will be
}

// onBind starts to append what the executor bound, and does not wait for it.
func (e *events) onBind(body json.RawMessage) {
	l, ok, err := executor.ReadLine(body)
	switch {
	case !ok || err != nil || l.Type != executor.LineBind:
		e.log.Warn("executor's bind line is unreadable, ignored", "run", e.attempt, "err", err)
		return
	case len(l.Session) > maxExecutorSession:
		e.log.Warn("executor's session id is too long, ignored; the session cannot be resumed by it", "run", e.attempt,
			"bytes", len(l.Session))
		return
	}
	if err := e.binding.check(l.Session); err != nil {
		e.log.Warn("executor's bind line ignored", "run", e.attempt, "err", err)
		return
	}
	e.startBinding(l.Session)
}

// startBinding starts to append the record, unless that has begun. done is closed when the record is committed, or
// never will be.
func (e *events) startBinding(model string) (done chan struct{}) {
	return e.binding.startWrite(model, func() { e.appendBinding(model) })
}

// startWrite appends the record in a goroutine, unless one does already or another id counts. done is closed when the
// record is committed, or never will be.
func (b *binding) startWrite(model string, write func()) (done chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.id = cmp.Or(b.id, model)
	if b.id == model && b.done == nil {
		b.done = make(chan struct{})
		go func() {
			defer close(b.done)
			write()
		}()
	}
	return b.done
}

// check reports whether the attempt's executor can still bind this session id.
func (b *binding) check(model string) error {
	if len(model) > maxExecutorSession {
		return fault.Newf(fault.Invalid, "executor_session_id is too long: at most %d bytes, got %d",
			maxExecutorSession, len(model)).With("field", "executor_session_id")
	}
	if runnerapi.IsStatePointer(model) {
		return fault.New(fault.Invalid,
			"", "executor_session_id must not begin with state:, the prefix of kept states").
			With("field", "executor_session_id")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case runnerapi.IsStatePointer(b.id):
		return fault.New(fault.Conflict,
			"", "this run keeps a state with the worker, so it cannot bind an executor session as well").
			With("field", "executor_session_id")
	case b.id != "" && b.id != model:
		return fault.New(fault.Conflict, "", "this run is bound to another executor session; the first one counts").
			With("field", "executor_session_id")
	}
	return nil
}

// reserve binds the attempt to a state and to nothing else. free undoes that unless the record is being written.
func (b *binding) reserve(pointer string) (free func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.id != "" && b.id != pointer {
		return nil,
			fault.New(fault.Conflict, "", "this run is bound to an executor session, so it cannot keep a state as well")
	}
	b.id = pointer
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.done == nil {
			b.id = ""
		}
	}, nil
}

// appendBinding appends the record and retries until it is committed or the attempt needs no more records.
func (e *events) appendBinding(model string) {
	entry, err := e.records.binding(e.attempt, model)
	if err != nil {
		e.log.Error("bind", "run", e.attempt, "err", err)
		return
	}
	own := func(there []byte) bool { return string(there) == string(entry.Body) }
	_, err = appendWithRetry(e.attempt.recordCtx, e.bus, entry, own, func(_ int, err error) {
		e.log.Debug("binding not written yet, retrying", "run", e.attempt, "err", err)
	})
	if errors.Is(err, bus.ErrTaken) {
		e.log.Warn("attempt is already bound by another record", "run", e.attempt)
	}
}

// waitWritten waits for the binding. It must precede the end record, or the session's next turn would not know it.
func (b *binding) waitWritten() {
	b.mu.Lock()
	done := b.done
	b.mu.Unlock()
	if done != nil {
		<-done
	}
}

// events appends the events that an executor reports for a run.
type events struct {
	attempt *attempt
	bus     *bus.Bus
	log     *slog.Logger
	remote  *remoteSettings
	records *recordBuilder
	canPack bool // all coordinators could read packs when the attempt was claimed

	binding   binding
	limit     eventLimit // of what mu guards
	state     *sessionState
	mu        sync.Mutex
	emitter   *bus.Emitter
	dropped   int
	oversized int    // size in bytes of the last event that was too large
	work      bool   // an event showed work
	onBegun   func() // called with the first such event
}
