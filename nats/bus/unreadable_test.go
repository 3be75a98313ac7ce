package bus_test

import (
	"errors"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// setUp returns a Bus on a server process, with its streams.
func setUp(t *testing.T, p *natstest.Process) *bus.Bus {
	t.Helper()
	b, err := bus.Open(p.Conn(t), bus.Config{Log: natstest.Log(t)})
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rot ends a server cleanly, flips a bit in a record and starts the server again.
func rot(t *testing.T, p *natstest.Process, b *bus.Bus, stream, subj string) {
	t.Helper()
	p.Stop()
	p.FlipRecord(stream, subj)
	p.Start()
	natstest.Until(t, "the client is connected again", b.Connected)
}

// TestAppendBehindAnUnreadableRecord: a single server refuses the record, and has none to give. Nobody waits for one.
func TestAppendBehindAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := setUp(t, p)
	e := bus.Entry{Subject: ended(1), Body: []byte("somebody else's record")}
	if _, err := b.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	rot(t, p, b, subject.Runs, e.Subject)
	own := func([]byte) bool { return true }
	if _, err := b.AppendAndVerify(t.Context(), e, own); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("the append ended with %v, want %v", err, bus.ErrTaken)
	}
}
