package httpapi

import (
	"context"

	"ao/coordinator/runs"

	"github.com/gin-gonic/gin"
)

// retry retries the run in the path with the changes in the body.
func (a *runsAPI) retry(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	q := runs.Retry{RunID: id, Scope: caller(g).KeyScope()}
	if g.Request.ContentLength != 0 {
		q.Changes, err = a.in.body(g)
		if err != nil {
			return nil, err
		}
	}
	q.Key, err = idempotencyKey(g.Request.Header)
	if err != nil {
		return nil, err
	}
	if own := caller(g).Session; own != "" {
		q.ForSession = func(ctx context.Context, request []byte) ([]byte, error) {
			return a.sessions.AsSession(ctx, own, request)
		}
	}
	return a.accepted(g, func(ctx context.Context) (runs.Accepted, error) { return a.more.Retry(ctx, q) })
}
