package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ao/coordinator/cmd/ao/connection"
	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"
)

// screenPage is how many runs a live list keeps. Older ones move up when runs leave.
const screenPage = 200

// runScreen is a live list of runs on a terminal.
type runScreen struct {
	app     *app
	filter  filter
	page    int           // most runs kept
	changed chan struct{} // signals a repaint

	mu      sync.Mutex
	runs    []run.Run // the newest first
	more    bool      // older runs exist
	problem string    // of the connection; empty: none
}

// watch repaints the list after each change and every second, until q or Ctrl-C.
func (s *runScreen) watch(ctx context.Context, terminal fullScreen, of client.RunWatch) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	restore, err := terminal.watchKeys(quit)
	if err != nil {
		return err
	}
	defer restore()
	s.app.print(enterScreen)
	defer func() { _ = s.app.print(leaveScreen) }()
	ended := make(chan error, 1)
	notice := func(text string) { s.update(func() { s.problem = text }) }
	go func() { ended <- s.app.client.WithNotice(connection.Notice(notice)).WatchRuns(ctx, of, s.changes) }()
	tick := time.NewTicker(topInterval)
	defer tick.Stop()
	for {
		if err := terminal.paint(s.render); err != nil {
			return err
		}
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-s.changed:
		case <-tick.C:
		}
	}
}

// update changes the list and requests a repaint.
func (s *runScreen) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *runScreen) changes(c client.RunChanges) error {
	var changed []run.Run
	if err := decodeAll(c.Runs, &changed); err != nil {
		return err
	}
	short := false
	s.update(func() {
		s.problem = ""
		if c.Page {
			s.runs, s.more = changed, c.More
			return
		}
		for _, r := range changed {
			s.put(r)
		}
		s.runs = slices.DeleteFunc(s.runs, func(r run.Run) bool { return slices.Contains(c.Deleted, r.ID) })
		short = s.more && len(s.runs) < s.filter.limit
	})
	if short {
		return client.ErrReadAgain
	}
	return nil
}

// put stores the newest state of a run.
func (s *runScreen) put(r run.Run) {
	i := slices.IndexFunc(s.runs, func(old run.Run) bool { return old.ID == r.ID })
	switch matches := s.filter.matches(r); {
	case i >= 0 && matches:
		s.runs[i] = r
	case i >= 0:
		s.runs = slices.Delete(s.runs, i, i+1)
	case matches:
		at := slices.IndexFunc(s.runs, func(old run.Run) bool { return !old.CreatedAt.After(r.CreatedAt) })
		if at < 0 && s.more {
			return // older than all runs kept
		}
		if at < 0 {
			at = len(s.runs)
		}
		s.runs = slices.Insert(s.runs, at, r)
		if len(s.runs) > s.page {
			s.runs, s.more = s.runs[:s.page], true
		}
	}
}

// render returns the list in at most height lines.
func (s *runScreen) render(height int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := fmt.Sprintf("ao runs  %s  %s  %s", screen.Line(s.app.client.URL()),
		s.app.now().Local().Format(time.TimeOnly), cmp.Or(screen.Line(s.problem), "live"))
	if len(s.runs) == 0 {
		return []string{head, "", "no runs"}[:min(3, height)]
	}
	table := newRunTable()
	for _, r := range s.runs[:min(len(s.runs), s.filter.limit, max(1, height-3))] {
		table.Row(runCells(s.app, r, screen.Truncate(runNote(r), noteWidth))...)
	}
	lines := append([]string{head, ""}, tableLines(table)...)
	return lines[:min(len(lines), height)]
}
