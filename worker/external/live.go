package external

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
	maxStray  = 1 << 20  // bytes that a process may write between two turns
	keptStray = 2 << 10  // bytes of these that are told
	keptErrs  = 64 << 10 // bytes of stderr that are kept of a turn
)

var errShut = errors.New("shut down")

// live is the process of a session.
type live struct {
	pool    *Pool
	session string
	dir     string
	most    int // bytes of a result

	ctx    context.Context // ends when the process is to end
	cancel context.CancelCauseFunc
	killed context.Context // ends when it is to end at once
	kill   context.CancelFunc
	input  chan process.Piece
	over   chan struct{} // closed when nothing of it is left
	exit   process.Exit  // once it is over
	err    error         // likewise

	// guarded by Pool.mu
	busy  bool // somebody has it: a run, or who ends it
	last  beginning
	since time.Time // idle since
	timer *time.Timer

	blueprint []byte // as the process knows it; of who has it

	mu       sync.Mutex
	begun    bool
	turn     *turn // nil: between turns
	stray    process.Text
	strayed  int64
	errs     process.Text // stderr since the last answer
	answered time.Time
}

func newLive(p *Pool, j Job, most int) *live {
	l := &live{
		pool: p, session: j.Invocation.SessionID, dir: j.Invocation.ProjectDir, most: most, busy: true,
		input: make(chan process.Piece), over: make(chan struct{}),
		errs: process.Text{Limit: keptErrs}, stray: process.Text{Limit: keptStray},
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.killed, l.kill = context.WithCancel(context.Background())
	l.timer = time.AfterFunc(0, func() {})
	return l
}

// fits tells whether the process can do a run: it did the one before it, or an earlier part of the same. The caller holds Pool.mu.
func (l *live) fits(j Job) bool {
	v := j.Invocation
	same := l.last == beginning{v.RunID, v.Attempt}
	return v.Mode == executor.Resume && v.ProjectDir == l.dir && (same || v.Attempt <= 1 && v.PreviousRunID != "" && v.PreviousRunID == l.last.run)
}

// ask begins a turn, and with the first one the process. false: the process ended before, nothing was asked.
func (l *live) ask(ctx context.Context, j Job, t *turn) (bool, error) {
	if !l.begun {
		doc, err := j.Invocation.Encode()
		if err != nil {
			l.end(err)
			return false, err
		}
		l.begun, l.turn, l.blueprint = true, t, j.Invocation.Blueprint
		go l.run(j, doc)
		return true, nil
	}
	changed := !bytes.Equal(l.blueprint, j.Invocation.Blueprint)
	line, err := executor.TurnOf(j.Invocation, changed).Encode()
	if err != nil {
		return false, err
	}
	l.blueprint = j.Invocation.Blueprint
	if !l.settled(t) || !l.begin(t) {
		return false, nil
	}
	return l.write(ctx, line, t), nil
}

// settled waits until the turn before is surely over, and tells what the process said since. false: the process ended.
func (l *live) settled(t *turn) bool {
	l.mu.Lock()
	wait := time.NewTimer(time.Until(l.answered.Add(settle)))
	l.mu.Unlock()
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-l.over:
		return false
	}
	l.mu.Lock()
	n, text := l.strays()
	l.mu.Unlock()
	if n > 0 && l.ctx.Err() == nil { // before the turn's own lines
		t.tell(run.EventMessage, strayText(n, text))
	}
	return true
}

// begin makes this the turn whose lines come. false: the process broke the protocol meanwhile, and is being ended.
func (l *live) begin(t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.turn = t
	return true
}

// write gives the process its line, unless ctx ends before it reads. false: it hears nothing any more.
func (l *live) write(ctx context.Context, line []byte, t *turn) bool {
	written := make(chan error, 1)
	select {
	case l.input <- process.Piece{Data: line, Done: func(err error) { written <- err }}:
	case <-l.over:
		return false
	case <-ctx.Done(): // it does not read, not even what it was told before
		return true
	}
	var err error
	select {
	case err = <-written:
	case <-t.done: // it answers before it has read: that is found elsewhere
	case <-ctx.Done():
	case <-l.over:
		err = <-written // told before
	}
	if err != nil && ctx.Err() == nil { // it has closed its stdin
		l.cancel(err)
		return false
	}
	return true
}

// end is the end of a process that was never started.
func (l *live) end(err error) {
	l.cancel(err)
	l.err = err
	l.pool.gone(l)
	close(l.over)
}

