package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stand answers as a coordinator does of which everything moves on between two looks, and goes away for a while after
// some of them.
type stand struct {
	looks atomic.Int64
	away  func(look int64) bool
}

var standAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)

func (s *stand) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/status":
		n := s.looks.Add(1)
		if s.away != nil && s.away(n) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":"unavailable","message":"NATS is away"}`)
			return
		}
		at := standAt.Add(time.Duration(n) * time.Second)
		since := func(ago time.Duration) string { return at.Add(-ago).UTC().Format(time.RFC3339Nano) }
		_, _ = fmt.Fprintf(w,
			`{"at":%q,"since":%q,"sequence":%d,"runs":{"pending":3,"claimed":1,"running":2,"stopping":0,"ended":40},`+
				`"totals":{"accepted":%d,"retried":0,"completed":%d,"failed":1,"stopped":0},
			"queues":[{"queue":"procedural._._","waiting":2,"oldest_since":%q,"wants":{"executor_type":"procedural"},`+
				`"served":true},{"queue":"autonomous.p.00ff","waiting":0,"wants":{"executor_type":"autonomous",`+
				`"executor_profile":"p","tags":["gpu"],"agents":["x","y"]},"served":false}],
			"not_queued":{"waiting":1,"oldest_since":%q},"runners":{"online":1,"stale":2},"slots":{"all":8,`+
				`"taken":3},"max_pending":100}`,
			since(0), standAt.Add(-time.Hour).UTC().Format(time.RFC3339Nano), n, 10*n, 4*n, since(90*time.Second),
			since(3*time.Second))
	case "/runners":
		_, _ = fmt.Fprintf(w, `{"runners":[{"runner_id":"rnr_1","hostname":"h\u001b[2J","executor_profile":"p",`+
			`"status":"online","max_concurrent_runs":8,"running":3,"last_heartbeat":%q}]}`,
			standAt.UTC().Format(time.RFC3339Nano))
	case "/runs":
		_, _ = fmt.Fprintf(w, `{"runs":[{"run_id":"run_1","agent_name":"a","status":"failed","created_at":%q,`+
			`"error":{"error":"x","message":"no such file"}}],"next_cursor":"c"}`,
			standAt.Add(-time.Minute).UTC().Format(time.RFC3339Nano))
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"not_found","message":"There is no such thing"}`)
	}
}

func TestTopOnce(t *testing.T) {
	url := serve(t, (&stand{}).ServeHTTP)
	out, errs, code := ao(t, url, "", "top", "--once")
	want := `
ao top  ` + url + `  12:00:01  up 1h00m
runs     3 pending (of 100)  1 claimed  2 running  0 stopping  40 ended
since up 10 accepted  4 completed  1 failed  0 stopped  0 retried
slots    3 of 8 taken; runners: 1 online 2 stale

QUEUE              WAITING  OLDEST  SERVED BY  DEMANDS
(not queued)       1        3.0s    -          its turn, a retry pause or a runner
procedural._._     2        1m30s   a runner   -
autonomous.p.00ff  0        -       no runner  tags=gpu agents=x,y

RUNNER  STATUS  HOST      PROFILE  SLOTS  HEARTBEAT
rnr_1   online  h\x1b[2J  p        3/8    1s ago

RUN    AGENT  STATUS  CREATED  NOTE
run_1  a      failed  1m ago   no such file
`
	if "\n"+out != want || errs != "" || code != exitDone {
		t.Errorf("got %d %s%s\nwant %s", code, out, errs, want)
	}
	out, _, code = ao(t, url, "", "top", "--once", "--json")
	var doc struct {
		Status  struct{ Sequence int }
		Runners []struct {
			ID string `json:"runner_id"`
		}
		Runs []struct {
			ID string `json:"run_id"`
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || strings.Count(out, "\n") != 1 ||
		doc.Status.Sequence != 2 || doc.Runners[0].ID != "rnr_1" || doc.Runs[0].ID != "run_1" || code != exitDone {
		t.Errorf("%d %v %s", code, err, out)
	}
	for _, tt := range []struct {
		url  string
		code int
		say  string
	}{
		{"http://127.0.0.1:1", exitUnreachable, "no coordinator answers"},
		{answering(t, 403, `{"error":"forbidden","message":"not for you"}`), exitFailed, "not for you"},
		{answering(t, 200, `{}`), exitFailed, "the status cannot be read"},
	} {
		for _, args := range [][]string{{"top", "--once"}, {"top"}} {
			if _, errs, code := ao(t, tt.url, "", args...); code != tt.code || !strings.Contains(errs, tt.say) {
				t.Errorf("%v at %s: %d %s", args, tt.url, code, errs)
			}
		}
	}
}

// typist types when somebody has seen enough.
type typist struct {
	seen func(shown string) bool
	key  string

	mu    sync.Mutex
	shown strings.Builder
	typed chan struct{}
}

func (y *typist) Write(b []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.shown.Write(b)
	if y.seen(y.shown.String()) {
		select {
		case <-y.typed:
		default:
			close(y.typed)
		}
	}
	return len(b), nil
}

func (y *typist) Read(b []byte) (int, error) {
	<-y.typed
	return copy(b, y.key), nil
}

// TestTopRefreshes: one picture a second, with rates, over an outage, until q is typed.
func TestTopRefreshes(t *testing.T) {
	t.Setenv("AO_URL", serve(t, (&stand{away: func(look int64) bool { return look == 3 }}).ServeHTTP))
	y := &typist{key: "xq", typed: make(chan struct{}), seen: func(s string) bool {
		return strings.Count(s, "ao top") == 4
	}}
	var errs strings.Builder
	if code := Main(t.Context(), []string{"top"}, y, y, &errs, nil); code != exitDone || errs.String() != "" {
		t.Fatalf("%d %s", code, errs.String())
	}
	shown := y.shown.String()
	pictures := strings.Split(shown, "ao top")[1:]
	for i, want := range []string{"since up 10 accepted", "per s    10.0 accepted  4.0 completed  0.0 failed",
		"error    NATS is away; last update at 12:00:02", "12:00:04  up 1h00m"} {
		if !strings.Contains(pictures[i], want) {
			t.Errorf("picture %d has no %q: %s", i+1, want, pictures[i])
		}
	}
	if strings.Contains(pictures[3], "trouble") || strings.Contains(shown, "\x1b") {
		t.Errorf("%s", shown)
	}
}

// TestTopEndsWithARevokedToken: a token that is revoked meanwhile is no outage.
func TestTopEndsWithARevokedToken(t *testing.T) {
	s := &stand{}
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if s.looks.Load() > 0 && req.URL.Path == "/status" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"unauthorized","message":"This token was revoked"}`)
			return
		}
		s.ServeHTTP(w, req)
	})
	if _, errs, code := ao(t, url, "", "top"); code != exitFailed || !strings.Contains(errs, "This token was revoked") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestFit: a picture has no more lines than there is room for; what is longest loses first.
func TestFit(t *testing.T) {
	table := func(n int) []string { return strings.Split(strings.Repeat("x ", n-1)+"x", " ") }
	for _, tt := range []struct {
		most int
		want string
	}{{100, "[3 9 20]"}, {20, "[3 8 9]"}, {9, "[3 3 3]"}, {3, "[2 2 2]"}, {-5, "[2 2 2]"}} {
		tables := [][]string{table(3), table(9), table(20)}
		trimTables(tables, tt.most)
		if got := fmt.Sprint([]int{len(tables[0]), len(tables[1]), len(tables[2])}); got != tt.want {
			t.Errorf("%d lines: got %s, want %s", tt.most, got, tt.want)
		}
	}
}
