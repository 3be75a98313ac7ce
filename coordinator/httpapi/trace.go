package httpapi

import (
	"net/http"
	"strconv"

	"ao/shared/trace"

	"github.com/gin-gonic/gin"
)

// untracedRoutes are routes that only say whether we are there: they are asked all the time, and nobody wants to see
// that.
var untracedRoutes = map[string]bool{"": true, "/health": true, "/ready": true, "/metrics": true, uiBare: true,
	uiRoute: true}

// startTrace continues the caller's trace and starts a span. Reads and MCP calls start no trace of their own, since
// callers repeat them; a run that MCP submits starts one.
func startTrace(t *trace.Tracer, g *gin.Context) (span trace.Span) {
	before := g.Request.Context()
	ctx := trace.Extract(before, g.Request.Header)
	if t != nil && (ctx != before || !isRead(g)) && !untracedRoutes[g.FullPath()] {
		ctx, span = t.Start(ctx, trace.Server, g.Request.Method+" "+g.FullPath())
		span.Set("http.request.method", g.Request.Method)
		span.Set("http.route", g.FullPath())
	}
	if ctx != before {
		g.Request = g.Request.WithContext(ctx)
	}
	return span
}

// isRead reports whether a request only reads.
func isRead(g *gin.Context) bool {
	return g.Request.Method == http.MethodGet || g.Request.Method == http.MethodHead || g.FullPath() == "/mcp"
}

// endSpan ends the span of a request.
func endSpan(span trace.Span, status int) {
	span.SetInt("http.response.status_code", status)
	if status >= http.StatusInternalServerError {
		span.SetError(strconv.Itoa(status))
	}
	span.End()
}
