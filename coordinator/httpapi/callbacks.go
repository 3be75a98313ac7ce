package httpapi

import "github.com/gin-gonic/gin"

// listCallbacks lists the runs that call back; status is the callback's.
func (a *API) listCallbacks(g *gin.Context, q query) (any, error) {
	f, err := listing(q)
	if err != nil {
		return nil, err
	}
	p, err := a.c.Callbacks(g.Request.Context(), f)
	p.Runs = orEmpty(p.Runs)
	return p, err
}

// redeliver has an HTTP callback that failed tried again.
func (a *API) redeliver(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	return a.c.Redeliver(g.Request.Context(), id)
}
