package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/gin-gonic/gin"
)

// runsAPI serves runs.
type runsAPI struct {
	runs        Runs
	more        Bulk
	definitions Definitions
	sessions    Sessions
	streams     *streamsAPI // for readers of a sync run's events
	audit       *recorder
	ends        *shutdown
	exports     *places // of exports in progress
}

// Limits of waiting for the end of a run, in seconds.
const (
	syncWait    = 600 // default of mode sync
	defaultWait = 60  // GET /runs/{id}/wait
	maxWait     = 600 // most of GET /runs/{id}/wait
)

// create starts a run. It completes also if the caller disconnects, so that a repeat finds the run.
func (a *runsAPI) create(g *gin.Context, q request) (any, error) {
	body, err := a.submission(g, q)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(g.Request.Header)
	if err != nil {
		return nil, err
	}
	return a.accepted(g, func(ctx context.Context) (runs.Accepted, error) {
		return a.runs.Submit(ctx, body, caller(g).KeyScope(), key)
	})
}

// accepted answers a stored run as its mode asks: at once, or when it has ended.
func (a *runsAPI) accepted(g *gin.Context, submit func(context.Context) (runs.Accepted, error)) (any, error) {
	streaming := wantsStream(g.Request.Header)
	if streaming { // before anything is stored
		leave, err := a.streams.reserve(g)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	acc, err := submit(context.WithoutCancel(g.Request.Context()))
	if err != nil {
		return nil, err
	}
	a.audit.changed(g, audit.Targets{Run: acc.RunID, Session: acc.SessionID})
	at := "/runs/" + acc.RunID
	if acc.Mode != run.Sync {
		return reply{http.StatusCreated, at, acc}, nil
	}
	exchangeOf(g).free()
	a.audit.record(g, http.StatusCreated) // the answer may come much later
	wait := syncWait * time.Second
	if acc.Wait != nil {
		wait = time.Duration(*acc.Wait) * time.Second
	}
	if streaming {
		return a.streams.run(g, acc, wait)
	}
	out, ended, err := a.await(g, wait, func(ctx context.Context) (runs.Outcome, bool, error) {
		return a.runs.Finish(ctx, acc)
	})
	switch {
	case err != nil:
		return nil, err
	case !ended && a.ends.waiting.Err() == nil:
		return reply{http.StatusAccepted, at, acc.TimedOut(wait)}, nil
	case !ended: // this process is shutting down
		return reply{http.StatusAccepted, at, acc}, nil
	}
	return reply{http.StatusOK, at, out}, nil
}

// await waits for the end of a run, or until this process shuts down.
func (a *runsAPI) await(g *gin.Context, most time.Duration, end func(context.Context) (runs.Outcome, bool, error)) (
	runs.Outcome, bool, error) {
	began := time.Now()
	defer func() { exchangeOf(g).waited = time.Since(began) }()
	waiting, cancel := context.WithTimeout(g.Request.Context(), most)
	defer cancel()
	defer context.AfterFunc(a.ends.waiting, cancel)()
	return end(waiting)
}

// idempotencyKey reads the header; empty: it is missing.
func idempotencyKey(h http.Header) (string, error) {
	return runs.SentKey("Idempotency-Key", h.Values("Idempotency-Key"))
}

// wantsStream reports whether the caller accepts event streams.
func wantsStream(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Accept"), func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(one string) bool {
			kind, _, _ := strings.Cut(one, ";")
			return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
		})
	})
}

// submission returns the request for a run. With a session token, it becomes the session's.
func (a *runsAPI) submission(g *gin.Context, q request) ([]byte, error) {
	if own := caller(g).Session; own != "" {
		return a.sessions.AsSession(g.Request.Context(), own, q.body)
	}
	return q.body, nil
}

func (a *runsAPI) validate(g *gin.Context, q request) (any, error) {
	return reported(g, q, func() (runs.Validation, error) {
		body, err := a.submission(g, q)
		if err != nil {
			return runs.Validation{}, err
		}
		return a.runs.Validate(g.Request.Context(), body)
	})
}

