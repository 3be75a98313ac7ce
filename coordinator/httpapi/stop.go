package httpapi

import (
	"bytes"

	"ao/coordinator/audit"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// stop is how a run or session is stopped.
type stop struct {
	Tree bool `json:"tree,omitempty"`
}

// stopOf reads the body of a stop; none is an empty one.
func stopOf(g *gin.Context, in *intake, audited *recorder) (s stop, err error) {
	if g.Request.ContentLength == 0 {
		return s, nil
	}
	raw, err := in.body(g)
	if err == nil && len(bytes.TrimSpace(raw)) > 0 {
		err = strictjson.Decode(raw, &s)
	}
	audited.changed(g, audit.Targets{Tree: s.Tree})
	return s, err
}
