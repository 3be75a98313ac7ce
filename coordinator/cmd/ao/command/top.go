package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// serverStatus is the part of GET /status that is shown.
type serverStatus struct {
	At       time.Time      `json:"at"`
	Since    time.Time      `json:"since"`
	Runs     map[string]int `json:"runs"`
	Totals   totals         `json:"totals"`
	Queues   []queue        `json:"queues"`
	Unqueued queue          `json:"not_queued"`
	Runners  map[string]int `json:"runners"`
	Slots    struct {
		All   int `json:"all"`
		Taken int `json:"taken"`
	} `json:"slots"`
	MaxPending int `json:"max_pending"`
}

// totals are a coordinator's counts since its start.
type totals struct {
	Accepted  float64 `json:"accepted"`
	Retried   float64 `json:"retried"`
	Completed float64 `json:"completed"`
	Failed    float64 `json:"failed"`
	Stopped   float64 `json:"stopped"`
}

type queue struct {
	Queue   string     `json:"queue"`
	Waiting int        `json:"waiting"`
	Oldest  *time.Time `json:"oldest_since"`
	Served  bool       `json:"served"`
	Wants   struct {
		run.Demands
		Agents []string `json:"agents"`
	} `json:"wants"`
}

// snapshot is the state at one moment.
type snapshot struct {
	status  serverStatus
	runners []runner
	runs    []run.Run
	doc     json.RawMessage // the API's documents
}

// The interval of snapshots, the timeout of one, the snapshots that a rate spans, and the rows of each table if
// nothing limits them.
const (
	topInterval = time.Second
	topTimeout  = 5 * time.Second
	rateWindow  = 10
	topRows     = 20
)

// top is the state of 'ao top'.
type top struct {
	app       *app
	now       snapshot
	previous  []snapshot // earlier snapshots of the same coordinator, newest last
	lastError string     // why the last refresh failed
}

// refresh takes a new snapshot.
func (t *top) refresh(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	now, err := t.fetch(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = &client.UnreachableError{URL: t.app.client.URL(), Reason: client.Lost,
			Err: fmt.Errorf("no answer within %s", topTimeout)}
	}
	if err != nil {
		return err
	}
	if !now.status.Since.Equal(t.now.status.Since) { // another coordinator, whose counts start elsewhere
		t.previous = nil
	} else {
		t.previous = append(t.previous, t.now)
		if len(t.previous) > rateWindow {
			t.previous = slices.Delete(t.previous, 0, 1)
		}
	}
	t.now, t.lastError = now, ""
	return nil
}

func (t *top) fetch(ctx context.Context) (now snapshot, err error) {
	status, err := t.app.once.Read(ctx, nil, "status")
	if err != nil {
		return now, err
	}
	if err := json.Unmarshal(status, &now.status); err != nil || now.status.Since.IsZero() {
		return now, fmt.Errorf("the status cannot be read: %.200s", status)
	}
	runners, err := t.app.once.List(ctx, "runners", nil, "runners")
	if err != nil {
		return now, err
	}
	runs, err := t.app.once.List(ctx, "runs", url.Values{"limit": {strconv.Itoa(topRows)}}, "runs")
	if err != nil {
		return now, err
	}
	now.doc, err = strictjson.Encode(map[string]any{"status": status, "runners": append([]json.RawMessage{},
		runners.Items...), "runs": append([]json.RawMessage{}, runs.Items...)})
	return now, errors.Join(err, decodeAll(runners.Items, &now.runners), decodeAll(runs.Items, &now.runs))
}

// decodeAll appends decoded documents to a list.
func decodeAll[T any](docs []json.RawMessage, to *[]T) error {
	for _, doc := range docs {
		var v T
		if err := json.Unmarshal(doc, &v); err != nil {
			return err
		}
		*to = append(*to, v)
	}
	return nil
}

// print prints one snapshot as text or JSON.
func (t *top) print() error {
	if t.app.json {
		return t.app.printDoc(t.now.doc)
	}
	return t.app.print(strings.Join(t.render(0), "\n") + "\n")
}

// rates are per second over the last snapshots; not ok: there is only one.
func (t *top) rates() (r totals, ok bool) {
	if len(t.previous) == 0 {
		return r, false
	}
	now, then := t.now.status, t.previous[0].status
	d := now.At.Sub(then.At).Seconds()
	if d <= 0 {
		return r, false
	}
	per := func(now, then float64) float64 { return max(0, now-then) / d }
	return totals{per(now.Totals.Accepted, then.Totals.Accepted), per(now.Totals.Retried, then.Totals.Retried),
		per(now.Totals.Completed, then.Totals.Completed),
		per(now.Totals.Failed, then.Totals.Failed), per(now.Totals.Stopped, then.Totals.Stopped)}, true
}

