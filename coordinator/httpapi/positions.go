package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/projection/query"

	"github.com/gin-gonic/gin"
)

// positionHeader says how far an answer has read, or how far it must have read at least.
const positionHeader = "Ao-Position"

// positionPrefixes are the paths whose answers come from the history.
var positionPrefixes = []string{"/runs", "/sessions", "/callbacks", "/sse/", "/status"}

// positions adds the position to such answers, and waits for the position that a reader asks for.
type positions struct{ of Positions }

func isPositioned(r route) bool {
	return slices.ContainsFunc(positionPrefixes, func(begin string) bool { return strings.HasPrefix(r.Path, begin) })
}

// wrap returns a route's handler with positions.
func (p positions) wrap(r route, h handler) handler {
	if !isPositioned(r) {
		return h
	}
	return func(g *gin.Context) (any, error) {
		if asked := g.Request.Header.Get(positionHeader); asked != "" {
			seq, err := query.ParsePosition(asked)
			if err == nil {
				err = p.of.WaitPosition(g.Request.Context(), seq)
			}
			if err != nil {
				return nil, err
			}
		}
		reads := r.Method == http.MethodGet
		if reads { // before reading: the answer has at least this position
			p.say(g, p.of.Position())
		}
		v, err := h(g)
		if !reads && !g.Writer.Written() {
			p.say(g, p.of.Written())
		}
		return v, err
	}
}

func (p positions) say(g *gin.Context, seq uint64) {
	g.Writer.Header()[positionHeader] = []string{strconv.FormatUint(seq, 10)}
}
