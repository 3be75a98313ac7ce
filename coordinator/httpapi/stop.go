package httpapi

import (
	"bytes"

	"ao/coordinator/audit"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// stop is how a run is stopped.
type stop struct {
	Tree bool `json:"tree,omitempty"`
}

// stopOf reads the body of a run's stop; none is an empty one.
func stopOf(g *gin.Context, in *intake, audited *recorder) (s stop, err error) {
	err = optional(g, in, &s)
	audited.changed(g, audit.Targets{Tree: s.Tree})
	return s, err
}

// optional reads a body that may be left out.
func optional(g *gin.Context, in *intake, into any) error {
	if g.Request.ContentLength == 0 {
		return nil
	}
	raw, err := in.body(g)
	if err == nil && len(bytes.TrimSpace(raw)) > 0 {
		err = strictjson.Decode(raw, into)
	}
	return err
}