// render returns the lines of the screen, at most height; 0: no limit.
func (t *top) render(height int) []string {
	s := t.now.status
	head := []string{
		fmt.Sprintf("ao top  %s  %s  up %s", screen.Line(t.app.client.URL()), s.At.Local().Format(time.TimeOnly),
			screen.Duration(s.At.Sub(s.Since))),
		fmt.Sprintf("runs     %d pending (of %d)  %d claimed  %d running  %d stopping  %d ended", s.Runs["pending"],
			s.MaxPending, s.Runs["claimed"], s.Runs["running"], s.Runs["stopping"], s.Runs["ended"]),
	}
	if r, ok := t.rates(); ok {
		head = append(head, fmt.Sprintf("per s    %.1f accepted  %.1f completed  %.1f failed  %.1f stopped  %.1f "+
			"retried", r.Accepted, r.Completed, r.Failed, r.Stopped, r.Retried))
	} else {
		head = append(head, fmt.Sprintf("since up %.0f accepted  %.0f completed  %.0f failed  %.0f stopped  %.0f "+
			"retried", s.Totals.Accepted, s.Totals.Completed, s.Totals.Failed, s.Totals.Stopped, s.Totals.Retried))
	}
	slots := fmt.Sprintf("slots    %d of %d taken; runners:", s.Slots.Taken, s.Slots.All)
	for _, status := range []string{"online", "unable", "unresponsive", "draining", "stale", "removed"} {
		if n := s.Runners[status]; n > 0 || status == "online" {
			slots += fmt.Sprintf(" %d %s", n, status)
		}
	}
	head = append(head, slots)
	if t.lastError != "" {
		head = append(head, "error    "+screen.Line(t.lastError)+"; last update at "+s.At.Local().Format(time.TimeOnly))
	}
	tables := [][]string{t.queues(), t.runnerRows(), t.runRows()}
	if height > 0 {
		trimTables(tables, height-len(head)-len(tables))
	}
	for _, rows := range tables {
		if len(rows) > 1 {
			head = append(append(head, ""), rows...)
		}
	}
	if height > 0 && len(head) > height {
		head = head[:height]
	}
	return head
}

// trimTables cuts tables to a total number of lines, headers included. The longest is cut first.
func trimTables(tables [][]string, most int) {
	for {
		sum, longest := 0, 0
		for i, rows := range tables {
			if sum += len(rows); len(rows) > len(tables[longest]) {
				longest = i
			}
		}
		n := len(tables[longest])
		if sum <= most || n <= 2 {
			return
		}
		tables[longest] = tables[longest][:n-1]
	}
}

// tableLines returns the lines of a table.
func tableLines(t *screen.Table) []string {
	return strings.Split(strings.TrimRight(t.String(), "\n"), "\n")
}

func (t *top) age(at *time.Time) string {
	if at == nil {
		return ""
	}
	return screen.Duration(t.now.status.At.Sub(*at))
}

func (t *top) queues() []string {
	table := screen.NewTable("QUEUE", "WAITING", "OLDEST", "SERVED BY", "DEMANDS")
	if l := t.now.status.Unqueued; l.Waiting > 0 {
		table.Row("(not queued)", strconv.Itoa(l.Waiting), t.age(l.Oldest), "", "its turn, a retry pause or a runner")
	}
	for _, l := range t.now.status.Queues[:min(len(t.now.status.Queues), topRows)] {
		served := "no runner"
		if l.Served {
			served = "a runner"
		}
		l.Wants.ExecutorType, l.Wants.ExecutorProfile = "", "" // part of the queue's name
		wants := demands(l.Wants.Demands)
		if len(l.Wants.Agents) > 0 {
			wants = strings.TrimSpace(wants + " agents=" + screen.Truncate(strings.Join(l.Wants.Agents, ","), 40))
		}
		table.Row(l.Queue, strconv.Itoa(l.Waiting), t.age(l.Oldest), served, wants)
	}
	return tableLines(table)
}

func (t *top) runnerRows() []string {
	table := screen.NewTable("RUNNER", "STATUS", "HOST", "PROFILE", "SLOTS", "HEARTBEAT")
	for _, r := range t.now.runners[:min(len(t.now.runners), topRows)] {
		table.Row(r.ID, r.Status, screen.Truncate(r.Hostname, 30), r.Profile,
			fmt.Sprintf("%d/%d", *cmp.Or(r.Busy, new(int)), r.Slots),
			screen.Age(t.now.status.At, *cmp.Or(r.LastHeartbeat, new(time.Time))))
	}
	return tableLines(table)
}

func (t *top) runRows() []string {
	table := newRunTable()
	for _, r := range t.now.runs {
		table.Row(r.ID, r.Agent, string(r.Status), screen.Age(t.now.status.At, r.CreatedAt), durationOf(t.app, r),
			screen.Truncate(runNote(r), noteWidth))
	}
	return tableLines(table)
}
