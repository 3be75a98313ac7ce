package httpapi

import (
	"bytes"
	"net/http"

	"ao/coordinator/budget"
	"ao/coordinator/projection/query"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// Formats of a list of runs.
const (
	formatJSON   = "json" // a page
	formatCSV    = "csv"
	formatNDJSON = "ndjson"
)

// export is a file format for lists of runs.
type export struct {
	mediaType, file string
	head            func(*bytes.Buffer)
	row             func(*bytes.Buffer, run.Run) error
}

// exports are the formats of such files.
var exports = map[string]export{
	formatCSV: {"text/csv; charset=utf-8; header=present", "runs.csv", csvHead, csvRow},
	formatNDJSON: {"application/x-ndjson", "runs.ndjson", func(*bytes.Buffer) {},
		func(b *bytes.Buffer, r run.Run) error { return encode(b, r) }},
}

// Limits of exports.
const (
	exportRows   = 100_000 // rows of one answer
	exportPage   = 500     // rows that are read and sent at once
	exportAtOnce = 4       // exports in progress, half of them of one caller; others wait
)

// export answers with all matching runs, the newest first. Each page is sent before the next is read.
func (a *runsAPI) export(g *gin.Context, q request, as export) (any, error) {
	left := q.number("limit", exportRows, 1, exportRows)
	q.values.Del("limit")
	f, err := listingRuns(q.params)
	if err != nil {
		return nil, err
	}
	ctx := g.Request.Context()
	release, err := a.exports.reserve(ctx, caller(g))
	if err != nil {
		return nil, err
	}
	defer release()
	text := buffers.Get().(*bytes.Buffer)
	defer recycle(text)
	as.head(text)
	for started := false; ; started = true {
		f.Limit = min(left, exportPage)
		p, err := a.runs.Runs(ctx, f)
		if err == nil {
			err = as.rows(text, p)
		}
		if err != nil && started {
			panic(http.ErrAbortHandler) // the file is incomplete: abort the connection
		}
		if err != nil {
			return nil, err
		}
		if !started {
			as.start(g.Writer)
		}
		if err := send(g.Writer, text.Bytes()); err != nil {
			panic(http.ErrAbortHandler)
		}
		budget.Sent(ctx)
		text.Reset()
		if left -= len(p.Runs); left <= 0 || p.Next == "" {
			return written{}, nil
		}
		f.Cursor = p.Next
	}
}

// rows writes a page.
func (e export) rows(b *bytes.Buffer, p query.Page) error {
	for _, r := range p.Runs {
		if err := e.row(b, r); err != nil {
			return err
		}
	}
	return nil
}

// start writes the headers.
func (e export) start(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", e.mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+e.file+`"`)
	w.WriteHeader(http.StatusOK)
}
