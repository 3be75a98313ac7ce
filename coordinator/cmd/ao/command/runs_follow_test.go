package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// exchange is a request for a list of runs or its stream, and the answer.
type exchange struct {
	want string // path, the position that is asked for, and a part of the query
	code int    // 0: 200
	at   string // position of the answer
	body string
}

// followed answers requests one after the other. A stream ends where the next request is expected. The last one stays,
// and a last refusal is repeated.
type followed struct {
	mu     sync.Mutex
	script []exchange
	asked  []string
}

func (s *followed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.script) == 0 {
		http.Error(w, "that is not expected", http.StatusTeapot)
		return
	}
	e := s.script[0]
	if len(s.script) > 1 || e.code == 0 {
		s.script = s.script[1:]
	}
	position := r.Header.Get("Ao-Position") + r.Header.Get("Last-Event-ID")
	q := r.URL.Query()
	asked := fmt.Sprintf("%s %s %s%s", r.URL.Path, position, q.Get("limit"), q.Get("status"))
	s.asked = append(s.asked, asked)
	if asked != e.want {
		http.Error(w, "that is not expected", http.StatusTeapot)
		return
	}
	if e.at != "" {
		w.Header().Set("Ao-Position", e.at)
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/sse/runs" && e.code == 0 {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.WriteHeader(max(e.code, 200))
	_, _ = io.WriteString(w, e.body)
	w.(http.Flusher).Flush()
	if len(s.script) == 0 {
		<-r.Context().Done()
	}
}

// row is a run of 2026-03-01, of which only the state is of interest.
func row(id, status string, attempt int) string {
	ended := ""
	if status == "completed" || status == "failed" {
		ended = `,"completed_at":"2026-03-01T12:00:09Z"`
	}
	return fmt.Sprintf(`{"run_id":%q,"agent_name":"a","status":%q,"attempt":%d,"created_at":"2026-03-01T12:00:00Z"%s}`,
		id, status, attempt, ended)
}

