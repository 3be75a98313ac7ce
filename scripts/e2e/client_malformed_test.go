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
	now  atomic.Pointer[falseAnswers]
	sent atomic.Int64
}

// falseAnswers are what it answers.
type falseAnswers struct {
	page   string // the list of events
	stream http.HandlerFunc
}

func (g *coordinatorGone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := g.now.Load()
	switch {
	case strings.HasPrefix(r.URL.Path, "/runs/"):
		_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"running"}`)
	case strings.HasSuffix(r.URL.Path, "/events"):
		_, _ = io.WriteString(w, now.page)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		now.stream(w, r)
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
	const noEvents = `{"events":[],"next":""}`
	g := &coordinatorGone{}
	server := httptest.NewServer(g)
	s.t.(*testing.T).Cleanup(server.Close)
	own.url = server.URL
	events := func(now falseAnswers, what, want string, env ...string) {
		s.t.Helper()
		g.now.Store(&now)
		var got []string
		for _, line := range k.says(&own, "", env, "events", "run_1") {
			r := reply{text: line}
			got = append(got, r.at("type")+r.at("error"))
		}
		s.same(what, strings.Join(got, " "), want)
	}
	events(falseAnswers{noEvents, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-ID") {
		case "":
			_, _ = io.WriteString(w, frame("event", "1", firstEvent)+frame("event", "2", lastEvent[:20]))
		case "1":
			_, _ = io.WriteString(w, frame("event", "2", lastEvent))
		}
	}}, "a message cut short", "run_start run_completed end")

	after := func(bad string) http.HandlerFunc { // who goes on after bad ends without an error
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, bad+frame("session_deleted", "2", "{}"))
		}
	}
	for _, bad := range []string{
		frame("event", "1", `{"event_type":`), frame("event", "1", "null"), frame("event", "1", "[1]"),
		frame("event", "1", "{}"), frame("event", "1", `{"event_type":7}`), frame("event", "1", "\xff"),
		frame("event", "1", strings.Repeat("[", 100_000)), frame("init", "1", `{"runs":7}`),
		frame("init", "1", "<html>"),
	} {
		events(falseAnswers{noEvents, after(bad)}, fmt.Sprintf("%.60q", bad), "unreachable", "RETRY_FOR=0.5")
	}
	for _, page := range []string{"null", `{"events":7}`, `{"events":[` + firstEvent + `,{}],"next":"2"}`,
		`{"events":[` + firstEvent + `]}`} {
		events(falseAnswers{page, after(frame("init", "1", "{}"))}, "the list "+page, "unreachable", "RETRY_FOR=0.5")
	}

	events(falseAnswers{noEvents, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: ")
		for part := []byte(strings.Repeat("x", 1<<20)); ; {
			n, err := w.Write(part)
			if g.sent.Add(int64(n)); err != nil || g.sent.Load() > 1<<30 {
				return
			}
		}
	}}, "a line without an end", "unreachable", "RETRY_FOR=0.5")
	if n := g.sent.Load(); n < 256<<20 || n > 320<<20 {
		s.t.Errorf("of a line without an end %d bytes were read", n)
	}
}
