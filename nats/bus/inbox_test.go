package bus_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// narrow is a connection that brings at most 16 MiB a second: less than a server sends, as the network of a cluster.
type narrow struct {
	net.Conn
	pace *time.Ticker
}

func (n narrow) Read(p []byte) (int, error) {
	<-n.pace.C
	return n.Conn.Read(p[:min(len(p), 16<<10)])
}

func (narrow) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return narrow{c, time.NewTicker(time.Millisecond)}, err
}

// TestManyLargeInboxMessages: large messages come no faster than they are read. Otherwise the server would cut off the
// coordinator, as one that does not read. Those that are refused are kept, also where the reason does not fit beside
// the whole body.
func TestManyLargeInboxMessages(t *testing.T) {
	t.Parallel()
	const n = 60
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	setup := natstest.Open(t, s)
	if err := setup.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL(), append(bus.Options(t.Name(), natstest.Log(t)), nats.SetCustomDialer(narrow{}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), int(nc.MaxPayload())-100)
	for range n {
		if _, err := setup.Append(t.Context(), bus.Entry{Subject: subject.InboxRuns, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var handled atomic.Int64
	go func() {
		ended <- b.Inbox(ctx, func(context.Context, bus.InboxMessage) error {
			if handled.Add(1)%2 == 0 {
				return nil
			}
			return fault.New(fault.Invalid, "invalid_request", "no JSON")
		})
	}()
	natstest.Until(t, "all are handled", func() bool {
		i, err := setup.StreamState(t.Context(), subject.Inbox)
		return err == nil && i.Msgs == 0
	})
	cancel()
	<-ended
	if cut := nc.Stats().Reconnects; cut > 0 || handled.Load() != n {
		t.Errorf("cut off %d times; %d messages handled, want %d once", cut, handled.Load(), n)
	}
	refused, err := setup.Rejected(t.Context(), 0, n, 10)
	if err != nil || len(refused) != n/2 || refused[0].Bytes != len(body) || refused[0].Reason != "no JSON" {
		t.Errorf("kept %d refused messages: %.200v %v", len(refused), refused[:min(1, len(refused))], err)
	}
}
