package program

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/process"
)

// settleTime is how long a process is left alone after it answered, before its next turn. A second answer to the same
// turn is then recognized and not taken for the next turn's.
const settleTime = 50 * time.Millisecond

// PoolConfig configures a Pool. The zero value works.
type PoolConfig struct {
	IdleTimeout  time.Duration // how long a process may wait for its next turn; default 10 min
	MaxProcesses int           // live processes; default 64. At least the number of concurrent Runs
	Grace        time.Duration // time to end after the shutdown line, and again after SIGTERM; default 5 s
	OnChange     func()        // called after the result of Sessions has changed
	Log          *slog.Logger  // default slog.Default()
}

// Pool runs programs of the lifecycle persistent and keeps the process of a session for its further turns.
//
//	run                                   runs in
//	a start, or a further attempt         a new process
//	a resume                              the session's process if it did the previous turn,
//	                                      else a new one in mode resume
//
// A process ends when its run is stopped or times out, when it breaks the protocol, and after IdleTimeout. It also ends
// when there are too many (longest idle first), and with the worker. An answer without a turn breaks the protocol:
// whatever follows could be an answer to another turn.
type Pool struct {
	PoolConfig

	mu        sync.Mutex
	bySession map[string]*sessionProcess // by session
	changes   chan struct{}              // closed when a process became idle or ended
	draining  bool
}

// NewPool makes a Pool; Close ends it.
func NewPool(c PoolConfig) *Pool {
	c.IdleTimeout, c.MaxProcesses, c.Grace = cmp.Or(c.IdleTimeout, 10*time.Minute), cmp.Or(c.MaxProcesses, 64),
		cmp.Or(c.Grace, 5*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Pool{PoolConfig: c, bySession: map[string]*sessionProcess{}, changes: make(chan struct{})}
}

// Watch sets OnChange. Call it before the first Run.
func (p *Pool) Watch(changed func()) { p.OnChange = changed }

// Run does a turn. When ctx ends, the whole process tree is ended and the outcome is stopped, with the result so far.
func (p *Pool) Run(ctx context.Context, j Job) run.Outcome {
	j.Invocation.Lifecycle = executor.Persistent
	most := cmp.Or(j.MaxResult, maxResult)
	for {
		l, err := p.acquire(ctx, j, most)
		if err != nil {
			return run.Outcome{Status: run.Stopped}
		}
		t := newTurn(j, most)
		switch asked, err := l.startTurn(ctx, j, t); {
		case err != nil:
			t.stopListening()
			p.release(l, j)
			return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
		case !asked: // the process ended between its turns
			<-l.done
			t.stopListening()
			continue
		}
		o := l.await(ctx, t, j.Kill, most)
		p.release(l, j)
		return o
	}
}

// acquire returns the session's process, or a new one that is not started. It is exclusive until release.
func (p *Pool) acquire(ctx context.Context, j Job, most int) (*sessionProcess, error) {
	for ctx.Err() == nil {
		p.mu.Lock()
		moved, l := p.changes, p.bySession[j.Invocation.SessionID]
		switch {
		case l != nil && (l.busy || l.ctx.Err() != nil):
		case l != nil && l.canRun(j):
			l.busy = true
			l.timer.Stop()
			p.mu.Unlock()
			return l, nil
		case l != nil:
			p.shutDown(l, "not the process of the session's last turn, or another attempt or folder")
		case len(p.bySession) >= p.MaxProcesses:
			if l := p.oldest(); l != nil {
				p.shutDown(l, "too many processes are alive")
			}
		default:
			l = newSessionProcess(p, j, most)
			p.bySession[l.session] = l
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

// oldest returns the process that is idle for longest, or nil. The caller holds mu.
func (p *Pool) oldest() (found *sessionProcess) {
	for _, l := range p.bySession {
		if !l.busy && l.ctx.Err() == nil && (found == nil || l.since.Before(found.since)) {
			found = l
		}
	}
	return found
}

// release returns a process after a turn.
func (p *Pool) release(l *sessionProcess, j Job) {
	p.mu.Lock()
	l.busy, l.since = false, time.Now()
	l.last = attemptRef{j.Invocation.RunID, j.Invocation.Attempt}
	switch {
	case l.ctx.Err() != nil || p.bySession[l.session] != l:
	case p.draining:
		p.shutDown(l, "the worker shuts down")
	default:
		l.timer = time.AfterFunc(p.IdleTimeout, func() { p.expire(l) })
	}
	p.notifyWaiters()
	p.mu.Unlock()
	p.changed()
}

// expire shuts down a process that was idle for IdleTimeout.
func (p *Pool) expire(l *sessionProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.busy && time.Since(l.since) >= p.IdleTimeout {
		p.shutDown(l, "idle for too long")
	}
}

// shutDown shuts down an idle process in its own goroutine. The caller holds mu.
func (p *Pool) shutDown(l *sessionProcess, why string) {
	l.busy = true
	l.timer.Stop()
	p.Log.Debug("persistent executor shut down", "session", l.session, "why", why)
	go l.shutDown(p.Grace)
}

func (p *Pool) remove(l *sessionProcess) {
	p.mu.Lock()
	idle := !l.busy
	delete(p.bySession, l.session)
	if l.timer != nil {
		l.timer.Stop()
	}
	p.notifyWaiters()
	p.mu.Unlock()
	if idle {
		p.Log.Info("persistent executor ended between turns", "session", l.session, "exit_code", l.exit.Code,
			"why", l.stderrReason())
	}
	p.changed()
}

// notifyWaiters wakes the callers of acquire and Close. The caller holds mu.
func (p *Pool) notifyWaiters() {
	close(p.changes)
	p.changes = make(chan struct{})
}

func (p *Pool) changed() {
	if p.OnChange != nil {
		p.OnChange()
	}
}

// Sessions lists the sessions whose process waits for the next turn.
func (p *Pool) Sessions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for session, l := range p.bySession {
		if !p.draining && !l.busy && l.ctx.Err() == nil {
			all = append(all, session)
		}
	}
	return all
}

// Forget shuts down the idle processes of these sessions.
func (p *Pool) Forget(sessions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, session := range sessions {
		if l := p.bySession[session]; l != nil && !l.busy {
			p.shutDown(l, "its session is deleted")
		}
	}
}

// Drain shuts down idle processes, and from now on each after its turn.
func (p *Pool) Drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	for _, l := range p.bySession {
		if !l.busy {
			p.shutDown(l, "the worker shuts down")
		}
	}
}

// Close is Drain that waits until no process is left; it kills them when ctx ends.
func (p *Pool) Close(ctx context.Context) {
	p.Drain()
	unhook := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.bySession {
			l.cancel(context.Cause(ctx))
			l.kill()
		}
	})
	defer unhook()
	for {
		p.mu.Lock()
		left, moved := len(p.bySession), p.changes
		p.mu.Unlock()
		if left == 0 {
			return
		}
		<-moved
	}
}

