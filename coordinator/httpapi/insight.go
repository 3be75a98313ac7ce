package httpapi

import (
	"context"

	"ao/coordinator/audit"
	"ao/coordinator/health"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// insightAPI serves the status, explanations and audits.
type insightAPI struct {
	insight Insight
	report  func(context.Context) health.Report
	trail   Trail
	refused Rejected
	audits  slot
	reads   slot // of refused messages, which may be large
}

// explain returns why a run waits or how it ended. A session does not see what belongs to others.
func (a *insightAPI) explain(g *gin.Context, q request) (any, error) {
	return a.insight.Explain(g.Request.Context(), q.id, caller(g).Session != "")
}

// status summarizes the state; it is cheap enough for every second.
func (a *insightAPI) status(g *gin.Context, _ request) (any, error) {
	return a.insight.Status(g.Request.Context()), nil
}

// ledger audits the stream, one audit at a time: it may take long and much memory.
func (a *insightAPI) ledger(g *gin.Context, _ request) (any, error) {
	ctx := g.Request.Context()
	if err := a.audits.enter(ctx); err != nil {
		return nil, err
	}
	defer a.audits.leave()
	return a.insight.Ledger(ctx)
}

// slot lets one in at a time.
type slot chan struct{}

func (s slot) enter(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slot) leave() { <-s }

// refusedMessages lists refused messages of the inbox.
func (a *insightAPI) refusedMessages(g *gin.Context, q request) (any, error) {
	cursor, limit := q.text("cursor"), q.number("limit", 20, 1, 100)
	if q.err != nil {
		return nil, q.err
	}
	ctx := g.Request.Context()
	if err := a.reads.enter(ctx); err != nil {
		return nil, err
	}
	defer a.reads.leave()
	return a.refused.Rejected(ctx, cursor, limit)
}

// acceptDamage accepts what the history has lost.
func (a *insightAPI) acceptDamage(g *gin.Context, _ request) (any, error) {
	return a.insight.AcceptDamage(g.Request.Context())
}

// trailPage is the default number of entries on a page of the audit log.
const trailPage = 50

// audit lists changes and refusals.
func (a *insightAPI) audit(g *gin.Context, q request) (any, error) {
	f := audit.Query{
		Actor: q.text("actor"), Action: q.text("action"), Run: q.check("run", run.CheckID),
		After: q.moment("after"), Cursor: q.text("cursor"), Limit: q.number("limit", trailPage, 1, 1000),
	}
	if q.err != nil {
		return nil, q.err
	}
	return a.trail.Audited(g.Request.Context(), f)
}

// doctor reports what should be improved in the deployment.
func (a *insightAPI) doctor(g *gin.Context, _ request) (any, error) {
	return a.report(g.Request.Context()), nil
}
