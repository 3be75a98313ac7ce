package httpapi

import "github.com/gin-gonic/gin"

// callbacksAPI serves callbacks.
type callbacksAPI struct{ callbacks Callbacks }

// list lists runs with callbacks; status filters by the callback's.
func (a *callbacksAPI) list(g *gin.Context, q request) (any, error) {
	f, err := listing(q.query)
	if err != nil {
		return nil, err
	}
	p, err := a.callbacks.Callbacks(g.Request.Context(), f)
	p.Runs = orEmpty(p.Runs)
	return p, err
}

// redeliver tries the webhook of a run again.
func (a *callbacksAPI) redeliver(g *gin.Context, q request) (any, error) {
	return a.callbacks.Redeliver(g.Request.Context(), q.id)
}
