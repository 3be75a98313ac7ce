package httpapi

import (
	"context"
	"net/url"

	"ao/coordinator/access"
	"ao/coordinator/audit"
	"ao/shared/agent"

	"github.com/gin-gonic/gin"
)

// agentsAPI answers for agents.
type agentsAPI struct {
	agents Agents
	in     *intake
	audit  *recorder
}

func (a *agentsAPI) list(g *gin.Context, q query) (any, error) {
	if q.text("status") == agent.Broken {
		if caller(g).Session != "" { // where files lie, and what is in them
			return nil, access.ErrNotForSessions
		}
		return map[string][]agent.Bad{"agents": orEmpty(a.agents.BrokenAgents())}, nil
	}
	list, err := a.agents.Agents(q.text("status"))
	for i := range list {
		list[i] = shownTo(caller(g), list[i])
	}
	return map[string][]agent.Blueprint{"agents": orEmpty(list)}, err
}

// shownTo is an agent as a caller may see it.
func shownTo(who access.Caller, b agent.Blueprint) agent.Blueprint {
	switch {
	case who.Session != "":
		return outside(b)
	case who.Needs(access.Admin) != nil:
		return b.Masked()
	}
	return b
}

// outside is an agent as another agent's session may see it: not how it is told to work, and not what it is to show to its servers.
func outside(b agent.Blueprint) agent.Blueprint {
	b.SystemPrompt, b.MCPServers = "", nil
	return b
}

// orEmpty keeps a list without entries from being null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// agentName is the name in the path.
func agentName(g *gin.Context) (string, error) {
	name := g.Param("name")
	return name, agent.CheckName("name", name)
}

func (a *agentsAPI) show(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	b, err := a.agents.Agent(g.Request.Context(), name)
	return shownTo(caller(g), b), err
}

func (a *agentsAPI) create(g *gin.Context, _ query) (any, error) {
	raw, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	b, err := a.agents.CreateAgent(context.WithoutCancel(g.Request.Context()), raw)
	a.audit.changed(g, audit.Targets{Agent: b.Name})
	return reply{201, "/agents/" + url.PathEscape(b.Name), b}, err
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
	return a.agents.ChangeAgent(context.WithoutCancel(g.Request.Context()), name, raw)
}

func (a *agentsAPI) delete(g *gin.Context, _ query) (any, error) {
	name, err := agentName(g)
	if err != nil {
		return nil, err
	}
	if err := a.in.noBody(g); err != nil {
		return nil, err
	}
	return nil, a.agents.DeleteAgent(context.WithoutCancel(g.Request.Context()), name)
}
