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
	in     *intake
	audit  *recorder
}

func (a *agentsAPI) list(g *gin.Context, q query) (any, error) {
	if q.text("status") == agent.Broken {
		if caller(g).Session != "" { // where files lie, and what is in them
			return nil, access.ErrNotForSessions
		}
		return map[string][]agent.BrokenFile{"agents": orEmpty(a.agents.BrokenAgents())}, nil
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
		v.SystemPrompt, v.MCPServers, v.Path, v.Reason = "", nil, "", ""
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

// agentName returns the name in the path.
func agentName(g *gin.Context) (string, error) {
	name := g.Param("name")
	return name, agent.CheckName("name", name)
}

func (a *agentsAPI) show(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	v, err := a.agents.View(g.Request.Context(), name)
	if err != nil {
		return nil, err
	}
	same, err := unchanged(g, v.Tag())
	if err != nil {
		return nil, err
	}
	one := []agents.View{v}
	if !same {
		a.addDrafts(g, one)
	}
	body, err := tagged(g, one[0], nil)
	if same {
		return reply{status: http.StatusNotModified}, nil
	}
	return body, err
}

func (a *agentsAPI) create(g *gin.Context, _ query) (any, error) {
	raw, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	v, err := a.agents.CreateAgent(context.WithoutCancel(g.Request.Context()), raw)
	a.audit.changed(g, audit.Targets{Agent: v.Name})
	_, err = tagged(g, v, err)
	if err != nil {
		return nil, err
	}
	return reply{201, "/agents/" + url.PathEscape(v.Name), v}, nil
}

func (a *agentsAPI) change(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	raw, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	match, err := ifMatch(g)
	if err != nil {
		return nil, err
	}
	v, err := a.agents.ChangeAgent(context.WithoutCancel(g.Request.Context()), name, raw, match)
	return tagged(g, v, err)
}

func (a *agentsAPI) delete(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	if err := a.in.noBody(g); err != nil {
		return nil, err
	}
	match, err := ifMatch(g)
	if err != nil {
		return nil, err
	}
	return nil, a.agents.DeleteAgent(context.WithoutCancel(g.Request.Context()), name, match)
}
