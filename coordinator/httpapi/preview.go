package httpapi

import "github.com/gin-gonic/gin"

// previewAPI answers what definitions would do, before they are stored.
type previewAPI struct {
	previews Previews
	in       *intake
}

func (a *previewAPI) schema(g *gin.Context, _ query) (any, error) {
	raw, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	return a.previews.Schema(raw)
}

func (a *previewAPI) agent(g *gin.Context, _ query) (any, error) {
	raw, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	return a.previews.Preview(g.Request.Context(), raw)
}
