package gateway

import (
	"context"
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
	late                 bool // it was set on a connection that was the next request's by then
	hooked               atomic.Bool
	cut                  bool // reading was ended, although the body was there
}

func (s *slow) SetReadDeadline(at time.Time) error {
	s.cut = s.cut || at == past
	return nil
}

func (s *slow) SetWriteDeadline(at time.Time) error {
	if at != past || s.hooked.Swap(true) { // the answer hurries, too
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

// The end of a run cuts its own requests off, and no later one: a connection that a program keeps may be another run's next.
func TestTheEndOfARunIsOverWithItsRequests(t *testing.T) {
	t.Parallel()
	w := &slow{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), returned: make(chan struct{}), set: make(chan struct{})}
	var d *Door
	g, d, _ := open(t, Config{}, func(r *Run) {
		r.Tell = func(context.Context, executor.Line) error {
			go d.Close()
			<-w.begun
			return nil
		}
	})
	r := httptest.NewRequest(http.MethodPost, d.URL+"/events", strings.NewReader(`{"event_type":"message","role":"assistant","content":[]}`))
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
		t.Error("a request's body was there, and reading was ended: the server cancels all later requests of that connection")
	}
	if w.late {
		t.Error("a request was over, and the connection's deadline was set after it")
	}
}
