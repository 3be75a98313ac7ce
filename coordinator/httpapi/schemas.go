package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"ao/coordinator/audit"
	"ao/coordinator/schemas"

	"github.com/gin-gonic/gin"
)

// schemasAPI serves output schemas.
type schemasAPI struct {
	schemas Schemas
	audit   *recorder
}

func (a *schemasAPI) list(g *gin.Context, _ request) (any, error) {
	list, err := a.schemas.Rows(g.Request.Context())
	return map[string][]schemas.Row{"schemas": orEmpty(list)}, err
}

func (a *schemasAPI) show(g *gin.Context, q request) (any, error) {
	return a.schemas.RowOf(g.Request.Context(), q.id)
}

func (a *schemasAPI) create(g *gin.Context, q request) (any, error) {
	s, err := a.schemas.CreateSchema(context.WithoutCancel(g.Request.Context()), q.body)
	a.audit.changed(g, audit.Targets{Schema: s.Name})
	return reply{http.StatusCreated, "/schemas/" + url.PathEscape(s.Name), s.Row(nil)}, err
}

func (a *schemasAPI) delete(g *gin.Context, q request) (any, error) {
	return nil, a.schemas.DeleteSchema(context.WithoutCancel(g.Request.Context()), q.id)
}
