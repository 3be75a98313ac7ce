package parts

import (
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// A coordinator continues after NATS lost its history: what is accepted afterwards is read, queued and ended.
func TestCoordinatorContinuesAfterALostHistory(t *testing.T) {
	server := natstest.Server(t)
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine the high-water mark has been raised. Then the affected runs are known after a lease.
	c := start(t, natstest.Open(t, server), Config{Lease: 10 * time.Second})
	r := runner("one", echo("a"))
	register(t, c, r)
	for range 3 {
		finish(t, c, claim(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, r))
	}
	if err := js.DeleteStream(t.Context(), subject.Runs); err != nil {
		t.Fatal(err)
	}
	if err := c.bus.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the loss is noticed", func() bool {
		_, _, ended := c.History.Counts()
		return ended == 0 && c.Ready() == nil
	})
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	finish(t, c, claim(t, c, id, r))
}
