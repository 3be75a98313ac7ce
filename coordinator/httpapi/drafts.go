package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/agents"
	"ao/coordinator/drafts"

	"github.com/gin-gonic/gin"
)

// Drafts stores drafts of schemas.
type Drafts interface {
	Get(ctx context.Context, name, side string) (drafts.Draft, error)
	Put(ctx context.Context, name, side string, text []byte, match drafts.Match) (tag string, err error)
	Delete(ctx context.Context, name, side string, match drafts.Match) error
	Sides(ctx context.Context) (map[string][]string, error)
}

// draftsAPI serves drafts.
type draftsAPI struct {
	drafts Drafts
}

func (a *draftsAPI) show(g *gin.Context, q request) (any, error) {
	d, err := a.drafts.Get(g.Request.Context(), q.id, g.Param("side"))
	if err != nil {
		return nil, err
	}
	h := g.Writer.Header()
	h.Set("ETag", `"`+d.Tag+`"`)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(d.Text)))
	g.Writer.WriteHeader(http.StatusOK)
	if g.Request.Method == http.MethodHead {
		g.Writer.WriteHeaderNow()
		return written{}, nil
	}
	_ = send(g.Writer, []byte(d.Text)) // the caller may have disconnected
	return written{}, nil
}

func (a *draftsAPI) put(g *gin.Context, q request) (any, error) {
	match, err := preconditions(g)
	if err != nil {
		return nil, err
	}
	tag, err := a.drafts.Put(context.WithoutCancel(g.Request.Context()), q.id, g.Param("side"), q.body, match)
	if err != nil {
		return nil, err
	}
	g.Writer.Header().Set("ETag", `"`+tag+`"`)
	return nil, nil
}

func (a *draftsAPI) delete(g *gin.Context, q request) (any, error) {
	match, err := preconditions(g)
	if err != nil {
		return nil, err
	}
	return nil, a.drafts.Delete(context.WithoutCancel(g.Request.Context()), q.id, g.Param("side"), match)
}

// draftsTimeout is how long a list of agents waits for drafts.
const draftsTimeout = 2 * time.Second

// addDrafts adds for admins which agents have drafts. If NATS does not answer, they are left out.
func (a *agentsAPI) addDrafts(g *gin.Context, list []agents.View) {
	if len(list) == 0 || caller(g).Session != "" || caller(g).RequireScope(access.Admin) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), draftsTimeout)
	defer cancel()
	sides, err := a.drafts.Sides(ctx)
	if err != nil {
		return
	}
	for i := range list {
		list[i].Drafts = sides[list[i].Name]
	}
}
