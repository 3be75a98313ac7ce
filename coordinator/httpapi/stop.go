package httpapi

import (
	"bytes"

	"ao/coordinator/audit"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// stop is the body of a stop.
type stop struct {
	Tree bool `json:"tree,omitempty"`
}

// readStop reads the body of a stop, which may be left out.
func readStop(g *gin.Context, in *intake, audited *recorder) (s stop, err error) {
	err = readOptional(g, in, &s)
	audited.changed(g, audit.Targets{Tree: s.Tree})
	return s, err
}

// readOptional reads a body that may be left out.
func readOptional(g *gin.Context, in *intake, into any) error {
	if g.Request.ContentLength == 0 {
		return nil
	}
	raw, err := in.body(g)
	if err == nil && len(bytes.TrimSpace(raw)) > 0 {
		err = strictjson.Decode(raw, into)
	}
	return err
}
