package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/budget"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// What a list of runs may be answered as.
const (
	formatJSON = "json"
	formatCSV  = "csv"
)

// Limits of lists as CSV.
const (
	csvRows    = 100_000 // of one answer
	csvPage    = 500     // rows that are read and sent at once
	csvAtOnce  = 2       // answers under way; others wait
	csvTrigger = "=+-@＝＋－＠"
)

// csvColumns are the columns of a list of runs, in their order.
var csvColumns = []string{
	"run_id", "session_id", "parent_session_id", "retry_of", "agent_name", "status", "type", "mode", "attempt", "runner_id",
	"created_at", "claimed_at", "started_at", "completed_at", "error", "message", "parameters", "parameters_omitted",
}

// table answers with all runs that match, the newest first, as CSV: page after page, each sent before the next is read.
func (a *runsAPI) table(g *gin.Context, q query) (any, error) {
	left := q.number("limit", csvRows, 1, csvRows)
	q.values.Del("limit")
	f, err := listingRuns(q)
	if err != nil {
		return nil, err
	}
	ctx := g.Request.Context()
	release, err := a.tables.take(ctx, caller(g))
	if err != nil {
		return nil, err
	}
	defer release()
	text := appendRecord(nil, csvColumns...)
	for begun := false; ; begun = true {
		f.Limit = min(left, csvPage)
		p, err := a.runs.Runs(ctx, f)
		if err != nil && begun {
			panic(http.ErrAbortHandler) // half a table: the caller is to see that it is none
		}
		if err != nil {
			return nil, err
		}
		for _, r := range p.Runs {
			text = appendRun(text, r)
		}
		if !begun {
			csvHeaders(g.Writer.Header())
			g.Writer.WriteHeader(http.StatusOK)
		}
		if err := send(g.Writer, text); err != nil {
			panic(http.ErrAbortHandler)
		}
		budget.Sent(ctx)
		text = text[:0]
		if left -= len(p.Runs); left <= 0 || p.Next == "" {
			return written{}, nil
		}
		f.Cursor = p.Next
	}
}

func csvHeaders(h http.Header) {
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="runs.csv"`)
}

// appendRun adds the row of a run.
func appendRun(b []byte, r run.Run) []byte {
	code, message := "", ""
	if r.Error != nil {
		code, message = r.Error.Code, r.Error.Message
	}
	return appendRecord(b,
		r.ID, r.SessionID, r.Parent, r.RetryOf, r.Agent, string(r.Status), r.Type, r.Mode, strconv.Itoa(r.Attempt), r.RunnerID,
		csvTime(&r.CreatedAt), csvTime(r.ClaimedAt), csvTime(r.StartedAt), csvTime(r.EndedAt), code, message,
		string(r.Parameters), strconv.FormatBool(r.ParametersOmitted))
}

func csvTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// appendRecord adds a line of cells.
func appendRecord(b []byte, cells ...string) []byte {
	for i, cell := range cells {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCell(b, cell)
	}
	return append(b, "\r\n"...)
}

// appendCell adds a cell. An apostrophe keeps spreadsheets from taking what begins like a formula, or with a control
// character, for one. Quotes keep it one cell where another separator than the comma is read.
func appendCell(b []byte, cell string) []byte {
	if strings.IndexFunc(cell, notPlain) < 0 {
		return append(b, cell...)
	}
	b = append(b, '"')
	begin := strings.TrimLeft(cell, " \u00a0")
	if begin != "" && (begin[0] < ' ' || begin[0] == 0x7f || strings.IndexAny(begin, csvTrigger) == 0) {
		b = append(b, '\'')
	}
	for {
		upTo, rest, more := strings.Cut(cell, `"`)
		if b = append(b, upTo...); !more {
			return append(b, '"')
		}
		b = append(b, `""`...)
		cell = rest
	}
}

// notPlain tells the characters that no cell has without quotes.
func notPlain(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != ':'
}
