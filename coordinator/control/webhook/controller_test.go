package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/control/webhook"
	"ao/coordinator/coordinatortest"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
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

// local is a client that may deliver to receivers on this machine.
func local(t *testing.T) *webhook.Client {
	t.Helper()
	c, err := webhook.New(webhook.Config{Policy: webhook.Policy{
		Hosts: []string{
			"127.0.0.1",
		}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSeveralCoordinatorsDeliverAWebhookOnce(t *testing.T) {
	s := natstest.Server(t)
	to := receive(t)
	c := coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	for range 2 {
		coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	}
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","callback_url":"`+to.url+`"}`, "").RunID
	if got := stateOf(t, c, id); got.Status != run.CallbackWaiting {
		t.Errorf("before the end: %+v", got)
	}
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))
	natstest.Until(t, "it is delivered", func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	var payload struct {
		Type string
		Data run.Run
	}
	if err := json.Unmarshal([]byte(to.bodies[0]), &payload); err != nil || payload.Type != "run.completed" ||
		payload.Data.ID != id ||
		payload.Data.Status != run.Completed {
		t.Errorf("%v: %s", err, to.bodies[0])
	}
	if h := to.got[0].Header; h.Get("webhook-id") != "msg_"+strings.TrimPrefix(id, "run_") ||
		h.Get("webhook-signature") == "" ||
		h.Get("webhook-timestamp") == "" {
		t.Errorf("headers %v", h)
	}
	records, err := c.Bus.Records(t.Context(), subject.Notified(subject.Partition(to.session(t, c, id)), id, 1), 0, 10)
	if err != nil || len(records) != 1 || to.count() != 1 {
		t.Errorf("%d records, %d requests, %v", len(records), to.count(), err)
	}
}

func (r *receiver) session(t *testing.T, c *parts.Coordinator, id string) string {
	t.Helper()
	got, err := c.Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got.SessionID
}

func stateOf(t *testing.T, c *parts.Coordinator, id string) run.CallbackState {
	t.Helper()
	r, err := c.Show(t.Context(), id)
	if err != nil || r.HTTPCallback == nil {
		t.Fatalf("%+v %v", r, err)
	}
	return *r.HTTPCallback
}

// The schedule is in the stream: another coordinator continues it. A dead callback can be redelivered.
func TestFailingReceiver(t *testing.T) {
	s := natstest.Server(t)
	to := receive(t)
	to.answers(503)
	c := coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","callback_url":"`+to.url+`"}`, "").RunID
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))
	natstest.Until(t, "the first try has failed", func() bool { return stateOf(t, c, id).Tries > 0 })
	over, err := c.Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := *over.HTTPCallback
	if got.Status != run.CallbackPending || got.HTTP != 503 || got.Reason == "" || got.Next == nil ||
		got.Next.Sub(*over.EndedAt) < time.Second {
		t.Fatalf("got %+v", got)
	}
	slow := func() bool { return !time.Now().Before(*got.Next) } // then another try may have been made
	c = coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	if other := stateOf(t, c, id); (other.Tries != 1 || other.Next == nil || !other.Next.Equal(*got.Next)) && !slow() {
		t.Errorf("another coordinator says %+v, want %+v", other, got)
	}
	to.answers(410)
	if _, err := c.Redeliver(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it is dead", func() bool { return stateOf(t, c, id).Status == run.CallbackDead })
	page, err := c.Callbacks(t.Context(), query.Query{Statuses: []string{run.CallbackDead}})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].CallbackURL != to.url {
		t.Errorf("%+v %v", page, err)
	}
	to.answers(204)
	if _, err := c.Redeliver(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it is delivered", func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	if _, err := c.Redeliver(t.Context(), id); fault.KindOf(err) != fault.Conflict {
		t.Errorf("delivered, and asked for again: %v", err)
	}
	if n := to.count(); n != 3 && (n != 4 || !slow()) {
		t.Errorf("%d requests", n)
	}
}

// many has n runs end that a receiver wants to hear of.
func many(t *testing.T, c *parts.Coordinator, r runnerapi.Runner, n int, url string) (ids []string) {
	t.Helper()
	for range n {
		ids = append(ids, coordinatortest.Submit(t, c, `{"agent_name":"a","callback_url":"`+url+`"}`, "").RunID)
	}
	for _, id := range ids {
		coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))
	}
	return ids
}

