package httpapi

import (
	"context"
	"net/url"

	"ao/coordinator/audit"
	"ao/coordinator/schemas"

	"github.com/gin-gonic/gin"
)

// schemasAPI serves output schemas.
type schemasAPI struct {
	schemas Schemas
	in      *intake
	audit   *recorder
}

func (a *schemasAPI) list(g *gin.Context, _ query) (any, error) {
	list, err := a.schemas.Rows(g.Request.Context())
	return map[string][]schemas.Row{"schemas": orEmpty(list)}, err
}

func (a *schemasAPI) show(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	return a.schemas.RowOf(g.Request.Context(), name)
}

func (a *schemasAPI) create(g *gin.Context, _ query) (any, error) {
	raw, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	s, err := a.schemas.CreateSchema(context.WithoutCancel(g.Request.Context()), raw)
	a.audit.changed(g, audit.Targets{Schema: s.Name})
	return reply{201, "/schemas/" + url.PathEscape(s.Name), s.Row(nil)}, err
}

func (a *schemasAPI) delete(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	if err := a.in.noBody(g); err != nil {
		return nil, err
	}
	return nil, a.schemas.DeleteSchema(context.WithoutCancel(g.Request.Context()), name)
}