type turn struct {
	*transcript
	stopListening func()        // stops the gateway's lines; until then the transcript may change
	done          chan struct{} // closed when the turn is answered
}

func newTurn(j Job, most int) *turn {
	t := &turn{transcript: newTranscript(j, most), done: make(chan struct{}), stopListening: func() {}}
	t.usesProtocol = true
	if j.Listen != nil {
		t.stopListening = sync.OnceFunc(j.Listen(t.fromGateway))
	}
	return t
}

func (t *turn) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// status reports whether the turn was answered, and whether the answer was unreadable.
func (t *turn) status() (answered, unread bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered, t.unreadable
}

func (t *turn) outcome(most int) run.Outcome {
	t.stopListening()
	return t.ended(t.finalResult(t.plain.Bytes(), t.plain.Missing(), most))
}

// unansweredOutcome returns the outcome of a turn whose process ended without an answer.
func (t *turn) unansweredOutcome(stopped bool, exit process.Exit, most int) run.Outcome {
	t.stopListening()
	res, _ := t.finalResult(t.plain.Bytes(), t.plain.Missing(), most)
	o := run.Outcome{Status: run.Stopped, Result: res}
	if stopped {
		o.Error = exit.KeepStderr(nil)
		return o
	}
	o.Status, o.Error = run.Failed, exit.Fault(codeFailed)
	if exit.Code == 0 && len(bytes.TrimSpace(exit.Stderr)) == 0 {
		o.Error.Message = "the executor ended before it answered its turn (a persistent one ends each turn with a " +
			"turn_complete or turn_failed line)"
	}
	return o
}

type attemptRef struct {
	run     string
	attempt int
}
