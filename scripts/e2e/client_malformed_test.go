package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// coordinatorGone is a server in place of a coordinator. It has one run.
type coordinatorGone struct {
	stream func(http.ResponseWriter, *http.Request)
	page   string // the list of events
	sent   atomic.Int64
}

func (g *coordinatorGone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/runs/"):
		_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"running"}`)
	case strings.HasSuffix(r.URL.Path, "/events"):
		_, _ = io.WriteString(w, g.page)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		g.stream(w, r)
	}
}

// frame is a message of a stream.
func frame(name, id, data string) string {
	return fmt.Sprintf("event: %s\nid: %s\n: a comment\ndata: %s\n\n", name, id, data)
}

const (
	firstEvent = `{"event_type":"run_start","run_id":"run_1"}`
	lastEvent  = `{"event_type":"run_completed","run_id":"run_1"}`
)

// malformed: a stream continues after a message that no coordinator sends. Where there is no other, or a line has no
// end, it is unreachable.
func (k *clientStack) malformed(s *stack) {
	own := *s
	g := &coordinatorGone{page: `{"events":[],"next":""}`}
	server := httptest.NewServer(g)
	s.t.(*testing.T).Cleanup(server.Close)
	own.url = server.URL
	events := func(what, want string, env ...string) {
		s.t.Helper()
		var got []string
		for _, line := range k.says(&own, "", env, "events", "run_1") {
			r := reply{text: line}
			got = append(got, r.at("type")+r.at("error"))
		}
		s.same(what, strings.Join(got, " "), want)
	}
	g.stream = func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-ID") {
		case "":
			_, _ = io.WriteString(w, frame("event", "1", firstEvent)+frame("event", "2", lastEvent[:20]))
		case "1":
			_, _ = io.WriteString(w, frame("event", "2", lastEvent))
		}
	}
	events("a message cut short", "run_start run_completed end")

	bad := ""
	g.stream = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, bad+frame("session_deleted", "2", "{}")) // who goes on after bad ends without an error
	}
	for _, bad = range []string{
		frame("event", "1", `{"event_type":`), frame("event", "1", "null"), frame("event", "1", "[1]"),
		frame("event", "1", "{}"), frame("event", "1", `{"event_type":7}`), frame("event", "1", "\xff"),
		frame("event", "1", strings.Repeat("[", 100_000)), frame("init", "1", `{"runs":7}`),
		frame("init", "1", "<html>"),
	} {
		events(fmt.Sprintf("%.60q", bad), "unreachable", "RETRY_FOR=0.5")
	}
	bad = frame("init", "1", "{}")
	for _, g.page = range []string{"null", `{"events":7}`, `{"events":[` + firstEvent + `,{}],"next":"2"}`,
		`{"events":[` + firstEvent + `]}`} {
		events("the list "+g.page, "unreachable", "RETRY_FOR=0.5")
	}

	g.stream = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: ")
		for part := []byte(strings.Repeat("x", 1<<20)); ; {
			n, err := w.Write(part)
			if g.sent.Add(int64(n)); err != nil || g.sent.Load() > 1<<30 {
				return
			}
		}
	}
	events("a line without an end", "unreachable", "RETRY_FOR=0.5")
	if n := g.sent.Load(); n < 256<<20 || n > 320<<20 {
		s.t.Errorf("of a line without an end %d bytes were read", n)
	}
}
