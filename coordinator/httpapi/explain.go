package httpapi

import "github.com/gin-gonic/gin"

// explainRun tells why a run waits, or why it ended so; to an executor's session without what belongs to others.
func (a *API) explainRun(g *gin.Context, _ query) (any, error) {
	id, err := runID(g)
	if err != nil {
		return nil, err
	}
	return a.c.Explain(g.Request.Context(), id, caller(g).Session != "")
}

// status is how everything stands: for who looks once a second.
func (a *API) status(g *gin.Context, _ query) (any, error) {
	return a.c.Status(g.Request.Context()), nil
}
