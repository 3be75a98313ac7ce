package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"ao/coordinator/audit"

	"github.com/gin-gonic/gin"
)

// schemasAPI serves output schemas.
type schemasAPI struct {
	schemas Schemas
	audit   *recorder
}

func (a *schemasAPI) list(g *gin.Context, _ request) (any, error) {
	list, err := a.schemas.Rows(g.Request.Context())
	return schemaList{orEmpty(list)}, err
}

func (a *schemasAPI) create(g *gin.Context, q request) (any, error) {
	s, err := a.schemas.CreateSchema(context.WithoutCancel(g.Request.Context()), q.body)
	a.audit.changed(g, audit.Targets{Schema: s.Name})
	return reply{http.StatusCreated, "/schemas/" + url.PathEscape(s.Name), s.Row(nil)}, err
}
