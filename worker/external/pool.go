package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/process"
)

// settle is how long a process is left alone after it has answered, before it is asked again: a second answer to the same
// turn is seen as one then, and not taken for the next turn's.
const settle = 50 * time.Millisecond

// PoolConfig is what a Pool is made of. The zero value works.
type PoolConfig struct {
	Idle    time.Duration // a process that waits for its next turn so long is shut down; default 10 min
	Most    int           // processes alive at once; default 64. It must be at least the number of Runs at once
	Grace   time.Duration // for a process to end after shutdown, and again after SIGTERM; default 5 s
	Changed func()        // told after Idle's answer has changed
	Log     *slog.Logger  // default slog.Default()
}

// Pool does runs by programs of the lifecycle persistent, and keeps the process of a session for its further turns.
//
//	run                                   is done by
//	a start, or a further attempt         a new process
//	a resume                              the session's process, where that did the turn before it; else a new one in mode resume
//
// A process ends when its run is stopped or times out, when it breaks the protocol, when it was idle for too long, when
// there are too many (the one that has been idle longest goes), and with the worker. An answer where nothing was asked
// breaks the protocol: whatever follows could be an answer to another question.
type Pool struct {
	PoolConfig

	mu       sync.Mutex
	of       map[string]*live // by session
	moved    chan struct{}    // closed when a process has become idle or is gone
	draining bool
}

// NewPool makes a Pool; Close ends it.
func NewPool(c PoolConfig) *Pool {
	c.Idle, c.Most, c.Grace = cmp.Or(c.Idle, 10*time.Minute), cmp.Or(c.Most, 64), cmp.Or(c.Grace, 5*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Pool{PoolConfig: c, of: map[string]*live{}, moved: make(chan struct{})}
}

// Watch sets what is told after Sessions' answer has changed. It is called before the first Run.
func (p *Pool) Watch(changed func()) { p.Changed = changed }

// Run does a turn. When ctx ends, the whole process tree is ended and the outcome is stopped; what it had told by then is kept.
func (p *Pool) Run(ctx context.Context, j Job) run.Outcome {
	j.Invocation.Lifecycle = executor.Persistent
	most := cmp.Or(j.MaxResult, maxResult)
	for {
		l, err := p.take(ctx, j, most)
		if err != nil {
			return run.Outcome{Status: run.Stopped}
		}
		t := newTurn(j, most)
		switch asked, err := l.ask(ctx, j, t); {
		case err != nil:
			t.quiet()
			p.release(l, j)
			return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
		case !asked: // it ended between its turns
			<-l.over
			t.quiet()
			continue
		}
		o := l.await(ctx, t, j.Kill, most)
		p.release(l, j)
		return o
	}
}

// take gives the session's process, or makes a new one, not yet started. Nobody else has it until release.
func (p *Pool) take(ctx context.Context, j Job, most int) (*live, error) {
	for ctx.Err() == nil {
		p.mu.Lock()
		moved, l := p.moved, p.of[j.Invocation.SessionID]
		switch {
		case l != nil && (l.busy || l.ctx.Err() != nil):
		case l != nil && l.fits(j):
			l.busy = true
			l.timer.Stop()
			p.mu.Unlock()
			return l, nil
		case l != nil:
			p.shut(l, "another process did the session's last turn, or this is another attempt, or in another folder")
		case len(p.of) >= p.Most:
			if l := p.oldest(); l != nil {
				p.shut(l, "too many processes are alive")
			}
		default:
			l = newLive(p, j, most)
			p.of[l.session] = l
			p.mu.Unlock()
			return l, nil
		}
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// oldest is the process that has been idle longest; nil: none is. The caller holds mu.
func (p *Pool) oldest() (found *live) {
	for _, l := range p.of {
		if !l.busy && l.ctx.Err() == nil && (found == nil || l.since.Before(found.since)) {
			found = l
		}
	}
	return found
}

// release gives a process back after a turn.
func (p *Pool) release(l *live, j Job) {
	p.mu.Lock()
	l.busy, l.since = false, time.Now()
	l.last = beginning{j.Invocation.RunID, j.Invocation.Attempt}
	switch {
	case l.ctx.Err() != nil || p.of[l.session] != l:
	case p.draining:
		p.shut(l, "the worker ends")
	default:
		l.timer = time.AfterFunc(p.Idle, func() { p.tired(l) })
	}
	p.wake()
	p.mu.Unlock()
	p.changed()
}

// tired shuts a process down that has been idle for too long.
func (p *Pool) tired(l *live) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.busy && time.Since(l.since) >= p.Idle {
		p.shut(l, "idle for too long")
	}
}

// shut ends an idle process the polite way, in a goroutine of its own. The caller holds mu.
func (p *Pool) shut(l *live, why string) {
	l.busy = true
	l.timer.Stop()
	p.Log.Debug("a persistent executor is shut down", "session", l.session, "why", why)
	go l.shutDown(p.Grace)
}

// gone forgets a process of which nothing is left.
func (p *Pool) gone(l *live) {
	p.mu.Lock()
	idle := !l.busy
	delete(p.of, l.session)
	if l.timer != nil {
		l.timer.Stop()
	}
	p.wake()
	p.mu.Unlock()
	if idle {
		p.Log.Info("a persistent executor ended between its turns", "session", l.session, "exit_code", l.exit.Code, "why", l.why())
	}
	p.changed()
}

// wake tells who waits in take. The caller holds mu.
func (p *Pool) wake() {
	close(p.moved)
	p.moved = make(chan struct{})
}

func (p *Pool) changed() {
	if p.Changed != nil {
		p.Changed()
	}
}

// Sessions lists those whose process waits for the next turn.
func (p *Pool) Sessions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for session, l := range p.of {
		if !p.draining && !l.busy && l.ctx.Err() == nil {
			all = append(all, session)
		}
	}
	return all
}

// Forget shuts the idle processes of these sessions down.
func (p *Pool) Forget(sessions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, session := range sessions {
		if l := p.of[session]; l != nil && !l.busy {
			p.shut(l, "its session is no more")
		}
	}
}

// Drain shuts idle processes down, and from now on each after its turn.
func (p *Pool) Drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	for _, l := range p.of {
		if !l.busy {
			p.shut(l, "the worker ends")
		}
	}
}

