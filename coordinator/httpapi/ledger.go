package httpapi

import "github.com/gin-gonic/gin"

// ledger audits the stream: that takes a while and some memory where the history is long, so one at a time.
func (a *API) ledger(g *gin.Context, _ query) (any, error) {
	ctx := g.Request.Context()
	select {
	case a.audits <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.audits }()
	return a.c.Ledger(ctx)
}
