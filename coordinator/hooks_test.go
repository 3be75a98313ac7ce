package coordinator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/journal"
	"ao/coordinator/webhook"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// receiver takes HTTP callbacks and answers with what answer says, 200 where that is 0.
type receiver struct {
	url    string
	mu     sync.Mutex
	answer int
	got    []*http.Request
	bodies []string
}

func receive(t *testing.T) *receiver {
	r := &receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
		if r.answer != 0 {
			w.WriteHeader(r.answer)
		}
	}))
	t.Cleanup(s.Close)
	r.url = s.URL + "/told?by=us"
	return r
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = status
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// local is a client that may tell receivers on this machine.
func local(t *testing.T) *webhook.Client {
	t.Helper()
	c, err := webhook.New(webhook.Config{Policy: webhook.Policy{
		Hosts: []string{"127.0.0.1"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAReceiverIsToldOnceBySeveralCoordinators(t *testing.T) {
	s := natstest.Server(t)
	to := receive(t)
	c := begin(t, natstest.Open(t, s), Config{Webhooks: local(t)})
	for range 2 {
		begin(t, natstest.Open(t, s), Config{Webhooks: local(t)})
	}
	r := runner("one", echo("a"))
	register(t, c, r)
	id := submit(t, c, `{"agent_name":"a","callback_url":"`+to.url+`"}`, "").RunID
	if got := hook(t, c, id); got.Status != run.CallWaiting {
		t.Errorf("before the end: %+v", got)
	}
	finish(t, c, claim(t, c, id, r))
	natstest.Until(t, "it is delivered", func() bool { return hook(t, c, id).Status == run.CallDelivered })
	var told struct {
		Type string
		Data run.Run
	}
	if err := json.Unmarshal([]byte(to.bodies[0]), &told); err != nil || told.Type != "run.completed" || told.Data.ID != id || told.Data.Status != run.Completed {
		t.Errorf("%v: %s", err, to.bodies[0])
	}
	if h := to.got[0].Header; h.Get("webhook-id") != "msg_"+strings.TrimPrefix(id, "run_") || h.Get("webhook-signature") == "" || h.Get("webhook-timestamp") == "" {
		t.Errorf("headers %v", h)
	}
	records, err := c.bus.Records(t.Context(), subject.Notified(subject.Partition(to.session(t, c, id)), id, 1), 0, 10)
	if err != nil || len(records) != 1 || to.count() != 1 {
		t.Errorf("%d records, %d requests, %v", len(records), to.count(), err)
	}
}

func (r *receiver) session(t *testing.T, c *Coordinator, id string) string {
	t.Helper()
	got, err := c.Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got.SessionID
}

func hook(t *testing.T, c *Coordinator, id string) run.Call {
	t.Helper()
	r, err := c.Show(t.Context(), id)
	if err != nil || r.HTTPCallback == nil {
		t.Fatalf("%+v %v", r, err)
	}
	return *r.HTTPCallback
}

// The schedule is on the stream: another coordinator goes on with it. What is dead can be asked for again.
func TestAReceiverThatFails(t *testing.T) {
	s := natstest.Server(t)
	to := receive(t)
	to.answers(503)
	c := begin(t, natstest.Open(t, s), Config{Webhooks: local(t)})
	r := runner("one", echo("a"))
	register(t, c, r)
	id := submit(t, c, `{"agent_name":"a","callback_url":"`+to.url+`"}`, "").RunID
	finish(t, c, claim(t, c, id, r))
	natstest.Until(t, "the first try has failed", func() bool { return hook(t, c, id).Tries == 1 })
	got := hook(t, c, id)
	if got.Status != run.CallOwed || got.HTTP != 503 || got.Reason == "" || got.Next == nil || time.Until(*got.Next) < time.Second {
		t.Errorf("got %+v", got)
	}
	c = begin(t, natstest.Open(t, s), Config{Webhooks: local(t)})
	if other := hook(t, c, id); other.Tries != 1 || other.Next == nil || !other.Next.Equal(*got.Next) {
		t.Errorf("another coordinator says %+v, want %+v", other, got)
	}
	to.answers(410)
	if _, err := c.Redeliver(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it is dead", func() bool { return hook(t, c, id).Status == run.CallDead })
	page, err := c.Callbacks(t.Context(), journal.Query{Statuses: []string{run.CallDead}})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].CallbackURL != to.url {
		t.Errorf("%+v %v", page, err)
	}
	to.answers(204)
	if _, err := c.Redeliver(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it is delivered", func() bool { return hook(t, c, id).Status == run.CallDelivered })
	if _, err := c.Redeliver(t.Context(), id); fault.KindOf(err) != fault.Conflict {
		t.Errorf("delivered, and asked for again: %v", err)
	}
	if to.count() != 3 {
		t.Errorf("%d requests", to.count())
	}
}

func TestACallbackURLIsRefusedUnlessAllowed(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{})
	register(t, c, runner("one", echo("a")))
	for _, body := range []string{`{"agent_name":"a","callback_url":"https://example.com/x"}`, `{"agent_name":"a","callback_url":"nonsense"}`} {
		_, err := c.Submit(t.Context(), []byte(body), "", "")
		if f := fault.Of(err); f.Kind != fault.Invalid || !strings.Contains(f.Message, "AO_CALLBACK_HOSTS") {
			t.Errorf("%s: %v", body, err)
		}
	}
	if waiting, _, _ := c.Journal.Counts(); waiting != 0 {
		t.Error("stored all the same")
	}
}
