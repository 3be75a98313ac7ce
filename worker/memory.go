package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// codeLost is the code of the error that a session's history is gone.
const codeLost = "conversation_lost"

// patience is how long a state that no coordinator can be asked for is tried.
const patience = time.Minute

// memory is what the runs of a session keep for one another: the conversation, as their executor writes it.
type memory struct {
	ev     *events
	bodies *bodies
	most   int64             // bytes of a state
	size   *metric.Histogram // of those that were kept

	mu   sync.Mutex
	kept bool   // this attempt has
	next int    // which of the two bodies the next one is to be
	open []byte // names the body that was stored last, where nobody said that it is named; nil: that is known
}

// own is what the attempt is bound to once it has kept something.
func (m *memory) own() string { return runnerapi.StatePointer(m.ev.a.ID, m.ev.a.Attempt) }

// state gives what this run kept, else what the session's earlier run did; nil: nothing. See executor.Host.
func (m *memory) state(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pointer := m.ev.a.Model
	if m.kept {
		pointer = m.own()
	}
	name, ok := runnerapi.StateName(pointer)
	if !ok {
		return nil, nil
	}
	ctx, cancel := m.wanted(ctx)
	defer cancel()
	since, others := time.Now(), 0
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		state, err := m.fetch(ctx, name)
		away := fault.KindOf(err) == fault.Unavailable
		if !away {
			others++
		}
		switch {
		case err == nil:
			return state, nil
		case fault.KindOf(err) == fault.NotFound:
			return nil, fault.Wrap(fault.NotFound, codeLost, "The conversation's history is no longer there, so this session cannot go on; start a new session", err)
		case others == 3, time.Since(since) > patience, !wait(ctx, pause):
			return nil, err
		}
	}
}

func (m *memory) fetch(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	raw, err := m.bodies.part(ctx, m.ev.a, runnerapi.OpGetPart, name, 0, nil)
	if err != nil {
		return nil, err
	}
	var p run.Payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fault.Wrap(fault.NotFound, "", "what names the state's parts cannot be read", err)
	}
	state, err := m.bodies.whole(ctx, m.ev.a, p)
	if fault.KindOf(err) == fault.Invalid {
		return nil, fault.Wrap(fault.NotFound, "", "the state's parts are damaged", err)
	}
	return state, err
}

// keep stores a state and binds the session to it. What was kept before stays whole until this is. See executor.Host.
func (m *memory) keep(ctx context.Context, state []byte) error {
	switch limit := m.most; {
	case len(state) == 0:
		return fault.New(fault.Invalid, "", "An empty state cannot be kept")
	case int64(len(state)) > limit:
		return fault.Newf(fault.TooLarge, "The state has %d bytes; at most %d are kept (AO_MAX_PAYLOAD)", len(state), limit).With("limit", limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	free, err := m.ev.bond.reserve(m.own())
	if err != nil {
		return err
	}
	defer free()
	ctx, cancel := m.wanted(ctx)
	defer cancel()
	name, _ := runnerapi.StateName(m.own())
	if m.open != nil { // before a body is written anew, it must be surely the other one that counts
		if err := m.named(ctx, name); err != nil {
			return err
		}
	}
	p, err := m.bodies.storeAs(ctx, m.ev.a, runnerapi.StateBody(name, m.next), state)
	if err != nil {
		return err
	}
	if m.open, err = strictjson.Encode(p); err != nil {
		return err
	}
	if err := m.named(ctx, name); err != nil {
		return err
	}
	m.kept = true
	m.size.Observe(float64(len(state)))
	select {
	case <-m.ev.write(m.own()):
	case <-ctx.Done():
	}
	if m.ev.a.wanted.Err() != nil {
		return errors.New("the attempt was given up before its state was bound")
	}
	return context.Cause(ctx)
}

// named has the body count that was stored last; the other one is free then.
func (m *memory) named(ctx context.Context, name string) error {
	if err := m.bodies.storePart(ctx, m.ev.a, name, 0, m.open); err != nil {
		return err
	}
	m.open, m.next = nil, m.next+1
	return nil
}

// wanted is a context that ends with ctx, and when nothing of the attempt is wanted any more.
func (m *memory) wanted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(m.ev.a.wanted, cancel)
	return ctx, func() { unhook(); cancel() }
}

// tidy removes what earlier runs of the session, and earlier attempts of this one, have kept, once this one's counts: else a session's
// states would grow with the square of its turns. What it cannot remove goes with the session, or with history.
func (m *memory) tidy() {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.ev.a
	if !m.kept || a.wanted.Err() != nil {
		return
	}
	old := []string{a.Model}
	for n := 1; n < a.Attempt; n++ {
		old = append(old, runnerapi.StatePointer(a.ID, n))
	}
	ctx, cancel := context.WithTimeout(a.wanted, 10*time.Second)
	defer cancel()
	for _, pointer := range old {
		name, ok := runnerapi.StateName(pointer)
		if !ok || pointer == m.own() {
			continue
		}
		ask, err := json.Marshal(runnerapi.PartRequest{RunID: a.ID, SessionID: a.SessionID, Attempt: a.Attempt, Key: a.Key, Name: name})
		if err == nil {
			_, err = m.bodies.bus.Request(ctx, subject.RunnerAPI(runnerapi.OpDropState), ask)
		}
		if err != nil {
			m.bodies.log.Debug("an older state of the session is not removed yet", "run", a, "err", err)
		}
	}
}
