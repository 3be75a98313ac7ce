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

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// longPoll is how long one request waits until a run ends.
const longPoll = 20 * time.Second

// awaitRun waits until a run ends, shows its progress, prints its result and returns its exit code. A limit of 0
// means no limit. Lost connections are retried; the run is not affected.
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
		return a.reportDetached(exitInterrupted, "interrupted", "interrupted; the run continues", r)
	case errors.Is(err, context.DeadlineExceeded) && a.json:
		return a.reportDetached(exitWaitTimeout, "wait_timeout", "the wait timed out; the run continues", r)
	case ctx.Err() != nil:
		a.note("\nThe run continues.\n  ao wait %s   wait for it again\n  ao stop %s   stop it", r.ID, r.ID)
		return exitCode(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		a.note("%s continues; 'ao wait %s' waits for it again, 'ao stop %s' stops it", r.ID, r.ID, r.ID)
		return exitCode(exitWaitTimeout)
	case err != nil:
		if client.Temporary(err) {
			a.note("the run continues without this connection; 'ao wait %s' waits for it again", r.ID)
		}
		return err
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		return err
	}
	return a.printOutcome(r, doc, p.transcriptEnd())
}

// reportDetached prints the run that continues, as JSON on standard error.
func (a *app) reportDetached(code int, name, message string, r run.Run) error {
	doc, err := strictjson.Encode(fault.New(fault.Unavailable, name, message).With("run_id", r.ID).With("session_id",
		r.SessionID))
	if err != nil {
		return err
	}
	a.errs.println(screen.JSON(doc))
	return exitCode(code)
}

// waitForEnd polls until the run has ended and calls state with each document before.
func (a *app) waitForEnd(ctx context.Context, id string, state func(run.Run)) (json.RawMessage, error) {
	for each := time.Second; ; each = longPoll { // a short first poll shows early why a run is waiting
		answer, err := a.client.Do(ctx, client.Call{
			Path: []string{"runs", id, "wait"}, Query: url.Values{
				"timeout_seconds": {strconv.Itoa(int(each / time.Second))}}, Wait: each,
		})
		if err != nil || answer.Status != http.StatusAccepted {
			return answer.Document, err
		}
		var r run.Run
		if err := json.Unmarshal(answer.Document, &r); err != nil {
			return nil, fmt.Errorf("the run cannot be read: %w", err)
		}
		state(r)
	}
}

// progress shows the progress of a run.
type progress struct {
	app        *app
	run        string
	session    string
	quiet      bool // show nothing
	ended      bool
	after      string // position of the last event shown
	transcript []byte // end of the messages shown

	mu     sync.Mutex
	status run.Status
	why    string // reason for waiting
}

// follow shows the run's events in the background. finish stops it and shows the rest once the run has ended.
func (p *progress) follow(ctx context.Context) (finish func()) {
	if p.quiet {
		return func() {}
	}
	following, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		silent := p.app.client.WithNotice(nil) // the poll beside it gives them
		for m, err := range silent.Follow(following, p.session, "") {
			if err != nil && following.Err() == nil {
				p.app.note("its events cannot be shown: %v", err) // the wait continues
			}
			if err != nil || p.message(m) {
				return
			}
			p.after = m.Position
		}
	})
	return func() {
		cancel()
		wg.Wait()
		if ctx.Err() == nil && !p.ended { // events that the stream did not deliver
			for e, err := range p.app.once.ListEvents(ctx, p.session, p.after) {
				if err != nil || p.event(e.Document) {
					return
				}
			}
		}
	}
}

func (p *progress) event(raw json.RawMessage) (enough bool) {
	e, ok := readEvent(raw)
	if !ok || e.RunID != p.run {
		return false
	}
	p.ended = endsRun(e)
	if p.ended {
		return true // the end is shown with the result
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

const maxTranscript = 64 << 10 // bytes; a run's error message is shorter

// transcriptEnd returns the end of the messages shown, after finish.
func (p *progress) transcriptEnd() string { return "\n" + strings.TrimSpace(string(p.transcript)) }

func (p *progress) message(m client.Message) (enough bool) {
	switch m.Name {
	case "event":
		return p.event(m.Document)
	case "run_updated":
		var r run.Run
		if json.Unmarshal(m.Document, &r) == nil && r.ID == p.run {
			p.state(r)
		}
	}
	return false
}

// state shows changes of status that have no event.
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

// printOutcome prints the result on stdout and a summary on stderr, and returns the exit code. An error message that
// was shown as progress is not repeated.
func (a *app) printOutcome(r run.Run, doc json.RawMessage, transcript string) error {
	if a.json {
		a.printDoc(doc)
		return exitError(r)
	}
	var o struct {
		Result *run.Result `json:"result"` // null: no result
	}
	if err := json.Unmarshal(doc, &o); err != nil {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	var exitCode *int
	if o.Result != nil {
		// Text of a failed run is no answer and must not go to stdout. A program's output is printed with its exit
		// code.
		exitCode = o.Result.ExitCode
		if r.Status == run.Completed || exitCode != nil {
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

// summary describes how a run ended.
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

// showResult prints a result: text as it is, data as indented JSON, the stdout of a program's output.
func showResult(a *app, res run.Result) error {
	if res.Note != "" {
		a.note("%s", res.Note)
	}
	if o, ok := programOutputOf(res); ok {
		res.Text = &o.Stdout
	}
	switch {
	case res.Text != nil && a.terminal:
		return a.print(screen.Text(withNewline(*res.Text)))
	case res.Text != nil && res.Type == run.Autonomous: // models may omit the last line end
		return a.print(withNewline(*res.Text))
	case res.Text != nil:
		return a.print(*res.Text)
	case len(res.Data) > 0:
		return a.printPretty(res.Data)
	}
	return nil
}

// programOutput is the output of a program that printed no JSON.
type programOutput struct {
	Code   *int   `json:"return_code"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// programOutputOf reports whether a result is a program's output: exactly these members, with the run's exit code.
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
