package httpapi

import (
	"context"

	"ao/coordinator/audit"
	"ao/coordinator/checkup"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// insightAPI answers who wants to know how everything stands, and why.
type insightAPI struct {
	insight Insight
	checkup func(context.Context) checkup.Report
	trail   Trail
	audits  chan struct{} // holds one for the audit under way
}

// explain tells why a run waits, or why it ended so; to an executor's session without what belongs to others.
func (a *insightAPI) explain(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	return a.insight.Explain(g.Request.Context(), id, caller(g).Session != "")
}

// status is how everything stands: for who looks once a second.
func (a *insightAPI) status(g *gin.Context, _ query) (any, error) {
	return a.insight.Status(g.Request.Context()), nil
}

// ledger audits the stream: that takes a while and some memory where the history is long, so one at a time.
func (a *insightAPI) ledger(g *gin.Context, _ query) (any, error) {
	ctx := g.Request.Context()
	select {
	case a.audits <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.audits }()
	return a.insight.Ledger(ctx)
}

// trailPage is how many entries a page of the audit has, where nobody says so.
const trailPage = 50

// audit tells who changed what, and who was refused.
func (a *insightAPI) audit(g *gin.Context, q query) (any, error) {
	want := audit.Query{
		Actor: q.text("actor"), Action: q.text("action"), Run: q.check("run", run.CheckID),
		After: q.moment("after"), Cursor: q.text("cursor"), Limit: q.number("limit", trailPage, 1, 1000),
	}
	if q.err != nil {
		return nil, q.err
	}
	return a.trail.Audited(g.Request.Context(), want)
}

// doctor tells what of the deployment is not as it should be.
func (a *insightAPI) doctor(g *gin.Context, _ query) (any, error) {
	return a.checkup(g.Request.Context()), nil
}
