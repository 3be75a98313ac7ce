package httpapi

import (
	"context"

	"ao/coordinator/checkup"

	"github.com/gin-gonic/gin"
)

// insightAPI answers who wants to know how everything stands, and why.
type insightAPI struct {
	insight Insight
	checkup func(context.Context) checkup.Report
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

// doctor tells what of the deployment is not as it should be.
func (a *insightAPI) doctor(g *gin.Context, _ query) (any, error) {
	return a.checkup(g.Request.Context()), nil
}
