package httpapi

import (
	"context"

	"ao/coordinator/audit"
	"ao/coordinator/sessions"

	"github.com/gin-gonic/gin"
)

// sessionsAPI serves sessions.
type sessionsAPI struct {
	sessions Sessions
	audit    *recorder
}

func (a *sessionsAPI) status(g *gin.Context, q request) (any, error) {
	s, err := a.sessions.Session(g.Request.Context(), q.id)
	return statusOf{s.ID, s.Status}, err
}

func (a *sessionsAPI) result(g *gin.Context, q request) (any, error) {
	return shortened(&q.params, q.id+".result.json", func() (any, error) {
		res, _, err := a.sessions.SessionResult(g.Request.Context(), q.id)
		return res, err
	})
}

// tree answers GET /sessions/{id}/tree.
func (a *sessionsAPI) tree(g *gin.Context, q request) (any, error) {
	limit := q.number("limit", 0, 1, 1000)
	if q.err != nil {
		return nil, q.err
	}
	return a.sessions.Tree(g.Request.Context(), q.id, limit, q.text("cursor"))
}

func (a *sessionsAPI) stop(g *gin.Context, q request) (any, error) {
	var how sessions.Stop
	err := q.decode(&how)
	a.audit.changed(g, audit.Targets{Tree: how.Tree})
	if err != nil {
		return nil, err
	}
	return a.sessions.StopSession(context.WithoutCancel(g.Request.Context()), q.id, how)
}

// events answers GET /sessions/{id}/events.
func (a *sessionsAPI) events(g *gin.Context, q request) (any, error) {
	limit := q.number("limit", 0, 1, 1000)
	most, file := large(&q.params)
	if q.err != nil {
		return nil, q.err
	}
	list, next, err := a.sessions.Events(g.Request.Context(), q.id, q.text("after"), limit)
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
		return download{q.id + ".events.json", page}, nil
	}
	return page, nil
}
