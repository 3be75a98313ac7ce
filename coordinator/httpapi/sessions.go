package httpapi

import (
	"context"

	"ao/coordinator/audit"
	"ao/coordinator/sessions"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// sessionsAPI serves sessions.
type sessionsAPI struct {
	sessions Sessions
	in       *intake
	audit    *recorder
}

func (a *sessionsAPI) list(g *gin.Context, q query) (any, error) {
	f, err := listing(q)
	if err != nil {
		return nil, err
	}
	return a.sessions.Sessions(g.Request.Context(), f)
}

// sessionID returns the id in the path.
func sessionID(g *gin.Context) (string, error) {
	id := g.Param("id")
	return id, run.CheckSessionID(id)
}

func (a *sessionsAPI) show(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	return a.sessions.Detail(g.Request.Context(), id)
}

func (a *sessionsAPI) status(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	s, err := a.sessions.Session(g.Request.Context(), id)
	return struct {
		ID     string            `json:"session_id"`
		Status run.SessionStatus `json:"status"`
	}{s.ID, s.Status}, err
}

func (a *sessionsAPI) result(g *gin.Context, q query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	return shortened(&q, id+".result.json", func() (any, error) {
		res, _, err := a.sessions.SessionResult(g.Request.Context(), id)
		return res, err
	})
}

// tree answers GET /sessions/{id}/tree.
func (a *sessionsAPI) tree(g *gin.Context, q query) (any, error) {
	limit := q.number("limit", 0, 1, 1000)
	id, err := sessionID(g)
	if err == nil {
		err = q.err
	}
	if err != nil {
		return nil, err
	}
	return a.sessions.Tree(g.Request.Context(), id, limit, q.text("cursor"))
}

func (a *sessionsAPI) stop(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err != nil {
		return nil, err
	}
	var how sessions.Stop
	err = readOptional(g, a.in, &how)
	a.audit.changed(g, audit.Targets{Tree: how.Tree})
	if err != nil {
		return nil, err
	}
	return a.sessions.StopSession(context.WithoutCancel(g.Request.Context()), id, how)
}

func (a *sessionsAPI) delete(g *gin.Context, _ query) (any, error) {
	id, err := sessionID(g)
	if err == nil {
		err = a.in.noBody(g)
	}
	if err != nil {
		return nil, err
	}
	return nil, a.sessions.DeleteSession(context.WithoutCancel(g.Request.Context()), id)
}

// events answers GET /sessions/{id}/events.
func (a *sessionsAPI) events(g *gin.Context, q query) (any, error) {
	limit := q.number("limit", 0, 1, 1000)
	most, file := large(&q)
	id, err := sessionID(g)
	if err == nil {
		err = q.err
	}
	if err != nil {
		return nil, err
	}
	list, next, err := a.sessions.Events(g.Request.Context(), id, q.text("after"), limit)
	if err != nil {
		return nil, err
	}
	shown := make([]any, len(list))
	for i, e := range list {
		shown[i], err = shorten(e, most)
		if err != nil {
			return nil, err
		}
	}
	page := struct {
		Events []any  `json:"events"`
		Next   string `json:"next"`
	}{shown, next}
	if file {
		return download{id + ".events.json", page}, nil
	}
	return page, nil
}
