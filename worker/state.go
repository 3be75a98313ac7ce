package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// codeStateLost is the error code of a session whose history is deleted.
const codeStateLost = "conversation_lost"

// stateTimeout is how long fetching a state is retried while no coordinator is available.
const stateTimeout = time.Minute

// sessionState is the state that the runs of a session keep for each other: the conversation, in the executor's own
// format.
type sessionState struct {
	ev       *events
	payloads *payloads
	maxBytes int64             // largest state, in bytes
	sizes    *metric.Histogram // sizes of kept states

	mu          sync.Mutex
	kept        bool   // this attempt has kept a state
	generation  int    // selects which of the two bodies is written next
	unconfirmed []byte // the name record of the last stored body while its commit is unknown; else nil
}

// pointer returns the binding of this attempt once it has kept a state.
func (m *sessionState) pointer() string {
	return runnerapi.StatePointer(m.ev.attempt.ID, m.ev.attempt.Attempt)
}

// get returns the state this run kept, else the one of the session's earlier run; nil: none. See executor.Host.
func (m *sessionState) get(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pointer := m.ev.attempt.ExecutorSessionID
	if m.kept {
		pointer = m.pointer()
	}
	name, ok := runnerapi.StateName(pointer)
	if !ok {
		return nil, nil
	}
	ctx, cancel := m.withRecordCtx(ctx)
	defer cancel()
	since, others := time.Now(), 0
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		state, err := m.fetch(ctx, name)
		if fault.KindOf(err) != fault.Unavailable {
			others++
		}
		switch {
		case err == nil:
			return state, nil
		case fault.KindOf(err) == fault.NotFound:
			return nil, fault.Wrap(fault.NotFound, codeStateLost,
				"the conversation's history is deleted, so this session cannot continue; start a new session", err)
		case others == 3, time.Since(since) > stateTimeout, !clock.Sleep(ctx, pause):
			return nil, err
		}
	}
}

func (m *sessionState) fetch(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	raw, err := m.payloads.request(ctx, m.ev.attempt, runnerapi.OpGetPart, run.Payload{Name: name}, nil)
	if err != nil {
		return nil, err
	}
	var p run.Payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fault.Wrap(fault.NotFound, "", "the list of the state's parts is unreadable", err)
	}
	state, err := m.payloads.fetchAll(ctx, m.ev.attempt, p)
	if fault.KindOf(err) == fault.Invalid {
		return nil, fault.Wrap(fault.NotFound, "", "the state's parts are damaged", err)
	}
	return state, err
}

// keep stores a state and binds the session to it. The previous state stays intact until the new one is committed.
// See executor.Host.
func (m *sessionState) keep(ctx context.Context, state []byte) error {
	switch limit := m.maxBytes; {
	case len(state) == 0:
		return fault.New(fault.Invalid, "", "the state is empty; keep at least one byte")
	case int64(len(state)) > limit:
		return fault.Newf(fault.TooLarge, "the state has %d bytes, at most %d are kept (AO_MAX_PAYLOAD)", len(state),
			limit).With("limit", limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	free, err := m.ev.binding.reserve(m.pointer())
	if err != nil {
		return err
	}
	defer free()
	ctx, cancel := m.withRecordCtx(ctx)
	defer cancel()
	name, _ := runnerapi.StateName(m.pointer())
	if m.unconfirmed != nil { // before a body is overwritten, the other one must be committed
		if err := m.publishName(ctx, name); err != nil {
			return err
		}
	}
	p, err := m.payloads.store(ctx, m.ev.attempt, runnerapi.StateBody(name, m.generation), state)
	if err != nil {
		return err
	}
	m.unconfirmed, err = strictjson.Encode(p)
	if err != nil {
		return err
	}
	if err := m.publishName(ctx, name); err != nil {
		return err
	}
	m.kept = true
	m.sizes.Observe(float64(len(state)))
	select {
	case <-m.ev.startBinding(m.pointer()):
	case <-ctx.Done():
	}
	if m.ev.attempt.recordCtx.Err() != nil {
		return errors.New("the attempt was abandoned before its state was bound")
	}
	return context.Cause(ctx)
}

// publishName commits the body stored last; the other one is then free.
func (m *sessionState) publishName(ctx context.Context, name string) error {
	if err := m.payloads.storePart(ctx, m.ev.attempt, run.Payload{Name: name}, m.unconfirmed); err != nil {
		return err
	}
	m.unconfirmed, m.generation = nil, m.generation+1
	return nil
}

// withRecordCtx returns a context that ends with ctx or when the attempt needs no more records.
func (m *sessionState) withRecordCtx(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(m.ev.attempt.recordCtx, cancel)
	return ctx, func() { unhook(); cancel() }
}

// deleteOld deletes the states of earlier runs of the session and of earlier attempts, once this attempt's state
// counts. Otherwise a session's states would grow with the square of its turns. What it cannot delete goes with the
// session or by retention.
func (m *sessionState) deleteOld() {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.ev.attempt
	if !m.kept || a.recordCtx.Err() != nil {
		return
	}
	old := []string{a.ExecutorSessionID}
	for n := 1; n < a.Attempt; n++ {
		old = append(old, runnerapi.StatePointer(a.ID, n))
	}
	ctx, cancel := context.WithTimeout(a.recordCtx, 10*time.Second)
	defer cancel()
	for _, pointer := range old {
		name, ok := runnerapi.StateName(pointer)
		if !ok || pointer == m.pointer() {
			continue
		}
		if _, err := m.payloads.request(ctx, a, runnerapi.OpDropState, run.Payload{Name: name}, nil); err != nil {
			m.payloads.log.Debug("older state of the session not deleted yet", "run", a, "err", err)
		}
	}
}
