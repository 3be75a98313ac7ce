package bus_test

import (
	"context"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// A request whose connection has ended gets no reply. Its caller learns so at once. Otherwise the request would end
// only after its ten seconds.
func TestARequestEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*natstest.Process, *nats.Conn){
		"lost":   func(p *natstest.Process, _ *nats.Conn) { p.Kill() },
		"closed": func(_ *natstest.Process, nc *nats.Conn) { nc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := natstest.Proc(t)
			nc := p.Conn(t)
			b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
			if err == nil {
				err = b.Setup(t.Context())
			}
			if err == nil {
				_, err = b.Append(t.Context(), bus.Entry{Subject: ended(1)}) // the inbox is there
			}
			if err != nil {
				t.Fatal(err)
			}
			p.Pause()
			sent, failed := nc.Stats().OutMsgs, make(chan error, 1)
			go func() {
				_, err := b.Append(context.Background(), bus.Entry{Subject: ended(2)})
				failed <- err
			}()
			natstest.Until(t, "it is sent", func() bool { return nc.Stats().OutMsgs > sent })
			end(p, nc)
			select {
			case err := <-failed:
				if fault.KindOf(err) != fault.Unavailable {
					t.Errorf("got %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("it waits on")
			}
		})
	}
}
