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

// maxModel is the longest session id of a model side, in bytes.
const maxModel = 1 << 10

// bond is what an attempt's executor bound: the model side's session id, or the state that it kept. The first one counts, as the stream
// takes one.
type bond struct {
	mu    sync.Mutex
	model string
	done  chan struct{} // closed: the record stands, or never will
}

// bind begins to write what the executor bound, and does not wait for it.
func (e *events) bind(body json.RawMessage) {
	l, ok, err := executor.ReadLine(body)
	switch {
	case !ok || err != nil || l.Type != executor.LineBind:
		e.log.Warn("what an executor bound is not readable and left out", "run", e.a, "err", err)
		return
	case len(l.Session) > maxModel:
		e.log.Warn("what an executor bound is too long and left out; the session cannot be resumed by it", "run", e.a, "bytes", len(l.Session))
		return
	}
	if err := e.bond.takes(l.Session); err != nil {
		e.log.Warn("what an executor bound is left out", "run", e.a, "err", err)
		return
	}
	e.write(l.Session)
}

// write begins to write the record, unless somebody has. done is closed when it stands, or never will.
func (e *events) write(model string) (done chan struct{}) {
	return e.bond.begin(model, func() { e.writeBond(model) })
}

// begin has the record written by a goroutine, unless it is written or another counts. done is closed when it stands, or never will.
func (b *bond) begin(model string, write func()) (done chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.model = cmp.Or(b.model, model); b.model == model && b.done == nil {
		b.done = make(chan struct{})
		go func() {
			defer close(b.done)
			write()
		}()
	}
	return b.done
}

// takes tells whether the attempt's executor can bind this session yet.
func (b *bond) takes(model string) error {
	if len(model) > maxModel {
		return fault.Newf(fault.Invalid, "executor_session_id may have %d bytes, not %d", maxModel, len(model)).With("field", "executor_session_id")
	}
	if runnerapi.IsStatePointer(model) {
		return fault.New(fault.Invalid, "", "executor_session_id must not begin with state:, which stands for what runs keep").With("field", "executor_session_id")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case runnerapi.IsStatePointer(b.model):
		return fault.New(fault.Conflict, "", "This run keeps its conversation here, and goes on by that; it cannot bind a session of a model side beside").With("field", "executor_session_id")
	case b.model != "" && b.model != model:
		return fault.New(fault.Conflict, "", "This run has bound another session before, and the first one counts").With("field", "executor_session_id")
	}
	return nil
}

// reserve has the attempt bound to a state, and to nothing else from now on; free takes that back as long as no record is written.
func (b *bond) reserve(pointer string) (free func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.model != "" && b.model != pointer {
		return nil, fault.New(fault.Conflict, "", "This run has bound a session of a model side, and goes on by that; it cannot keep a state beside")
	}
	b.model = pointer
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.done == nil {
			b.model = ""
		}
	}, nil
}

// writeBond writes the record, again and again, until it stands or no last word of the attempt is wanted any more.
func (e *events) writeBond(model string) {
	entry, err := e.records.bound(e.a, model)
	if err != nil {
		e.log.Error("bind", "run", e.a, "err", err)
		return
	}
	own := func(there []byte) bool { return string(there) == string(entry.Body) }
	_, err = insist(e.a.wanted, e.bus, entry, own, func(_ int, err error) {
		e.log.Debug("what an executor bound is not written yet, trying again", "run", e.a, "err", err)
	})
	if errors.Is(err, bus.ErrTaken) {
		e.log.Warn("another record of what the attempt bound stands", "run", e.a)
	}
}

// settled waits until what was bound stands: it must be there before the last word, or the session's next turn would not know it.
func (b *bond) settled() {
	b.mu.Lock()
	done := b.done
	b.mu.Unlock()
	if done != nil {
		<-done
	}
}

// events writes what an executor shows of a run.
type events struct {
	a       *attempt
	bus     *bus.Bus
	log     *slog.Logger
	terms   *terms
	records *records
	packs   bool // all coordinators could read packs when the attempt began

	bond   bond
	memory *memory
	mu     sync.Mutex
	out    *bus.Emitter
	lost   int
	large  int // bytes of the last event that was too large
}