func TestManyRunsAreDeliveredOnce(t *testing.T) {
	s := natstest.Server(t)
	to := receive(t)
	c := coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	ids := many(t, c, r, 60, to.url)
	for _, id := range ids {
		natstest.Until(t, "it is delivered",
			func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	}
	if to.count() != len(ids) {
		t.Errorf("%d runs, %d requests", len(ids), to.count())
	}
	natstest.Until(t, "all holds are forgotten", func() bool {
		return c.Posting.Rests()
	})
}

// seize makes a try another coordinator's, whose clock goes wrong by a day.
func seize(t *testing.T, c *parts.Coordinator, id string, n int) {
	t.Helper()
	mine, err := json.Marshal(webhook.Taken{By: "another", At: time.Now().Add(-24 * time.Hour)})
	if err == nil {
		_, err = c.Bus.Bucket(subject.Reservations).Put(t.Context(), subject.WebhookTryKey(id, n), mine)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// age lets the time go by after which a try of another is overdue, once that try was seen.
func age(t *testing.T, c *parts.Coordinator, id string) {
	t.Helper()
	natstest.Until(t, "another's try is seen", func() bool { return c.Posting.Age(id) })
}

// No clocks are compared: an attempt that another coordinator reserved is made here once it was seen unmade for a
// minute.
func TestReservedAttemptIsLeftToItsCoordinator(t *testing.T) {
	to := receive(t)
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Webhooks: local(t)})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","callback_url":"`+to.url+`"}`, "").RunID
	seize(t, c, id, 1)
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))
	natstest.Until(t, "the try is left to another", func() bool {
		return c.Posting.Theirs(id)
	})
	if due := c.Posting.Look(time.Now()); len(due) != 0 || to.count() != 0 {
		t.Errorf("%d requests, to be made: %v", to.count(), due)
	}
	age(t, c, id)
	natstest.Until(t, "it is delivered", func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	if to.count() != 1 {
		t.Errorf("%d requests", to.count())
	}
}

// A lookup may be old when an attempt is reserved: what the stream has counts.
func TestFinishedAttemptIsNotRepeated(t *testing.T) {
	to := receive(t)
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Webhooks: local(t)})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := many(t, c, r, 1, to.url)[0]
	natstest.Until(t, "it is delivered", func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	session := to.session(t, c, id)
	// by this process, which did not get to it; by one that died after it
	for _, wasSeized := range []bool{false, true} {
		if wasSeized {
			seize(t, c, id, 1)
		}
		_, rev, err := c.Bus.Bucket(subject.Reservations).Get(t.Context(), subject.WebhookTryKey(id, 1))
		if err != nil {
			t.Fatal(err)
		}
		old := state.Webhook{RunID: id, SessionID: session}
		c.Posting.SeenLongAgo(id, rev)
		if err := c.Posting.Try(t.Context(), old); err != nil || to.count() != 1 {
			t.Errorf("%d requests, %v", to.count(), err)
		}
	}
}

// After a loss of records a run may end behind a step of its webhook. That step does not count, and keeps its number.
func TestStepBeforeTheEndRecordDoesNotBlock(t *testing.T) {
	to := receive(t)
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Webhooks: local(t)})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","callback_url":"`+to.url+`"}`, "").RunID
	session := to.session(t, c, id)
	early, err := json.Marshal(run.Notified{V: 1, SessionID: session, N: 1, Status: run.NotifyDead, At: time.Now()})
	if err == nil {
		_, err = c.Bus.Append(t.Context(), bus.Entry{Body: early,
			Subject: subject.Notified(subject.Partition(session), id, 1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))
	natstest.Until(t, "it is delivered", func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	if to.count() != 1 {
		t.Errorf("%d requests", to.count())
	}
}

// If a run cannot be read yet, no attempt is reserved, so no coordinator waits for it.
func TestUnreadableRunReservesNoAttempt(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Webhooks: local(t)})
	unknown := state.Webhook{RunID: run.NewID(), SessionID: run.NewID()}
	if err := c.Posting.Try(t.Context(), unknown); err == nil {
		t.Error("no error")
	}
	if _, _, err := c.Bus.Bucket(subject.Reservations).Get(t.Context(),
		subject.WebhookTryKey(unknown.RunID, 1)); !errors.Is(
		err,
		bus.ErrNotFound,
	) {
		t.Errorf("taken all the same: %v", err)
	}
}

