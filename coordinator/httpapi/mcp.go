package httpapi

import (
	"bytes"
	"errors"
	"io"

	"ao/coordinator/mcpapi"

	"github.com/gin-gonic/gin"
)

// mcpAPI passes requests to the MCP API.
type mcpAPI struct {
	mcp   *mcpapi.API
	audit *recorder
}

// serve passes on a request with its body.
func (a *mcpAPI) serve(g *gin.Context, q request) (any, error) {
	g.Request.Body = io.NopCloser(bytes.NewReader(q.body))
	w := &pacedWriter{ResponseWriter: g.Writer}
	x := exchangeOf(g)
	x.waited = a.mcp.Serve(w, g.Request, q.body, x.who, x.work.Empty)
	switch f := w.fault(); {
	case w.refusal == 0:
		return written{}, nil
	case w.refusal >= 500:
		return nil, errors.New(f.Message)
	default:
		a.audit.refused(g, f.Code)
		return reply{status: w.refusal, body: f}, nil
	}
}