// strays gives what came since the last turn, and forgets it. The caller holds l.mu.
func (l *live) strays() (n int64, text []byte) {
	n, text = l.strayed, l.stray.Bytes()
	l.strayed, l.stray = 0, process.Text{Limit: keptStray}
	return n, text
}

// run runs the process to its end.
func (l *live) run(j Job, doc []byte) {
	l.exit, l.err = process.Run(l.ctx, process.Spec{
		Path: j.Command, Dir: l.dir, Env: j.Env, Stdin: doc, Input: l.input, Grace: l.pool.Grace, In: j.In, Kill: l.killed.Done(), MaxOutput: keptErrs,
		MaxLine: l.most + slack, OnStdout: l.stdout, OnStderr: l.stderr,
	})
	if l.ctx.Err() == nil {
		l.cancel(errors.New("the process ended"))
	}
	l.pool.gone(l)
	l.kill()
	close(l.over)
}

// stdout takes a line.
func (l *live) stdout(line []byte) {
	l.mu.Lock()
	t := l.turn
	if t == nil {
		l.between(line)
	}
	l.mu.Unlock()
	if t == nil {
		return
	}
	t.line(line)
	answered, unread := t.ended()
	if !answered {
		return
	}
	if unread { // who answers so may be anywhere
		l.cancel(errors.New("its answer could not be read"))
	}
	l.mu.Lock()
	l.turn, l.answered, l.errs = nil, time.Now(), process.Text{Limit: keptErrs}
	l.mu.Unlock()
	close(t.done)
}

// between takes a line that no turn asked for. The caller holds l.mu.
func (l *live) between(line []byte) {
	l.strayed += int64(len(line)) + 1
	l.stray.Add(line)
	l.stray.Add([]byte{'\n'})
	answer, _, _ := executor.ReadLine(line)
	why := ""
	switch {
	case l.ctx.Err() != nil:
	case answers(answer.Type):
		why = fmt.Sprintf("it wrote a %s line where no turn was under way", answer.Type)
	case l.strayed > maxStray:
		why = fmt.Sprintf("it wrote more than %d bytes between its turns", maxStray)
	}
	if why != "" {
		l.pool.Log.Warn("a persistent executor is ended: "+why, "session", l.session)
		l.cancel(errors.New(why))
	}
}

func (l *live) stderr(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs.Add(line)
	l.errs.Add([]byte{'\n'})
}

// why is what the process said on stderr since its last answer.
func (l *live) why() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return process.Exit{Code: l.exit.Code, Stderr: l.errs.Bytes()}.Why()
}

// await waits for the end of a turn, and gives what it came to.
func (l *live) await(ctx context.Context, t *turn, kill <-chan struct{}, most int) run.Outcome {
	l.attend(ctx, t, kill)
	select {
	case <-t.done:
		if l.ctx.Err() != nil { // the answer was its last word; nothing is left when the run ends
			<-l.over
		}
		return t.outcome(most)
	default:
	}
	t.quiet()
	if bad := notStarted(l.err); bad != nil {
		return run.Outcome{Status: run.Failed, Error: bad}
	}
	l.mu.Lock()
	exit := process.Exit{Code: l.exit.Code, Stderr: l.errs.Bytes(), Hit: l.exit.Hit}
	l.mu.Unlock()
	if !l.exit.Began {
		return run.Outcome{Status: run.Stopped}
	}
	return t.cutShort(ctx.Err() != nil, exit, most)
}

// attend waits until a turn is answered or its process is over. The process is told to end when ctx ends first, and killed on kill.
func (l *live) attend(ctx context.Context, t *turn, kill <-chan struct{}) {
	stop := ctx.Done()
	for !t.closed() {
		select {
		case <-t.done:
		case <-l.over:
			return
		case <-stop:
			stop = nil
			if !t.closed() { // else the answer came first
				l.cancel(context.Cause(ctx))
			}
		case <-kill:
			kill = nil
			if !t.closed() {
				l.kill()
			}
		}
	}
}

// shutDown ends the process the polite way, with what patience there is for each step.
func (l *live) shutDown(grace time.Duration) {
	patience := time.NewTimer(grace)
	defer patience.Stop()
	line, _ := executor.Turn{Type: executor.LineShutdown}.Encode()
	select {
	case l.input <- process.Piece{Data: line, Done: func(error) {}}:
		close(l.input)
	case <-l.over:
		return
	case <-patience.C:
		l.cancel(errShut)
		return
	}
	select {
	case <-l.over:
	case <-patience.C:
		l.cancel(errShut)
	}
}
