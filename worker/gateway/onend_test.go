package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/shared/executor"
)

// slow is a connection whose deadlines take a while to be set.
type slow struct {
	*httptest.ResponseRecorder
	begun, returned, set chan struct{}
	hooked               atomic.Bool
	late                 bool // it was set on a connection that was the next request's by then
	cut                  bool // reading was ended, although the body was there
}

func (s *slow) SetReadDeadline(at time.Time) error {
	s.cut = s.cut || at == expired
	return nil
}

func (s *slow) SetWriteDeadline(at time.Time) error {
	if at.IsZero() || !s.hooked.CompareAndSwap(false, true) {
		return nil
	}
	close(s.begun)
	defer close(s.set)
	select {
	case <-s.returned:
		s.late = true
	case <-time.After(100 * time.Millisecond): // nobody hurries ahead of it
	}
	return nil
}

// The end of a run cuts off its own requests and no later ones: the connection may carry another run's next request.
func TestTheEndOfARunIsOverWithItsRequests(t *testing.T) {
	t.Parallel()
	w := &slow{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), returned: make(chan struct{}),
		set: make(chan struct{})}
	var d *Endpoint
	g, d, _ := open(t, Config{}, func(r *Run) {
		r.OnLine = func(context.Context, executor.Line) error {
			go d.Close()
			<-w.begun
			return nil
		}
	})
	r := httptest.NewRequest(http.MethodPost, d.URL+"/events",
		strings.NewReader(`{"event_type":"message","role":"assistant","content":[]}`))
	r.Host = g.addr
	g.ServeHTTP(w, r)
	close(w.returned)
	d.Close()
	select {
	case <-w.begun:
	default:
		t.Fatalf("the run's end was not met: %d %s", w.Code, w.Body)
	}
	<-w.set
	if w.cut {
		t.Error("a request's body was there, and reading was ended: the server cancels all later requests of that " +
			"connection")
	}
	if w.late {
		t.Error("a request was over, and the connection's deadline was set after it")
	}
}

// A program that lives through several runs keeps its connection. A response read just before its run ended does not
// harm the next run's requests.
func TestAKeptConnectionIsGoodForTheNextRun(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"agents":[]}`))
	}))
	t.Cleanup(s.Close)
	g, d, _ := open(t, Config{})
	d.Close()
	kept := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 30 * time.Second}
	t.Cleanup(kept.CloseIdleConnections)
	for i := range 200 {
		d, _ := openEndpoint(g, "1", func(r *Run) {
			r.URLKey = "ses_1"
			r.API = func() string { return s.URL }
		})
		a, err := kept.Get(d.URL + "/api/agents")
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("run %d: got %d %s %v, want 200", i, a.StatusCode, body, err)
		}
		d.Close()
	}
}

// Requests of two runs are pipelined on one connection; the end of the first run answers the first and leaves the
// second.
func TestPipelinedRequestsOfTwoRuns(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	g, first, _ := open(t, Config{}, func(r *Run) {
		r.State = func(ctx context.Context) ([]byte, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	second, _ := openEndpoint(g, "2")
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	event := `{"event_type":"message","role":"assistant","content":[]}`
	fmt.Fprintf(conn,
		"GET /%s/state HTTP/1.1\r\nHost: %s\r\n\r\nPOST /%s/events HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"+
			"%s",
		first.token, g.addr, second.token, g.addr, len(event), event)
	<-entered
	first.Close()
	answers := bufio.NewReader(conn)
	for i, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		a, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		io.Copy(io.Discard, a.Body)
		if a.StatusCode != want {
			t.Errorf("answer %d is %d, want %d", i, a.StatusCode, want)
		}
	}
}
