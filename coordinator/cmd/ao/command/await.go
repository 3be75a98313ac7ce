package command

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"
	"ao/shared/run"
)

// stride is how long one request waits for the end of a run.
const stride = 20 * time.Second

// await waits for the end of a run, telling its progress on the way, prints its result, and ends with the run's exit
// code. A limit of 0 is none. What is lost on the way is a connection, never the run.
func (a *app) await(ctx context.Context, r run.Run, limit time.Duration, quiet bool) error {
	waiting := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	finish := func() {}
	if !quiet && !a.json {
		finish = a.progress(waiting, r)
	}
	doc, err := a.end(waiting, r.ID)
	finish()
	switch {
	case ctx.Err() != nil:
		a.note("\nThe run goes on.\n  ao wait %s   waits for it again\n  ao stop %s   stops it", r.ID, r.ID)
		return ended(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		a.note("%s goes on; 'ao wait %s' waits for it again, 'ao stop %s' stops it", r.ID, r.ID, r.ID)
		return ended(exitGoesOn)
	case err != nil:
		if client.Passing(err) {
			a.note("Whatever became of the connection, the run goes on: 'ao wait %s' waits for it again", r.ID)
		}
		return err
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		return err
	}
	return a.outcome(ctx, r, doc)
}

// end asks until the run has ended.
func (a *app) end(ctx context.Context, id string) (json.RawMessage, error) {
	seconds := strconv.Itoa(int(stride / time.Second))
	for {
		answer, err := a.client.Insist(ctx, client.Call{
			Path: []string{"runs", id, "wait"}, Query: url.Values{"timeout_seconds": {seconds}}, Wait: stride,
		})
		if err != nil || answer.Status != http.StatusAccepted {
			return answer.Doc, err
		}
	}
}

// progress tells what happens in a run while it is waited for. finish tells the rest of it, once the run has ended.
func (a *app) progress(ctx context.Context, r run.Run) (finish func()) {
	following, cancel := context.WithCancel(ctx)
	p := &progress{app: a, run: r.ID, status: r.Status}
	var wg sync.WaitGroup
	wg.Go(func() {
		after, err := a.client.Events(following, r.SessionID, "", p.event)
		p.after = after
		if err == nil && !p.ended {
			err = a.client.Quiet().Follow(following, r.SessionID, after, func(at string) { p.after = at }, p.message)
		}
		if err != nil && following.Err() == nil {
			a.note("its events cannot be shown: %v", err) // the run is waited for all the same
		}
	})
	return func() {
		cancel()
		wg.Wait()
		if ctx.Err() == nil && !p.ended { // what the stream had not told yet
			_, _ = a.client.Events(ctx, r.SessionID, p.after, p.event)
		}
	}
}

// progress is what was told of a run so far.
type progress struct {
	app    *app
	run    string
	status run.Status
	why    string // it waits
	after  string // position of what was told last
	ended  bool
}

func (p *progress) event(raw json.RawMessage) (enough bool) {
	e, ok := eventIn(raw)
	if !ok || e.RunID != p.run {
		return false
	}
	if p.ended = final(e); p.ended {
		return true // how it ended is told with the result
	}
	if e.Type != run.EventResult {
		p.app.note("%s", stamped(e, told(e)))
	}
	return false
}

func (p *progress) message(m client.Message) (enough bool) {
	switch m.Name {
	case "event":
		return p.event(m.Data)
	case "run_updated":
		var r run.Run
		if json.Unmarshal(inner(m.Data, "run"), &r) == nil && r.ID == p.run {
			p.state(r)
		}
	case "gap":
		p.app.note("some of its events are gone: they were kept no longer")
	}
	return false
}

// state tells of a status that nothing else tells of.
func (p *progress) state(r run.Run) {
	if r.Status == p.status && r.WaitingFor == p.why {
		return
	}
	p.status, p.why = r.Status, r.WaitingFor
	switch {
	case r.Status == run.Pending && r.WaitingFor != "":
		p.app.note("%s  waits: %s", p.app.now().Local().Format(time.TimeOnly), screen.Line(r.WaitingFor))
	case r.Status == run.Claimed && r.RunnerID != "":
		p.app.note("%s  taken by %s", p.app.now().Local().Format(time.TimeOnly), screen.Line(r.RunnerID))
	case r.Status == run.Stopping:
		p.app.note("%s  stopping", p.app.now().Local().Format(time.TimeOnly))
	}
}

// outcome prints what a run came to, its result on stdout and the rest beside it, and ends with its exit code.
func (a *app) outcome(ctx context.Context, r run.Run, doc json.RawMessage) error {
	result, err := a.client.Get(ctx, nil, "runs", r.ID, "result")
	if refused, ok := errors.AsType[*client.Refused](err); ok && r.Status != run.Completed && refused.Status < 500 {
		result, err = nil, nil // it left none
	}
	if err != nil {
		return err
	}
	if a.json {
		if result == nil {
			result = json.RawMessage("null")
		}
		if err := a.doc(withResult(doc, result)); err != nil {
			return err
		}
		return verdict(r)
	}
	var res run.Result
	if result != nil {
		if err := json.Unmarshal(result, &res); err != nil {
			return err
		}
		if err := a.showResult(res); err != nil {
			return err
		}
	}
	a.note("%s", summary(r, res.ExitCode))
	return verdict(r)
}

// withResult is the run and its result in one document, as mode sync answers (contract section 4).
func withResult(doc, result json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || members["result"] != nil || len(members) == 0 {
		return doc
	}
	out := append(json.RawMessage{}, doc[:len(doc)-1]...)
	return append(append(append(out, `,"result":`...), result...), '}')
}

func verdict(r run.Run) error {
	if code := exitOf[r.Status]; code != exitDone {
		return ended(code)
	}
	return nil
}

// summary says how a run ended.
func summary(r run.Run, exitCode *int) string {
	s := string(r.Status)
	if r.StartedAt != nil && r.EndedAt != nil {
		s += " in " + screen.Took(r.EndedAt.Sub(*r.StartedAt))
	} else if r.EndedAt != nil {
		s += " in " + screen.Took(r.EndedAt.Sub(r.CreatedAt))
	}
	if exitCode != nil && *exitCode != 0 {
		s += ", exit code " + strconv.Itoa(*exitCode)
	}
	if r.Error != nil {
		s += ": " + strings.Join(faultLines(r.Error), "\n")
	}
	return s
}

// showResult prints a result: text as it is, data as indented JSON.
func (a *app) showResult(res run.Result) error {
	switch {
	case res.Text != nil && a.terminal:
		return a.print(screen.Text(endLine(*res.Text)))
	case res.Text != nil:
		return a.print(*res.Text)
	case len(res.Data) > 0:
		return a.pretty(res.Data)
	}
	return nil
}

func endLine(s string) string {
	if s == "" || s[len(s)-1] == '\n' {
		return s
	}
	return s + "\n"
}