// Close is Drain that returns when no process is left; when ctx ends, they are killed.
func (p *Pool) Close(ctx context.Context) {
	p.Drain()
	unhook := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.of {
			l.cancel(context.Cause(ctx))
			l.kill()
		}
	})
	defer unhook()
	for {
		p.mu.Lock()
		left, moved := len(p.of), p.moved
		p.mu.Unlock()
		if left == 0 {
			return
		}
		<-moved
	}
}

// turn is what a process says in one of its turns.
type turn struct {
	*transcript
	quiet func()        // ends the listening at the gateway; until then the transcript may change
	done  chan struct{} // closed when it is answered
}

func newTurn(j Job, most int) *turn {
	t := &turn{transcript: newTranscript(j, most), done: make(chan struct{}), quiet: func() {}}
	t.spoke = true
	if j.Listen != nil {
		t.quiet = sync.OnceFunc(j.Listen(t.hear))
	}
	return t
}

// closed tells whether done is.
func (t *turn) closed() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// ended tells whether the turn has been answered, and whether that could be read.
func (t *turn) ended() (answered, unread bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered, t.unread
}

// outcome is how an answered turn went.
func (t *turn) outcome(most int) run.Outcome {
	t.quiet()
	res, large := t.came(t.own.Bytes(), t.own.Missing(), most)
	o := run.Outcome{Status: run.Completed, Result: res}
	switch {
	case t.failure != nil:
		o.Status, o.Error = run.Failed, t.failure
	case large != nil:
		o.Status, o.Error = run.Failed, large
	case o.Result == nil:
		o.Result = &run.Result{Type: run.Autonomous}
	}
	return o
}

// cutShort is how a turn went whose process ended without an answer.
func (t *turn) cutShort(stopped bool, exit process.Exit, most int) run.Outcome {
	t.quiet()
	res, _ := t.came(t.own.Bytes(), t.own.Missing(), most)
	o := run.Outcome{Status: run.Stopped, Result: res}
	if stopped {
		return o
	}
	o.Status, o.Error = run.Failed, exit.Fault(codeFailed)
	if exit.Code == 0 && len(bytes.TrimSpace(exit.Stderr)) == 0 {
		o.Error.Message = "The executor ended before it answered its turn (a persistent one ends each turn with a turn_complete or turn_failed line)"
	}
	return o
}

// beginning is an attempt of a run.
type beginning struct {
	run     string
	attempt int
}

// strayText says what a process wrote between its turns.
func strayText(n int64, text []byte) json.RawMessage {
	return run.TextMessage("system", fmt.Sprintf("Between its turns the executor wrote %d bytes that belong to none and are left out: %s", n, process.Plain(bytes.TrimSpace(text))))
}
