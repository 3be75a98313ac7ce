package httpapi

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// route is a route of the API, as GET / lists it.
type route struct {
	Method string   `json:"method"`
	Path   string   `json:"path"`
	Query  []string `json:"query,omitempty"` // parameters it knows; any other is refused by name
	Say    string   `json:"what"`
	ok     int
	do     func(*gin.Context, query) (any, error)
	live   bool // a stream without end
}

// filters are the parameters of lists of runs and sessions.
var filters = []string{"status", "agent_name", "session_id", "parent_session_id", "created_after", "limit", "cursor"}

// runFilters are the parameters of lists of runs.
var runFilters = slices.Concat(filters, []string{"runner_id", "roots", "retry_of", "q"})

// listFilters are runFilters and the format.
var listFilters = slices.Concat(runFilters, []string{"format"})

// countFilters are the parameters of counting runs.
var countFilters = slices.DeleteFunc(slices.Clone(runFilters), func(name string) bool {
	return name == "limit" || name == "cursor"
})

// registryPrefixes are the paths that need agents and runners.
var registryPrefixes = []string{"/agents", "/runner", "/runs/validate"}

// requireReady returns a handler that parses the route's parameters, and refuses while registries are not read.
func (r route) requireReady(registries func() error) handler {
	needs := slices.ContainsFunc(registryPrefixes, func(begin string) bool { return strings.HasPrefix(r.Path, begin) })
	return func(g *gin.Context) (any, error) {
		if needs {
			if err := registries(); err != nil {
				return nil, err
			}
		}
		q, err := readQuery(g.Request.URL.RawQuery, r.Query)
		if err != nil {
			return nil, err
		}
		return r.do(g, q)
	}
}
