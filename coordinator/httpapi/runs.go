package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"ao/coordinator"
	"ao/coordinator/audit"
	"ao/coordinator/journal"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/wire"

	"github.com/gin-gonic/gin"
)

// How long requests wait for the end of a run, in seconds (contract section 4).
const (
	syncWait    = 600 // mode sync, where the request does not say
	defaultWait = 60  // GET /runs/{id}/wait
	maxWait     = 600 // likewise, at most
)

// createRun takes a run. What was begun is finished also for a caller that has hung up, so that its repeat finds it.
func (a *API) createRun(g *gin.Context, _ query) (any, error) {
	body, err := a.request(g)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(g.Request.Header)
	if err != nil {
		return nil, err
	}
	streaming := wantsStream(g.Request.Header)
	if streaming { // before anything is stored
		leave, err := a.seats.take(caller(g))
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	acc, err := a.c.Submit(context.WithoutCancel(g.Request.Context()), body, caller(g).Keys(), key)
	if err != nil {
		return nil, err
	}
	a.changed(g, audit.Targets{Run: acc.RunID, Session: acc.SessionID})
	at := "/runs/" + acc.RunID
	if acc.Mode != run.Sync {
		return reply{http.StatusCreated, at, acc}, nil
	}
	of(g).spent()
	a.record(g, http.StatusCreated) // the answer may come long after
	wait := syncWait * time.Second
	if acc.Wait != nil {
		wait = time.Duration(*acc.Wait) * time.Second
	}
	if streaming {
		return a.streamRun(g, acc, wait)
	}
	out, ended, err := a.await(g, wait, func(ctx context.Context) (coordinator.Outcome, bool, error) { return a.c.Finish(ctx, acc) })
	switch {
	case err != nil:
		return nil, err
	case !ended && a.waiting.Err() == nil:
		return reply{http.StatusAccepted, at, acc.Late(wait)}, nil
	case !ended: // we end
		return reply{http.StatusAccepted, at, acc}, nil
	}
	return reply{http.StatusOK, at, out}, nil
}

// await waits for a run's end, at most so long, and no longer than we are there.
func (a *API) await(g *gin.Context, most time.Duration, end func(context.Context) (coordinator.Outcome, bool, error)) (coordinator.Outcome, bool, error) {
	began := time.Now()
	defer func() { of(g).waited = time.Since(began) }()
	waiting, cancel := context.WithTimeout(g.Request.Context(), most)
	defer cancel()
	defer context.AfterFunc(a.waiting, cancel)()
	return end(waiting)
}

// idempotencyKey reads the header; none is no key.
func idempotencyKey(h http.Header) (string, error) {
	all := h.Values("Idempotency-Key")
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", fault.New(fault.Invalid, "", "Idempotency-Key is given more than once; send one").With("field", "Idempotency-Key")
	case strings.TrimSpace(all[0]) == "":
		return "", fault.New(fault.Invalid, "", "Idempotency-Key is empty: give a key, or leave the header out").With("field", "Idempotency-Key")
	}
	return all[0], nil
}

// wantsStream tells whether the caller names event streams among what it accepts.
func wantsStream(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Accept"), func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(one string) bool {
			kind, _, _ := strings.Cut(one, ";")
			return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
		})
	})
}

func (a *API) validateRun(g *gin.Context, _ query) (any, error) {
	body, err := a.request(g)
	if err != nil {
		return nil, err
	}
	return a.c.Validate(g.Request.Context(), body)
}

// listing reads the parameters of a list.
func listing(q query) (journal.Query, error) {
	f := journal.Query{
		Statuses: q.list("status"), Session: q.check("session_id", run.CheckSessionID), Parent: q.check("parent_session_id", run.CheckSessionID),
		CreatedAfter: q.moment("created_after"), Limit: q.number("limit", 0, 1, 1000), Cursor: q.text("cursor"),
		Agent: q.check("agent_name", func(name string) error { return agent.CheckName("agent_name", name) }),
	}
	return f, q.err
}

func (a *API) listRuns(g *gin.Context, q query) (any, error) {
	f, err := listing(q)
	if err != nil {
		return nil, err
	}
	p, err := a.c.Runs(g.Request.Context(), f)
	p.Runs = orEmpty(p.Runs)
	return p, err
}

// runID is the id in the path.
func runID(g *gin.Context) (string, error) {
	id := g.Param("id")
	return id, run.CheckID(id)
}

func (a *API) showRun(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	return a.c.Show(g.Request.Context(), id)
}

func (a *API) runResult(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	res, _, err := a.c.Result(g.Request.Context(), id)
	return res, err
}

func (a *API) waitRun(g *gin.Context, q query) (any, error) {
	seconds := q.number("timeout_seconds", defaultWait, 0, maxWait)
	id, err := runID(g)
	if err == nil {
		err = q.err
	}
	if err != nil {
		return nil, err
	}
	out, ended, err := a.await(g, time.Duration(seconds)*time.Second, func(ctx context.Context) (coordinator.Outcome, bool, error) { return a.c.Await(ctx, id) })
	switch {
	case err != nil:
		return nil, err
	case !ended:
		return reply{status: http.StatusAccepted, body: out.Run}, nil
	}
	return out, nil
}

func (a *API) stopRun(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	how, err := a.stopOf(g)
	if err != nil {
		return nil, err
	}
	return a.c.StopRun(context.WithoutCancel(g.Request.Context()), id, how.Tree)
}

// stop is how a run or session is stopped.
type stop struct {
	Tree bool `json:"tree,omitempty"`
}

// stopOf reads the body of a stop; none is an empty one.
func (a *API) stopOf(g *gin.Context) (s stop, err error) {
	if g.Request.ContentLength == 0 {
		return s, nil
	}
	raw, err := a.body(g)
	if err == nil && len(bytes.TrimSpace(raw)) > 0 {
		err = wire.Decode(raw, &s)
	}
	a.changed(g, audit.Targets{Tree: s.Tree})
	return s, err
}