func item(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func changed(position string, rows ...string) string {
	return item("runs", `{"runs":[`+strings.Join(rows, ",")+`],"position":"`+position+`"}`)
}

// TestFollowRuns: each state is printed once. That holds when the connection breaks, the coordinator is unavailable,
// too many changes come at once, or the history was replaced. A cancelled context, as by Ctrl-C, ends the command with
// success.
func TestFollowRuns(t *testing.T) {
	list := func(rows ...string) string { return `{"runs":[` + strings.Join(rows, ",") + `]}` }
	away := exchange{code: 503, body: `{"error":"unavailable","message":"NATS is away"}`}
	for _, tt := range []struct {
		name   string
		args   string
		script []exchange
		want   string // lines: id, status
		notes  int
	}{
		{"what is there comes first, the oldest first", "", []exchange{
			{"/runs  20", 0, "7", list(row("run_2", "running", 1), row("run_1", "completed", 1))},
			{"/sse/runs 7 ", 0, "", changed("9", row("run_3", "pending", 1), row("run_2", "completed", 1))},
		}, "run_1 completed|run_2 running|run_2 completed|run_3 pending", 0},
		{"a state is printed once", "", []exchange{
			{"/runs  20", 0, "7", list(row("run_1", "running", 1))},
			{"/sse/runs 7 ", 0, "", changed("8", row("run_1", "running", 1)) +
				changed("9", row("run_1", "running", 2))},
		}, "run_1 running|run_1 running", 0},
		{"a connection that breaks goes on where it broke", "--limit 3", []exchange{
			{"/runs  3", 0, "7", list()},
			{"/sse/runs 7 ", 0, "", changed("8", row("run_1", "pending", 1))},
			{"/sse/runs 8 ", away.code, "", away.body},
			{"/sse/runs 8 ", 0, "", changed("9", row("run_1", "failed", 1))},
		}, "run_1 pending|run_1 failed", 1},
		{"too many changes: the list is read", "", []exchange{
			{"/runs  20", 0, "7", list(row("run_1", "pending", 1))},
			{"/sse/runs 7 ", 0, "", item("more", `{"more":300,"position":"8"}`) +
				changed("9", row("run_9", "failed", 1))},
			{"/runs 8 1000", 0, "9", list(row("run_2", "pending", 1), row("run_1", "failed", 1))},
			{"/sse/runs 9 ", 0, "", changed("10", row("run_2", "running", 1))},
		}, "run_1 pending|run_1 failed|run_2 pending|run_2 running", 1},
		{"what the coordinator no longer knows: the list is read", "", []exchange{
			{"/runs  20", 0, "7", list()},
			{"/sse/runs 7 ", 0, "", item("gap", `{"after":"7"}`) + item("init", `{}`)},
			{"/runs 7 1000", 0, "9", list(row("run_1", "failed", 1))},
			{"/sse/runs 9 ", 0, "", changed("9", row("run_1", "failed", 1))},
		}, "run_1 failed", 0},
		{"another history", "", []exchange{
			{"/runs  20", 0, "7", list(row("run_1", "running", 1))},
			{"/sse/runs 7 ", 0, "", item("gap", `{"after":"7"}`)},
			{"/runs 7 1000", 409, "", `{"error":"position_unknown","message":"another history"}`},
			{"/runs  1000", 0, "2", list(row("run_2", "running", 1))},
			{"/sse/runs 2 ", 0, "", changed("3", row("run_2", "failed", 1))},
		}, "run_1 running|run_2 running|run_2 failed", 1},
		{"what leaves the list has a last line, what was never in it none", "--status running", []exchange{
			{"/runs  20running", 0, "7", list(row("run_1", "running", 1))},
			{"/sse/runs 7 running", 0, "", changed("8", row("run_2", "pending", 1), row("run_1", "failed", 1)) +
				changed("9", row("run_1", "failed", 2)) + changed("10", row("run_3", "running", 1))},
		}, "run_1 running|run_1 failed|run_3 running", 0},
		{"what is deleted", "", []exchange{
			{"/runs  20", 0, "7", list(row("run_1", "failed", 1))},
			{"/sse/runs 7 ", 0, "", item("runs", `{"runs":[],"deleted":["run_0","run_1"],"position":"8"}`)},
		}, "run_1 failed|run_1 deleted", 0},
	} {
		for _, form := range []string{"plain", "json"} {
			t.Run(tt.name+"/"+form, func(t *testing.T) {
				s := &followed{script: tt.script}
				t.Setenv("AO_URL", serve(t, s.ServeHTTP))
				ctx, cancel := context.WithCancel(t.Context())
				var out lineCounter
				var errs strings.Builder
				out.enough, out.all = strings.Count(tt.want, "|")+1, cancel
				code := Main(ctx, append(strings.Fields("runs -f "+tt.args), "--json="+
					strconv.FormatBool(form == "json")), strings.NewReader(""), &out, &errs, nil)
				got := statesOf(t, string(out.text), form == "json")
				notes := strings.Count(errs.String(), "\n")
				if got != tt.want || code != exitDone || form == "plain" && notes != tt.notes || form == "json" &&
					notes != 0 {
					t.Errorf("%d, %d notes, %s\nwant %d notes, %s\n%sasked %q\n%s", code, notes, got, tt.notes, tt.want,
						string(out.text), s.asked, errs.String())
				}
			})
		}
	}
}

// lineCounter takes what is printed, and calls all once that has enough lines.
type lineCounter struct {
	text   []byte
	enough int
	all    func()
}

func (l *lineCounter) Write(b []byte) (int, error) {
	l.text = append(l.text, b...)
	if bytes.Count(l.text, []byte("\n")) >= l.enough {
		l.all()
	}
	return len(b), nil
}

// statesOf is the run and the state of each line.
func statesOf(t *testing.T, out string, isJSON bool) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		id, state := "", words[len(words)-1]
		if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "run_") }); i >= 0 {
			id = words[i]
		}
		if isJSON {
			var doc struct {
				ID      string `json:"run_id"`
				Status  string
				Deleted bool
			}
			if err := json.Unmarshal([]byte(line), &doc); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			id, state = doc.ID, doc.Status
			if doc.Deleted {
				state = "deleted"
			}
		}
		all = append(all, id+" "+state)
	}
	return strings.Join(all, "|")
}
