package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"

	"ao/coordinator/cmd/ao/screen"
)

// countRuns prints how many runs match.
func countRuns(ctx context.Context, a *app, f filter) error {
	q, err := f.query(a.now())
	if err != nil {
		return err
	}
	for _, name := range []string{"limit", "cursor"} { // of pages
		q.Del(name)
	}
	doc, err := a.client.Get(ctx, q, "runs", "count")
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printDoc(doc)
	}
	var n struct {
		Count int  `json:"count"`
		Exact bool `json:"exact"`
	}
	if err := json.Unmarshal(doc, &n); err != nil {
		return err
	}
	if !n.Exact {
		a.note("these are not all: the search took its time; narrow it, by --since for one")
	}
	return a.print(strconv.Itoa(n.Count) + "\n")
}

// runsAsCSV prints all runs that match, or so many of them, as the coordinator writes them.
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
	return a.client.Copy(ctx, shown, q, "runs")
}

// safeWriter writes whole lines that a terminal can be shown.
type safeWriter struct {
	w    io.Writer
	rest []byte // of a line that has not ended
}

func (f *safeWriter) Write(b []byte) (int, error) {
	f.rest = append(f.rest, b...)
	end := bytes.LastIndexByte(f.rest, '\n') + 1
	whole := bytes.ReplaceAll(f.rest[:end], []byte("\r\n"), []byte("\n"))
	_, err := io.WriteString(f.w, screen.Text(string(whole)))
	f.rest = append(f.rest[:0], f.rest[end:]...)
	return len(b), err
}
