package httpapi

import (
	"runtime"

	"ao/coordinator/preview"

	"github.com/gin-gonic/gin"
)

// Limits of schema validations at once: each may take a processor for seconds.
var (
	maxOwnValidations = max(1, runtime.GOMAXPROCS(0)/4) // of one caller
	maxValidations    = 2 * maxOwnValidations
)

// previewAPI serves previews of definitions.
type previewAPI struct {
	previews    Previews
	validations *places
}

func (a *previewAPI) schema(g *gin.Context, q request) (any, error) {
	release, err := a.validations.reserve(g.Request.Context(), caller(g))
	if err != nil {
		return nil, err
	}
	defer release()
	return a.previews.Schema(g.Request.Context(), q.body)
}

func (a *previewAPI) agent(g *gin.Context, q request) (any, error) {
	return reported(g, q, func() (preview.AgentPreview, error) {
		return a.previews.Preview(g.Request.Context(), q.body)
	})
}
