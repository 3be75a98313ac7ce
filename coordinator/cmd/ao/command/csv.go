package command

import (
	"bytes"
	"context"
	"io"
	"strconv"

	"ao/coordinator/cmd/ao/screen"
)

// countRuns prints the number of matching runs.
func countRuns(ctx context.Context, a *app, f filter) error {
	q, err := f.query(a.now())
	if err != nil {
		return err
	}
	for _, name := range []string{"limit", "cursor"} { // apply to pages only
		q.Del(name)
	}
	doc, err := a.once.Read(ctx, q, "runs", "count")
	type count struct {
		Count int  `json:"count"`
		Exact bool `json:"exact"`
	}
	return show(a, doc, err, func(a *app, n count) error {
		if !n.Exact {
			a.note("incomplete count: the search timed out; narrow it, for example with --since")
		}
		return a.print(strconv.Itoa(n.Count) + "\n")
	})
}

// runsAsCSV prints matching runs as CSV: all, or up to the limit.
func runsAsCSV(ctx context.Context, a *app, f filter, limited bool) error {
	q, err := f.query(a.now())
	if err != nil {
		return err
	}
	if !limited {
		q.Del("limit")
	}
	q.Set("format", "csv")
	var shown io.Writer = a.out
	if a.terminal {
		shown = &safeWriter{w: a.out}
	}
	return a.once.Copy(ctx, shown, q, "runs")
}

// safeWriter escapes whole lines for a terminal.
type safeWriter struct {
	w    io.Writer
	rest []byte // incomplete last line
}

func (f *safeWriter) Write(b []byte) (int, error) {
	f.rest = append(f.rest, b...)
	end := bytes.LastIndexByte(f.rest, '\n') + 1
	whole := bytes.ReplaceAll(f.rest[:end], []byte("\r\n"), []byte("\n"))
	_, err := io.WriteString(f.w, screen.Text(string(whole)))
	f.rest = append(f.rest[:0], f.rest[end:]...)
	return len(b), err
}
