package httpapi

import (
	"errors"
	"slices"

	"ao/coordinator/access"
	"ao/coordinator/agents"
	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// report says with report=true why a request would be refused. Browsers log every refusal as an error of the page.
type report struct {
	Valid bool         `json:"valid"` // always false
	Error *fault.Fault `json:"error"` // the body of the refusal
}

// checks is the parameter of routes that check a request.
var checks = []string{"report"}

// reported turns a refusal of what was asked for into a report, where the caller wants one.
func reported[T any](g *gin.Context, q request, check func() (T, error)) (any, error) {
	wanted := q.flag("report")
	if q.err != nil {
		return nil, q.err
	}
	v, err := check()
	if err == nil {
		return v, nil
	}
	about := []fault.Kind{fault.Invalid, fault.NotFound, fault.Conflict}
	if !wanted || !slices.Contains(about, fault.KindOf(err)) {
		return nil, err
	}
	return report{Error: problem(g, err)}, nil
}

// problem returns what a caller may see of an error.
func problem(g *gin.Context, err error) *fault.Fault {
	f := fault.Of(err)
	if none, ok := errors.AsType[*agents.None](err); ok && len(none.Dirs) > 0 && caller(g).Session == "" &&
		caller(g).RequireScope(access.Admin) == nil {
		f = f.With("folders", none.Dirs)
	}
	return f
}
