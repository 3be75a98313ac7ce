package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"ao/coordinator/access"
	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/shared/agent"

	"github.com/gin-gonic/gin"
)

// agentsAPI serves agents.
type agentsAPI struct {
	agents Agents
	drafts Drafts
	audit  *recorder
}

func (a *agentsAPI) list(g *gin.Context, q request) (any, error) {
	if q.text("status") == agent.Broken {
		if caller(g).Session != "" { // paths and contents of files
			return nil, access.ErrNotForSessions
		}
		return map[string][]agent.BrokenFile{"agents": orEmpty(a.agents.BrokenFiles(g.Request.Context()))}, nil
	}
	list, err := a.agents.Views(q.text("status"))
	a.addDrafts(g, list)
	for i := range list {
		list[i] = shownTo(caller(g), list[i])
	}
	return map[string][]agents.View{"agents": orEmpty(list)}, err
}

// shownTo returns what a caller may see of an agent. Other agents' sessions do not see its instructions, the secrets of
// its servers and its path. Below scope admin, its servers' secrets are masked.
func shownTo(who access.Caller, v agents.View) agents.View {
	switch {
	case who.Session != "":
		v.SystemPrompt, v.MCPServers, v.Path, v.Reason, v.UnusedFile = "", nil, "", "", nil
	case who.RequireScope(access.Admin) != nil:
		v.Blueprint = v.Masked()
	}
	return v
}

// tagged answers with an agent and its ETag.
func tagged(g *gin.Context, v agents.View, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	g.Writer.Header().Set("ETag", `"`+v.Tag()+`"`)
	return shownTo(caller(g), v), nil
}

// orEmpty returns a list that is never nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *agentsAPI) show(g *gin.Context, q request) (any, error) {
	v, err := a.agents.View(g.Request.Context(), q.id)
	if err != nil {
		return nil, err
	}
	same, err := unchanged(g, v.Tag())
	if err != nil {
		return nil, err
	}
	if same && v.UnusedFile == nil { // the tag does not tell whether that has changed
		g.Writer.Header().Set("ETag", `"`+v.Tag()+`"`)
		return reply{status: http.StatusNotModified}, nil
	}
	one := []agents.View{v}
	a.addDrafts(g, one)
	return tagged(g, one[0], nil)
}

func (a *agentsAPI) create(g *gin.Context, q request) (any, error) {
	v, err := a.agents.CreateAgent(context.WithoutCancel(g.Request.Context()), q.body)
	a.audit.changed(g, audit.Targets{Agent: v.Name})
	_, err = tagged(g, v, err)
	if err != nil {
		return nil, err
	}
	return reply{http.StatusCreated, "/agents/" + url.PathEscape(v.Name), v}, nil
}

func (a *agentsAPI) change(g *gin.Context, q request) (any, error) {
	match, err := preconditions(g)
	if err != nil {
		return nil, err
	}
	v, err := a.agents.ChangeAgent(context.WithoutCancel(g.Request.Context()), q.id, q.body, match)
	return tagged(g, v, err)
}

// reset takes the file that an edited agent does not use.
func (a *agentsAPI) reset(g *gin.Context, q request) (any, error) {
	match, err := preconditions(g)
	if err != nil {
		return nil, err
	}
	v, err := a.agents.ResetAgent(context.WithoutCancel(g.Request.Context()), q.id, match)
	return tagged(g, v, err)
}

func (a *agentsAPI) delete(g *gin.Context, q request) (any, error) {
	match, err := preconditions(g)
	if err != nil {
		return nil, err
	}
	return nil, a.agents.DeleteAgent(context.WithoutCancel(g.Request.Context()), q.id, match)
}