func TestHangingReceiverLeavesSlotsForOthers(t *testing.T) {
	end := make(chan struct{})
	var hangs atomic.Int32
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hangs.Add(1)
		<-end
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(end) })
	to := receive(t)
	patient, err := webhook.New(webhook.Config{Timeout: time.Hour, Policy: webhook.Policy{
		Hosts: []string{
			"127.0.0.1",
		}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Webhooks: patient})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	many(t, c, r, 40, hanging.URL)
	natstest.Until(t, "the hanging one has its share", func() bool { return hangs.Load() >= webhook.HostTries })
	for _, id := range many(t, c, r, 5, to.url) {
		natstest.Until(t, "the other is delivered",
			func() bool { return stateOf(t, c, id).Status == run.CallbackDelivered })
	}
	if n := hangs.Load(); n != webhook.HostTries {
		t.Errorf("%d tries at once to one receiver", n)
	}
}

// A coordinator without AO_CALLBACK_HOSTS leaves what others have accepted to those.
func TestCoordinatorWithoutCallbackHostsReservesNoAttempt(t *testing.T) {
	s := natstest.Server(t)
	to := receive(t)
	mute := coordinatortest.Start(t, natstest.Open(t, s), parts.Config{})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, mute, r)
	spec := *coordinatortest.Active(t, mute, coordinatortest.Submit(t, mute, `{"agent_name":"a"}`, "").RunID,
		"is queued", coordinatortest.IsQueued).Spec
	spec.ID, spec.SessionID, spec.CallbackURL = run.NewID(), run.NewSessionID(), to.url // as another accepted it
	coordinatortest.Put(
		t,
		mute.Bus,
		subject.Accepted(subject.Partition(spec.SessionID), spec.SessionID, spec.ID),
		run.Accepted{V: run.Version, Spec: spec},
	)
	coordinatortest.Finish(t, mute, coordinatortest.Claim(t, mute, spec.ID, r))
	natstest.Until(t, "it is pending",
		func() bool { return stateOf(t, mute, spec.ID).Status == run.CallbackPending })
	c := coordinatortest.Start(t, natstest.Open(t, s), parts.Config{Webhooks: local(t)})
	natstest.Until(t, "it is delivered",
		func() bool { return stateOf(t, c, spec.ID).Status == run.CallbackDelivered })
	m, err := c.Bus.Last(t.Context(), subject.Notified(subject.Partition(spec.SessionID), spec.ID, 1))
	if err != nil || !strings.Contains(string(m.Body), `"delivered"`) {
		t.Errorf("the first try: %s %v", m.Body, err)
	}
}

func TestACallbackURLIsRefusedUnlessAllowed(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a")))
	for _, body := range []string{`{"agent_name":"a","callback_url":"https://example.com/x"}`,
		`{"agent_name":"a","callback_url":"nonsense"}`} {
		_, err := c.Submit(t.Context(), []byte(body), "", "")
		if f := fault.Of(err); f.Kind != fault.Invalid || !strings.Contains(f.Message, "AO_CALLBACK_HOSTS") {
			t.Errorf("%s: %v", body, err)
		}
	}
	if waiting, _, _ := c.History.Counts(); waiting != 0 {
		t.Error("stored all the same")
	}
}

// TestFailedAttemptBacksOff from its very end on, whoever scans at that moment.
func TestFailedAttemptBacksOff(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Webhooks: local(t)})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	const host = "127.0.0.1:9"
	done := make(chan struct{})
	defer close(done)
	for n := range webhook.HostTries { // it leaves this receiver to us
		c.Posting.Pool.Go(t.Context(), fmt.Sprint("held ", n), host, func(context.Context) error { <-done; return nil })
	}
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","callback_url":"http://`+host+`/"}`, "").RunID
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))
	h := webhook.NewController(c.Posting.ControllerConfig)
	due := h.Look(time.Now())
	if len(due) != 1 {
		t.Fatalf("due: %+v", due)
	}
	for n := range 500 {
		end := make(chan struct{})
		if !h.Pool.Go(
			t.Context(),
			id,
			host,
			func(context.Context) error { <-end; h.Rest(due[0], time.Hour); return nil },
		) {
			t.Fatal("it is not tried")
		}
		close(end)
		for len(h.Pool.Busy()) > 0 {
			if again := h.Look(time.Now()); len(again) > 0 {
				t.Fatalf("found again, at once, in turn %d: %+v", n, again)
			}
		}
		h.Pool.Wait()
		h.Forget()
	}
}
