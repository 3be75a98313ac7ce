package httpapi

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"ao/shared/run"
)

// csvTrigger are the characters that begin a formula.
const csvTrigger = "=+-@＝＋－＠"

// csvColumns are the columns of a list of runs, in their order.
var csvColumns = []string{
	"run_id", "session_id", "parent_session_id", "retry_of", "agent_name", "status", "type", "mode", "attempt",
	"runner_id",
	"created_at", "claimed_at", "started_at", "completed_at", "error", "message", "parameters", "parameters_omitted",
	"agent_hash",
}

// csvHead writes the header line.
func csvHead(b *bytes.Buffer) { b.Write(appendRecord(b.AvailableBuffer(), csvColumns...)) }

// csvRow writes a run.
func csvRow(b *bytes.Buffer, r run.Run) error {
	code, message := "", ""
	if r.Error != nil {
		code, message = r.Error.Code, r.Error.Message
	}
	b.Write(appendRecord(b.AvailableBuffer(),
		r.ID, r.SessionID, r.Parent, r.RetryOf, r.Agent, string(r.Status), r.Type, r.Mode, strconv.Itoa(r.Attempt),
		r.RunnerID,
		csvTime(&r.CreatedAt), csvTime(r.ClaimedAt), csvTime(r.StartedAt), csvTime(r.EndedAt), code, message,
		string(r.Parameters), strconv.FormatBool(r.ParametersOmitted), r.AgentHash))
	return nil
}

func csvTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// appendRecord appends a line of cells.
func appendRecord(b []byte, cells ...string) []byte {
	for i, cell := range cells {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCell(b, cell)
	}
	return append(b, "\r\n"...)
}

// appendCell appends a cell. An apostrophe keeps spreadsheets from taking it for a formula. Quotes protect it from
// other separators.
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
		b = append(b, upTo...)
		if !more {
			return append(b, '"')
		}
		b = append(b, `""`...)
		cell = rest
	}
}

// notPlain reports characters that need quotes.
func notPlain(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != ':'
}
