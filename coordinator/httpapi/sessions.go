package httpapi

import (
	"context"

	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

func (a *API) listSessions(g *gin.Context, q query) (any, error) {
	f, err := listing(q)
	if err != nil {
		return nil, err
	}
	return a.c.Sessions(g.Request.Context(), f)
}

// sessionID is the id in the path.
func sessionID(g *gin.Context) (string, error) {
	id := g.Param("id")
	return id, run.CheckSessionID(id)
}

func (a *API) showSession(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	return a.c.Session(g.Request.Context(), id)
}

func (a *API) sessionStatus(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	s, err := a.c.Session(g.Request.Context(), id)
	return struct {
		ID     string            `json:"session_id"`
		Status run.SessionStatus `json:"status"`
	}{s.ID, s.Status}, err
}

func (a *API) sessionResult(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	res, _, err := a.c.SessionResult(g.Request.Context(), id)
	return res, err
}

func (a *API) stopSession(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	how, err := a.stopOf(g)
	if err != nil {
		return nil, err
	}
	return a.c.StopSession(context.WithoutCancel(g.Request.Context()), id, how.Tree)
}

func (a *API) deleteSession(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err == nil {
		err = a.noBody(g)
	}
	if err != nil {
		return nil, err
	}
	return nil, a.c.DeleteSession(context.WithoutCancel(g.Request.Context()), id)
}