// listing reads the parameters of a list.
func listing(q params) (query.Query, error) {
	f := query.Query{
		Statuses: q.list("status"), Session: q.check("session_id", run.CheckSessionID),
		Parent:       q.check("parent_session_id", run.CheckSessionID),
		CreatedAfter: q.moment("created_after"), Limit: q.number("limit", 0, 1, 1000), Cursor: q.text("cursor"),
		Agent: q.check("agent_name", func(name string) error { return agent.CheckName("agent_name", name) }),
	}
	return f, q.err
}

// listingRuns reads the parameters of a list of runs.
func listingRuns(q params) (query.Query, error) {
	f, err := listing(q)
	f.Runner, f.Roots = q.check("runner_id", runnerapi.CheckID), q.flag("roots")
	f.RetryOf, f.Text = q.check("retry_of", run.CheckID), q.text("q")
	f.AgentHash = q.check("agent_hash", agent.CheckHash)
	return f, cmp.Or(err, q.err)
}

func (a *runsAPI) list(g *gin.Context, q request) (any, error) {
	format := q.text("format")
	if as, ok := exports[format]; ok {
		return a.export(g, q, as)
	}
	if format != "" && format != formatJSON {
		q.fail("format", fmt.Sprintf("format must be %s, %s or %s, got %.40q", formatJSON, formatCSV, formatNDJSON,
			format))
	}
	f, err := listingRuns(q.params)
	if err != nil {
		return nil, err
	}
	return a.runs.Runs(g.Request.Context(), f)
}

// definition shows what a run runs, with what its caller may see of an agent.
func (a *runsAPI) definition(g *gin.Context, q request) (any, error) {
	d, err := a.definitions.Definition(g.Request.Context(), q.id)
	d.Definition = shownTo(caller(g), agents.View{Blueprint: d.Definition}).Blueprint
	return d, err
}

func (a *runsAPI) result(g *gin.Context, q request) (any, error) {
	return shortened(&q.params, q.id+".result.json", func() (any, error) {
		res, _, err := a.runs.Result(g.Request.Context(), q.id)
		return res, err
	})
}

func (a *runsAPI) wait(g *gin.Context, q request) (any, error) {
	seconds := q.number("timeout_seconds", defaultWait, 0, maxWait)
	if q.err != nil {
		return nil, q.err
	}
	out, ended, err := a.await(g, time.Duration(seconds)*time.Second, func(ctx context.Context) (runs.Outcome, bool,
		error) {
		return a.runs.Await(ctx, q.id)
	})
	switch {
	case err != nil:
		return nil, err
	case !ended:
		return reply{status: http.StatusAccepted, body: out.Run}, nil
	}
	return out, nil
}

// stop is the body of a stop.
type stop struct {
	Tree bool `json:"tree,omitempty"`
}

func (a *runsAPI) stop(g *gin.Context, q request) (any, error) {
	var how stop
	err := q.decode(&how)
	a.audit.changed(g, audit.Targets{Tree: how.Tree})
	if err != nil {
		return nil, err
	}
	return a.runs.StopRun(context.WithoutCancel(g.Request.Context()), q.id, how.Tree)
}

// retry retries the run in the path with the changes in the body.
func (a *runsAPI) retry(g *gin.Context, q request) (any, error) {
	key, err := idempotencyKey(g.Request.Header)
	if err != nil {
		return nil, err
	}
	again := runs.Retry{RunID: q.id, Scope: caller(g).KeyScope(), Key: key, Changes: q.body}
	if own := caller(g).Session; own != "" {
		again.ForSession = func(ctx context.Context, request []byte) ([]byte, error) {
			return a.sessions.AsSession(ctx, own, request)
		}
	}
	return a.accepted(g, func(ctx context.Context) (runs.Accepted, error) { return a.more.Retry(ctx, again) })
}
