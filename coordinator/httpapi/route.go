package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"ao/coordinator/projection/query"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/gin-gonic/gin"
)

// route is a route of the API, as GET / lists it.
type route struct {
	Method  string   `json:"method"`
	Path    string   `json:"path"`
	Query   []string `json:"query,omitempty"` // known parameters; others are refused by name
	Summary string   `json:"what"`
	ok      int
	do      func(*gin.Context, request) (any, error)
}

// live reports whether the route is a stream without end.
func (r route) live() bool { return strings.HasPrefix(r.Path, "/sse/") }

// body returns the description of the route's bodies.
func (r route) body() body { return bodies[r.Method+" "+r.Path] }

// filters are the parameters of lists of runs and sessions.
var filters = []string{"status", "agent_name", "session_id", "parent_session_id", "created_after", "limit", "cursor"}

// runFilters are the parameters of lists of runs.
var runFilters = slices.Concat(filters, []string{"runner_id", "roots", "retry_of", "agent_hash", "q"})

// listFilters are runFilters and the format.
var listFilters = slices.Concat(runFilters, []string{"format"})

// countFilters are the parameters of counting runs.
var countFilters = slices.DeleteFunc(slices.Clone(runFilters), func(name string) bool {
	return name == "limit" || name == "cursor"
})

// registryPrefixes are the paths that need agents and runners.
var registryPrefixes = []string{"/agents", "/runner", "/runs/validate"}

// pathChecks check the id or name in a path, by the path's prefix.
var pathChecks = map[string]func(string) error{
	"/runs/:id": run.CheckID, "/callbacks/:id": run.CheckID, "/sessions/:id": run.CheckSessionID,
	"/runners/:id": runnerapi.CheckID, "/agents/:name": checkName, "/schemas/:name": checkName,
}

func checkName(name string) error { return agent.CheckName("name", name) }

// request is what a route reads of a request: its query, the id or name in its path, and its body.
type request struct {
	params
	id   string
	body []byte
}

// byID returns what a route does that answers with what a noun's f returns for the id or name in its path.
func byID[N, T any](noun N, f func(N, context.Context, string) (T, error)) func(*gin.Context, request) (any, error) {
	return func(g *gin.Context, q request) (any, error) { return f(noun, g.Request.Context(), q.id) }
}

// deleteByID is byID for a deletion. It completes also if the caller disconnects.
func deleteByID[N any](noun N, f func(N, context.Context, string) error) func(*gin.Context, request) (any, error) {
	return func(g *gin.Context, q request) (any, error) {
		return nil, f(noun, context.WithoutCancel(g.Request.Context()), q.id)
	}
}

// matching returns what a route does that answers with what a noun's f returns for the filters that read reads.
func matching[N, T any](read func(params) (query.Query, error), noun N,
	f func(N, context.Context, query.Query) (T, error)) func(*gin.Context, request) (any, error) {
	return func(g *gin.Context, q request) (any, error) {
		filter, err := read(q.params)
		if err != nil {
			return nil, err
		}
		return f(noun, g.Request.Context(), filter)
	}
}

// handler returns a handler that reads the request. It refuses while the registries are not read.
func (r route) handler(registries func() error, in *intake) handler {
	needs := slices.ContainsFunc(registryPrefixes, func(p string) bool { return strings.HasPrefix(r.Path, p) })
	if r.Path == "/login" {
		in = &intake{limit: loginBody}
	}
	return func(g *gin.Context) (any, error) {
		if needs {
			if err := registries(); err != nil {
				return nil, err
			}
		}
		q, err := r.read(g, in)
		if err != nil {
			return nil, err
		}
		return r.do(g, q)
	}
}

// read reads what the route needs. A body is read where the route has one, and refused where a change has none.
func (r route) read(g *gin.Context, in *intake) (q request, err error) {
	q.params, err = readQuery(g.Request.URL.RawQuery, r.Query)
	if err != nil {
		return q, err
	}
	q.id = g.Param("id") + g.Param("name") // a path has one of them
	for prefix, check := range pathChecks {
		if strings.HasPrefix(r.Path, prefix) {
			if err := check(q.id); err != nil {
				return q, err
			}
		}
	}
	switch b := r.body(); {
	case r.Method == http.MethodGet:
	case b.in == nil:
		err = in.noBody(g)
	case !b.may || g.Request.ContentLength != 0:
		q.body, err = in.body(g)
	}
	return q, err
}
