package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/process"
)

const (
	maxStray      = 1 << 20  // most bytes that a process may write between two turns
	maxStrayShown = 2 << 10  // bytes of these that are shown
	maxStderr     = 64 << 10 // bytes of stderr kept per turn
)

var errShutDown = errors.New("shut down")

type sessionProcess struct {
	pool      *Pool
	session   string
	dir       string
	maxResult int // largest result, in bytes

	ctx    context.Context // ends when the process must end
	cancel context.CancelCauseFunc
	killed context.Context // ends when it must be killed
	kill   context.CancelFunc
	input  chan process.Piece
	done   chan struct{} // closed when its whole tree has ended
	exit   process.Exit  // valid once done is closed
	err    error         // valid once done is closed

	// guarded by Pool.mu
	busy  bool // in use by a run or a shutdown
	last  attemptRef
	since time.Time // idle since
	timer *time.Timer

	blueprint []byte // as the process knows it; owned by whoever has it busy

	mu         sync.Mutex
	started    bool
	turn       *turn // nil: between turns
	stray      process.Text
	strayBytes int64
	stderrText process.Text // stderr since the last answer
	answered   time.Time
}

func newSessionProcess(p *Pool, j Job, most int) *sessionProcess {
	l := &sessionProcess{
		pool: p, session: j.Invocation.SessionID, dir: j.Invocation.ProjectDir, maxResult: most, busy: true,
		input: make(chan process.Piece), done: make(chan struct{}),
		stderrText: process.Text{Limit: maxStderr}, stray: process.Text{Limit: maxStrayShown},
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.killed, l.kill = context.WithCancel(context.Background())
	l.timer = time.AfterFunc(0, func() {})
	return l
}

// canRun reports whether the process can do a run: it did the previous one, or an earlier part of the same. The
// caller holds Pool.mu.
func (l *sessionProcess) canRun(j Job) bool {
	v := j.Invocation
	same := l.last == attemptRef{v.RunID, v.Attempt}
	return v.Mode == executor.Resume && v.ProjectDir == l.dir && (same || v.Attempt <= 1 && v.PreviousRunID != "" &&
		v.PreviousRunID == l.last.run)
}

// startTurn starts a turn, and the process with the first one. false: the process has ended and got nothing.
func (l *sessionProcess) startTurn(ctx context.Context, j Job, t *turn) (bool, error) {
	if !l.started {
		doc, err := j.Invocation.Encode()
		if err != nil { // the process never starts
			l.cancel(err)
			l.err = err
			l.pool.remove(l)
			close(l.done)
			return false, err
		}
		l.started, l.turn, l.blueprint = true, t, j.Invocation.Blueprint
		go l.run(j, doc)
		return true, nil
	}
	changed := !bytes.Equal(l.blueprint, j.Invocation.Blueprint)
	line, err := executor.TurnOf(j.Invocation, changed).Encode()
	if err != nil {
		return false, err
	}
	l.blueprint = j.Invocation.Blueprint
	if !l.waitSettled(t) || !l.setTurn(t) {
		return false, nil
	}
	return l.writeTurn(ctx, line, t), nil
}

// waitSettled waits out settleTime after the previous turn, then emits what the process wrote since. false: the
// process ended.
func (l *sessionProcess) waitSettled(t *turn) bool {
	l.mu.Lock()
	wait := time.NewTimer(time.Until(l.answered.Add(settleTime)))
	l.mu.Unlock()
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-l.done:
		return false
	}
	l.mu.Lock()
	n, text := l.strayBytes, l.stray.Bytes()
	l.strayBytes, l.stray = 0, process.Text{Limit: maxStrayShown}
	l.mu.Unlock()
	if n > 0 && l.ctx.Err() == nil { // before the turn's own lines
		t.systemMessage(fmt.Sprintf("the executor wrote %d bytes between its turns, dropped: %s", n,
			process.Plain(bytes.TrimSpace(text))))
	}
	return true
}

// setTurn makes t the turn that receives the lines. false: the process broke the protocol and is being ended.
func (l *sessionProcess) setTurn(t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.turn = t
	return true
}

// writeTurn writes the process its line, unless ctx ends before it reads. false: the process reads no more.
func (l *sessionProcess) writeTurn(ctx context.Context, line []byte, t *turn) bool {
	written := make(chan error, 1)
	select {
	case l.input <- process.Piece{Data: line, Done: func(err error) { written <- err }}:
	case <-l.done:
		return false
	case <-ctx.Done(): // it does not even read earlier input
		return true
	}
	var err error
	select {
	case err = <-written:
	case <-t.done: // it answered before it read; onStdout handles that
	case <-ctx.Done():
	case <-l.done:
		err = <-written // reported before done
	}
	if err != nil && ctx.Err() == nil { // it closed its stdin
		l.cancel(err)
		return false
	}
	return true
}

