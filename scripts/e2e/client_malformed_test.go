package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// coordinatorGone is a server in place of a coordinator. It has one run.
type coordinatorUnavailable struct {
	now     atomic.Pointer[falseAnswers]
	streams atomic.Int64 // how many were opened
	sent    atomic.Int64
}

// falseAnswers are what it answers.
type falseAnswers struct {
	page   string // the list of events
	stream http.HandlerFunc
}

func (g *coordinatorUnavailable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	noEvents   = `{"events":[],"next":""}`
	firstEvent = `{"event_type":"run_start","run_id":"run_1"}`
	lastEvent  = `{"event_type":"run_completed","run_id":"run_1"}`
)

// malformed: a stream continues after a message that no coordinator sends. Where there is no other, or a line has no
// end, it is unreachable.
func (k *clientStack) malformed(s *stack) {
	own := *s
	g := &coordinatorUnavailable{}
	server := httptest.NewServer(g)
	s.t.(*testing.T).Cleanup(server.Close)
	own.url = server.URL
	events := func(now falseAnswers, what, want string, env ...string) {
		s.t.Helper()
		g.streams.Store(0)
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

	k.lasting(g, events)

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

// lasting: only a position beyond all before ends an outage, or a stream that was open for long and then broke. Each
// server lets its tenth stream end the run, so that a client which never gives up is seen.
func (k *clientStack) lasting(g *coordinatorUnavailable, events func(falseAnswers, string, string, ...string)) {
	server := func(stream func(n int64, w io.Writer, r *http.Request)) falseAnswers {
		return falseAnswers{noEvents, func(w http.ResponseWriter, r *http.Request) {
			n := g.streams.Add(1)
			if n == 10 {
				_, _ = io.WriteString(w, frame("event", "99", lastEvent))
			}
			stream(n, w, r)
		}}
	}
	quiet := func(w io.Writer, r *http.Request) {
		_ = http.NewResponseController(w.(http.ResponseWriter)).Flush()
		select {
		case <-time.After(5500 * time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, ": heartbeat\n\n")
	}
	bad := frame("event", "10-4", "{}")

	events(server(func(_ int64, w io.Writer, _ *http.Request) {
		_, _ = io.WriteString(w, frame("init", "10-3", "{}")+bad)
	}), "a message that stays malformed", "unreachable", "RETRY_FOR=2")
	events(server(func(_ int64, w io.Writer, _ *http.Request) {
		_, _ = io.WriteString(w, frame("init", "9-3", "{}")+frame("run_updated", "10-3.1", "{}")+bad)
	}), "a malformed message after others", "unreachable", "RETRY_FOR=2")
	events(server(func(_ int64, w io.Writer, r *http.Request) {
		quiet(w, r)
		_, _ = io.WriteString(w, bad)
	}), "a malformed message after a heartbeat", "unreachable", "RETRY_FOR=2")

	short := []string{"9-9", "9-10", "9-10.1", "9-11", "10-11"}
	events(server(func(n int64, w io.Writer, _ *http.Request) {
		if n <= int64(len(short)) {
			_, _ = io.WriteString(w, frame("event", short[n-1], firstEvent))
		} else {
			_, _ = io.WriteString(w, frame("event", "11-12", lastEvent))
		}
	}), "short streams", strings.Repeat("run_start ", len(short))+"run_completed end", "RETRY_FOR=2.5")
	events(server(func(n int64, w io.Writer, r *http.Request) {
		if n == 3 {
			_, _ = io.WriteString(w, frame("event", "1", lastEvent))
		}
		quiet(w, r)
	}), "quiet streams", "run_completed end", "RETRY_FOR=2")
	events(server(func(n int64, w io.Writer, r *http.Request) {
		if n == 3 {
			_, _ = io.WriteString(w, frame("event", "1", lastEvent))
		}
		quiet(w, r)
		_, _ = io.WriteString(w, frame("error", "", `{"error":"unavailable"}`))
	}), "quiet streams that end with an error", "run_completed end", "RETRY_FOR=2")
}
