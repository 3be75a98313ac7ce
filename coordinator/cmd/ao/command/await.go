package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// longPoll is how long one request waits for the end of a run.
const longPoll = 20 * time.Second

// awaitRun waits for the end of a run, telling its progress on the way, prints its result, and ends with the run's exit
// code. A limit of 0 is none. What is lost on the way is a connection, never the run.
func (a *app) awaitRun(ctx context.Context, r run.Run, limit time.Duration, quiet bool) error {
	waiting := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	p := &progress{app: a, run: r.ID, session: r.SessionID, status: r.Status, quiet: quiet || a.json}
	finish := p.follow(waiting)
	doc, err := a.waitForEnd(waiting, r.ID, p.state)
	finish()
	switch {
	case ctx.Err() != nil && a.json:
		return a.reportDetached(exitInterrupted, "interrupted", "interrupted; the run goes on", r)
	case errors.Is(err, context.DeadlineExceeded) && a.json:
		return a.reportDetached(exitWaitTimeout, "wait_timeout", "the time to wait was over; the run goes on", r)
	case ctx.Err() != nil:
		a.note("\nThe run goes on.\n  ao wait %s   waits for it again\n  ao stop %s   stops it", r.ID, r.ID)
		return exitCode(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		a.note("%s goes on; 'ao wait %s' waits for it again, 'ao stop %s' stops it", r.ID, r.ID, r.ID)
		return exitCode(exitWaitTimeout)
	case err != nil:
		if client.Temporary(err) {
			a.note("Whatever became of the connection, the run goes on: 'ao wait %s' waits for it again", r.ID)
		}
		return err
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		return err
	}
	return a.printOutcome(r, doc, p.transcriptEnd())
}

// reportDetached tells a program which run it left alone, on standard error.
func (a *app) reportDetached(code int, name, message string, r run.Run) error {
	doc, err := json.Marshal(fault.New(fault.Unavailable, name, message).With("run_id", r.ID).With("session_id", r.SessionID))
	if err != nil {
		return err
	}
	a.errs.println(screen.JSON(doc))
	return exitCode(code)
}

// waitForEnd asks until the run has ended; meanwhile state learns how it stands.
func (a *app) waitForEnd(ctx context.Context, id string, state func(run.Run)) (json.RawMessage, error) {
	for each := time.Second; ; each = longPoll { // the first answer tells soon why a run waits
		answer, err := a.client.DoWithRetry(ctx, client.Call{
			Path: []string{"runs", id, "wait"}, Query: url.Values{"timeout_seconds": {strconv.Itoa(int(each / time.Second))}}, Wait: each,
		})
		if err != nil || answer.Status != http.StatusAccepted {
			return answer.Doc, err
		}
		var r run.Run
		if err := json.Unmarshal(answer.Doc, &r); err != nil {
			return nil, fmt.Errorf("the run cannot be read: %w", err)
		}
		state(r)
	}
}

// progress is what was told of a run so far.
type progress struct {
	app        *app
	run        string
	session    string
	quiet      bool // tell nothing
	ended      bool
	after      string // position of what was told last
	transcript []byte // the end of the messages that were told

	mu     sync.Mutex
	status run.Status
	why    string // it waits
}

// follow tells what happens in a run while it is waited for. finish tells the rest of it, once the run has ended.
func (p *progress) follow(ctx context.Context) (finish func()) {
	if p.quiet {
		return func() {}
	}
	following, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := p.app.client.WithoutNotices().Follow(following, p.session, "", func(at string) { p.after = at }, p.message)
		if err != nil && following.Err() == nil {
			p.app.note("its events cannot be shown: %v", err) // the run is waited for all the same
		}
	})
	return func() {
		cancel()
		wg.Wait()
		if ctx.Err() == nil && !p.ended { // what the stream had not told yet
			_, _ = p.app.client.Events(ctx, p.session, p.after, p.event)
		}
	}
}

func (p *progress) event(raw json.RawMessage) (enough bool) {
	e, ok := readEvent(raw)
	if !ok || e.RunID != p.run {
		return false
	}
	if p.ended = endsRun(e); p.ended {
		return true // how it ended is told with the result
	}
	if e.Type != run.EventResult {
		p.app.note("%s", timestamped(e, describeEvent(e)))
	}
	var b eventBody
	if e.Type == run.EventMessage && json.Unmarshal(e.Body, &b) == nil {
		p.transcript = append(append(p.transcript, strings.TrimSpace(b.text())...), '\n')
		p.transcript = p.transcript[max(0, len(p.transcript)-maxTranscript):]
	}
	return false
}

