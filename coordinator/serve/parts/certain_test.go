package parts

import (
	"context"
	"errors"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reconnectable is a coordinator whose connection a test can renew.
func reconnectable(t *testing.T) (c *Coordinator, renew func(), js jetstream.JetStream) {
	t.Helper()
	server := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	nc, err := nats.Connect(server.URL(), bus.Options(t.Name(), natstest.Log(t))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err == nil {
		js, err = jetstream.New(natstest.Conn(t, server))
	}
	if err != nil {
		t.Fatal(err)
	}
	return start(t, b, Config{}), func() {
		t.Helper()
		was := b.Reconnects()
		if err := nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, "it is connected again", func() bool { return b.Reconnects() != was })
	}, js
}

// A NATS that comes back with another history: nothing of the old one is reported, nor that all is ready, before the
// two were compared.
func TestAHistoryIsComparedBeforeItIsReportedAgain(t *testing.T) {
	t.Parallel()
	c, renew, js := reconnectable(t)
	r := runner("one", echo("a"))
	register(t, c, r)
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	finish(t, c, claim(t, c, id, r))
	open := submit(t, c, `{"agent_name":"a"}`, "")
	if err := errors.Join(js.DeleteStream(t.Context(), subject.Runs), c.bus.Setup(t.Context())); err != nil {
		t.Fatal(err)
	}
	renew()
	natstest.Until(t, "the new history is read", func() bool {
		ready := c.Ready() == nil
		if _, _, ended := c.History.Counts(); ready && ended > 0 {
			t.Error("it is ready by the old history")
		}
		for _, what := range []string{id, open.RunID} {
			if _, err := c.Show(t.Context(), what); fault.KindOf(err) != fault.Unavailable &&
				fault.KindOf(err) != fault.NotFound {
				t.Errorf("a run that is gone: %v", err)
			}
		}
		if _, err := c.Session(t.Context(), open.SessionID); fault.KindOf(err) != fault.Unavailable &&
			fault.KindOf(err) != fault.NotFound {
			t.Errorf("a session that is gone: %v", err)
		}
		p, err := c.Runs(t.Context(), query.Query{})
		if err == nil && len(p.Runs) > 0 {
			t.Errorf("%d runs that are gone are listed", len(p.Runs))
		}
		return err == nil && c.Ready() == nil
	})
}

// Queues whose consumers NATS lost, or got back as they once were, are served again within seconds of its return.
func TestQueuesAreServedSoonAfterNATSIsBack(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Coordinator, string) error{
		"lost": func(*Coordinator, string) error { return nil },
		"past": func(c *Coordinator, queue string) error {
			return c.bus.EnsureTaskQueue(context.Background(), queue, 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, renew, _ := reconnectable(t)
			register(t, c, runner("one", echo("a")))
			a := active(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, "is queued", isQueued)
			if err := errors.Join(c.bus.DeleteTaskQueue(t.Context(), a.Queue), spoil(c, a.Queue)); err != nil {
				t.Fatal(err)
			}
			renew()
			began := time.Now()
			natstest.Until(t, "the queue is served", func() bool {
				s, err := c.bus.TaskQueueState(t.Context(), a.Queue)
				return err == nil && s.AckFloor < a.QueuedSeq && s.Pending == 1
			})
			t.Logf("after %s", time.Since(began))
		})
	}
}

// Whether there is an agent is unknown while NATS does not answer: another coordinator may have made it a moment ago.
func TestNoAgentIsUnknownWhileNATSDoesNotAnswer(t *testing.T) {
	t.Parallel()
	a, b, slow := pair(t)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if _, err := a.Agents.CreateAgent(t.Context(), []byte(`{"name":"made"}`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.Agents.View(ctx, "made"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
}