// run runs the process to its end.
func (l *sessionProcess) run(j Job, doc []byte) {
	l.exit, l.err = process.Run(l.ctx, process.Spec{
		Path: j.Command, Dir: l.dir, Env: j.Env, Stdin: doc, Input: l.input, Grace: l.pool.Grace,
		Confinement: j.Confinement, Kill: l.killed.Done(), MaxOutput: maxStderr,
		MaxLine: l.maxResult + lineOverhead, OnStdout: l.onStdout, OnStderr: l.onStderr,
	})
	if l.ctx.Err() == nil {
		l.cancel(errors.New("the process ended"))
	}
	l.pool.remove(l)
	l.kill()
	close(l.done)
}

func (l *sessionProcess) onStdout(line []byte) {
	l.mu.Lock()
	t := l.turn
	if t == nil {
		l.onStray(line)
	}
	l.mu.Unlock()
	if t == nil {
		return
	}
	t.onLine(line)
	answered, unread := t.status()
	if !answered {
		return
	}
	if unread { // its state is unknown
		l.cancel(errors.New("its answer is unreadable"))
	}
	l.mu.Lock()
	l.turn, l.answered, l.stderrText = nil, time.Now(), process.Text{Limit: maxStderr}
	l.mu.Unlock()
	close(t.done)
}

// onStray handles a line outside a turn. The caller holds mu.
func (l *sessionProcess) onStray(line []byte) {
	l.strayBytes += int64(len(line)) + 1
	l.stray.Add(line)
	l.stray.Add([]byte{'\n'})
	answer, _, _ := executor.ReadLine(line)
	why := ""
	switch {
	case l.ctx.Err() != nil:
	case endsTurn(answer.Type):
		why = fmt.Sprintf("it wrote a %s line outside a turn", answer.Type)
	case l.strayBytes > maxStray:
		why = fmt.Sprintf("it wrote more than %d bytes between turns", maxStray)
	}
	if why != "" {
		l.pool.Log.Warn("ending a persistent executor: "+why, "session", l.session)
		l.cancel(errors.New(why))
	}
}

func (l *sessionProcess) onStderr(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stderrText.Add(line)
	l.stderrText.Add([]byte{'\n'})
}

// stderrReason returns what the process wrote to stderr since its last answer.
func (l *sessionProcess) stderrReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	exit := l.exit
	exit.Stdout, exit.Stderr, exit.Hit = nil, l.stderrText.Bytes(), process.Hit{}
	return exit.Reason()
}

func (l *sessionProcess) await(ctx context.Context, t *turn, kill <-chan struct{}, most int) run.Outcome {
	l.waitTurn(ctx, t, kill)
	select {
	case <-t.done:
		if l.ctx.Err() != nil { // the process is ending; wait, so that nothing is left when the run ends
			<-l.done
		}
		return t.outcome(most)
	default:
	}
	t.stopListening()
	if bad := NotStarted(l.err); bad != nil {
		return run.Outcome{Status: run.Failed, Error: bad}
	}
	l.mu.Lock()
	exit := l.exit
	exit.Stdout, exit.Stderr = nil, l.stderrText.Bytes()
	l.mu.Unlock()
	if !l.exit.Started {
		return run.Outcome{Status: run.Stopped}
	}
	return t.unansweredOutcome(ctx.Err() != nil, exit, most)
}

// waitTurn waits until a turn is answered or its process has ended. It ends the process when ctx ends first, and
// kills it on kill.
func (l *sessionProcess) waitTurn(ctx context.Context, t *turn, kill <-chan struct{}) {
	stop := ctx.Done()
	for !t.isDone() {
		select {
		case <-t.done:
		case <-l.done:
			return
		case <-stop:
			stop = nil
			if !t.isDone() { // otherwise the answer came first
				l.cancel(context.Cause(ctx))
			}
		case <-kill:
			kill = nil
			if !t.isDone() {
				l.kill()
			}
		}
	}
}

// shutDown sends the shutdown line and ends the process if it takes longer than grace.
func (l *sessionProcess) shutDown(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	line, _ := executor.Turn{Type: executor.LineShutdown}.Encode()
	select {
	case l.input <- process.Piece{Data: line, Done: func(error) {}}:
		close(l.input)
	case <-l.done:
		return
	case <-timer.C:
		l.cancel(errShutDown)
		return
	}
	select {
	case <-l.done:
	case <-timer.C:
		l.cancel(errShutDown)
	}
}
