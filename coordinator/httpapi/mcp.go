package httpapi

import (
	"bytes"
	"errors"
	"io"

	"ao/coordinator/mcpapi"

	"github.com/gin-gonic/gin"
)

// mcpSide is the way to the MCP side.
type mcpSide struct {
	mcp   *mcpapi.API
	in    *intake
	audit *recorder
}

// serve hands a request to the MCP side, read within our limits.
func (a *mcpSide) serve(g *gin.Context, _ query) (any, error) {
	body, err := a.in.body(g)
	if err != nil {
		return nil, err
	}
	g.Request.Body = io.NopCloser(bytes.NewReader(body))
	w := &paced{ResponseWriter: g.Writer}
	x := of(g)
	x.waited = a.mcp.Serve(w, g.Request, body, x.who, x.work.Empty)
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
