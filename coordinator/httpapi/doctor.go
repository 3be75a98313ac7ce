package httpapi

import "github.com/gin-gonic/gin"

// doctor tells what of the deployment is not as it should be.
func (a *API) doctor(g *gin.Context, _ query) (any, error) {
	return a.cfg.Checkup(g.Request.Context()), nil
}
