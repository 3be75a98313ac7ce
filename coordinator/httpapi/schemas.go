package httpapi

import (
	"context"
	"net/url"

	"ao/coordinator"
	"ao/coordinator/audit"

	"github.com/gin-gonic/gin"
)

func (a *API) listSchemas(g *gin.Context, _ query) (any, error) {
	list, err := a.c.Schemas(g.Request.Context())
	return map[string][]coordinator.Schema{"schemas": orEmpty(list)}, err
}

func (a *API) showSchema(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	return a.c.Schema(g.Request.Context(), name)
}

func (a *API) createSchema(g *gin.Context, _ query) (any, error) {
	raw, err := a.body(g)
	if err != nil {
		return nil, err
	}
	s, err := a.c.CreateSchema(context.WithoutCancel(g.Request.Context()), raw)
	a.changed(g, audit.Targets{Schema: s.Name})
	return reply{201, "/schemas/" + url.PathEscape(s.Name), s}, err
}

func (a *API) deleteSchema(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	if err := a.noBody(g); err != nil {
		return nil, err
	}
	return nil, a.c.DeleteSchema(context.WithoutCancel(g.Request.Context()), name)
}
