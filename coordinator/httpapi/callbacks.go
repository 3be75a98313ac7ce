package httpapi

import "github.com/gin-gonic/gin"

// callbacksAPI answers for callbacks.
type callbacksAPI struct{ callbacks Callbacks }

// list lists the runs that call back; status is the callback's.
func (a *callbacksAPI) list(g *gin.Context, q query) (any, error) {
	f, err := listing(q)
	if err != nil {
		return nil, err
	}
	p, err := a.callbacks.Callbacks(g.Request.Context(), f)
	p.Runs = orEmpty(p.Runs)
	return p, err
}

// redeliver has an HTTP callback that failed tried again.
func (a *callbacksAPI) redeliver(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	return a.callbacks.Redeliver(g.Request.Context(), id)
}