const maxTranscript = 64 << 10 // bytes; what a run says of its failure is shorter

// transcriptEnd is the end of what a run's messages told, once follow has finished.
func (p *progress) transcriptEnd() string { return "\n" + strings.TrimSpace(string(p.transcript)) }

func (p *progress) message(m client.Message) (enough bool) {
	switch m.Name {
	case "event":
		return p.event(m.Data)
	case "run_updated":
		var r run.Run
		if json.Unmarshal(m.Data, &r) == nil && r.ID == p.run {
			p.state(r)
		}
	}
	return false
}

// state tells of a status that no event tells of.
func (p *progress) state(r run.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet || r.Status == p.status && (r.WaitingFor == p.why || r.WaitingFor == "") {
		return
	}
	p.status, p.why = r.Status, r.WaitingFor
	now := p.app.now().Local().Format(time.TimeOnly)
	switch {
	case r.Status == run.Pending && r.WaitingFor != "":
		p.app.note("%s  waits for %s", now, screen.Line(r.WaitingFor))
	case r.Status == run.Stopping:
		p.app.note("%s  stopping", now)
	}
}

// printOutcome prints what a run came to, its result on stdout and the rest beside it, and ends with its exit code. What was
// said on the way is not said again.
func (a *app) printOutcome(r run.Run, doc json.RawMessage, transcript string) error {
	if a.json {
		if err := a.printDoc(doc); err != nil {
			return err
		}
		return exitError(r)
	}
	var o struct {
		Result *run.Result `json:"result"` // null: it left none
	}
	if err := json.Unmarshal(doc, &o); err != nil {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	var exitCode *int
	if o.Result != nil {
		// What an agent said before its run failed is no answer, and whoever takes stdout for one must not get it. A program's
		// output belongs to its exit code.
		if exitCode = o.Result.ExitCode; r.Status == run.Completed || exitCode != nil {
			if err := showResult(a, *o.Result); err != nil {
				return err
			}
		}
	}
	if r.Error != nil && strings.HasSuffix(transcript, "\n"+strings.TrimLeft(r.Error.Message, "…\n")) {
		known := *r.Error
		known.Message = ""
		r.Error = &known
	}
	a.note("%s", summary(r, exitCode))
	return exitError(r)
}

func exitError(r run.Run) error {
	if code := exitOf[r.Status]; code != exitDone {
		return exitCode(code)
	}
	return nil
}

// summary says how a run ended.
func summary(r run.Run, exitCode *int) string {
	s := string(r.Status)
	if r.StartedAt != nil && r.EndedAt != nil {
		s += " in " + screen.Duration(r.EndedAt.Sub(*r.StartedAt))
	} else if r.EndedAt != nil {
		s += " in " + screen.Duration(r.EndedAt.Sub(r.CreatedAt))
	}
	if exitCode != nil && *exitCode != 0 {
		s += ", exit code " + strconv.Itoa(*exitCode)
	}
	if r.Error != nil {
		s += ": " + strings.Join(faultLines(r.Error), "\n")
	}
	return s
}

// showResult prints a result: text as it is, data as indented JSON; of a program's output its stdout.
func showResult(a *app, res run.Result) error {
	if o, ok := programOutputOf(res); ok {
		res.Text = &o.Stdout
	}
	switch {
	case res.Text != nil && a.terminal:
		return a.print(screen.Text(withNewline(*res.Text)))
	case res.Text != nil && res.Type == run.Autonomous: // a model ends its last line as it likes
		return a.print(withNewline(*res.Text))
	case res.Text != nil:
		return a.print(*res.Text)
	case len(res.Data) > 0:
		return a.printPretty(res.Data)
	}
	return nil
}

// programOutput is what a program printed that printed no JSON.
type programOutput struct {
	Code   *int   `json:"return_code"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// programOutputOf tells whether a result is a program's output: these three members, and the run's own exit code.
func programOutputOf(res run.Result) (o programOutput, ok bool) {
	members, err := strictjson.Members(res.Data)
	if err != nil || len(members) != 3 || res.Type != run.Procedural || res.ExitCode == nil {
		return o, false
	}
	return o, strictjson.Decode(res.Data, &o) == nil && o.Code != nil && *o.Code == *res.ExitCode
}

func withNewline(s string) string {
	if s == "" || s[len(s)-1] == '\n' {
		return s
	}
	return s + "\n"
}
