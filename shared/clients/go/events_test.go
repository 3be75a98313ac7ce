package ao

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func eventOf(kind string) string { return fmt.Sprintf(`{"event_type":%q,"run_id":"run_1"}`, kind) }

// line is the transport of a session's events: it knows all of them and breaks as its script says.
type line struct {
	events []string // their types; the i-th has the position 0-(i+1)
	listed int      // how many of them the list has
	breaks []int    // the n-th connection ends after so many messages
	conns  int
	from   []string // Last-Event-ID of each connection
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := 0
	if r.URL.Path != "/sse/sessions" {
		_, _ = fmt.Sscanf(r.URL.Query().Get("after"), "0-%d", &at)
		page := l.events[min(at, l.listed):l.listed]
		page = page[:min(2, len(page))]
		var docs []string
		for _, kind := range page {
			docs = append(docs, eventOf(kind))
		}
		_, _ = fmt.Fprintf(w, `{"events":[%s],"next":"0-%d"}`, strings.Join(docs, ","), at+len(page))
		return
	}
	l.from = append(l.from, r.Header.Get("Last-Event-ID"))
	most := len(l.events) + 1
	if l.conns < len(l.breaks) {
		most = l.breaks[l.conns]
	}
	l.conns++
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		if most--; most < 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprintf(w, format, args...)
		w.(http.Flusher).Flush()
	}
	if last := r.Header.Get("Last-Event-ID"); last == "" {
		at = l.listed
		say("id: 0-%d\nevent: init\ndata: {}\n\n", at)
	} else {
		_, _ = fmt.Sscanf(last, "0-%d", &at)
	}
	for ; at < len(l.events); at++ {
		say("id: 0-%d\nevent: event\ndata: %s\n\n", at+1, eventOf(l.events[at]))
	}
	<-r.Context().Done()
}

// TestFollow: whatever is listed before, and wherever connections break, every event is yielded once and in order.
func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		after  string
		listed int
		breaks []int
		want   string
		from   string
	}{
		{"from the beginning, nothing listed", "", 0, nil, "abcde", ""},
		{"from the beginning, three listed", "", 3, nil, "abcde", ",0-3"},
		{"all listed", "", 5, nil, "abcde", ""},
		{"after a position", "0-2", 2, nil, "cde", "0-2"},
		{"breaks at once", "0-2", 2, []int{0, 0, 0}, "cde", "0-2,0-2,0-2,0-2"},
		{"breaks after each", "0-0", 0, []int{1, 1, 1}, "abcde", "0-0,0-1,0-2,0-3"},
		{"breaks before init", "", 2, []int{0, 1, 1}, "abcde", ",,0-2,0-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &line{events: strings.Split("abcde", ""), listed: tt.listed, breaks: tt.breaks}
			c, _ := against(t, l.ServeHTTP)
			got, at := "", ""
			for m, err := range c.Follow(t.Context(), "ses_1", tt.after) {
				if err != nil {
					t.Fatal(err)
				}
				got, at = got+m.Type, m.Position
				if strings.HasSuffix(got, "e") {
					break
				}
			}
			if got != tt.want || strings.Join(l.from, ",") != tt.from || at != "0-5" {
				t.Errorf("got %q to %s over connections from %q; want %q from %q", got, at, l.from, tt.want, tt.from)
			}
		})
	}
}

func TestFollowEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _ := against(t, (&line{events: []string{"a"}}).ServeHTTP)
	var last error
	for _, last = range c.Follow(ctx, "ses_1", "") {
		cancel()
	}
	if last != context.Canceled {
		t.Errorf("got %v", last)
	}
}

func TestFollowIsRefused(t *testing.T) {
	for status, body := range map[int]string{404: `{"error":"not_found","message":"no such session"}`, 200: "<html>"} {
		c, notices := against(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
		var all []error
		for _, err := range c.Follow(t.Context(), "ses_1", "") {
			all = append(all, err)
		}
		if len(all) != 1 || all[0] == nil || Temporary(all[0]) || notices.Load() != 0 {
			t.Errorf("%d: got %v after %d notices", status, all, notices.Load())
		}
	}
}

func TestListEvents(t *testing.T) {
	c, _ := against(t, (&line{events: strings.Split("abcde", ""), listed: 5}).ServeHTTP)
	got := ""
	for e, err := range c.ListEvents(t.Context(), "ses_1", "0-1") {
		if err != nil {
			t.Fatal(err)
		}
		got += e.Type + e.Position + " "
	}
	if got != "b0-1 c0-3 d0-3 e0-5 " {
		t.Errorf("got %s", got)
	}
}

// TestEventsOfAnEndedRun end even if none is left.
func TestEventsOfAnEndedRun(t *testing.T) {
	c, _ := against(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/runs/run_1":
			_, _ = fmt.Fprint(w, `{"run_id":"run_1","session_id":"ses_1","status":"completed"}`)
		case "/sessions/ses_1/events":
			_, _ = fmt.Fprint(w, `{"events":[],"next":""}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			const state = `{"runs":[{"run_id":"run_1","status":"completed"}]}`
			_, _ = fmt.Fprint(w, "id: 0-9\nevent: init\ndata: "+state+"\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for e, err := range c.Events(ctx, "run_1", "") {
		t.Errorf("got %v, %v", e, err)
	}
}

// TestListThatDoesNotAdvance is an error, not a loop.
func TestListThatDoesNotAdvance(t *testing.T) {
	c, _ := against(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"events":[%s],"next":"0-1"}`, eventOf("a"))
	})
	got := ""
	for e, err := range c.ListEvents(t.Context(), "ses_1", "") {
		got += fmt.Sprintf("%s %v ", e.Type, err != nil)
	}
	if got != "a false  true " {
		t.Errorf("got %q", got)
	}
}
