package bus_test

import (
	"bytes"
	"errors"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	runs "ao/shared/run"

	"github.com/nats-io/nats.go/jetstream"
)

// Several messages of one part may be sent again out of order by the client library: a part is one message. One
// that is damaged all the same will never be whole, and nobody should wait for it.
func TestAPartIsOneMessage(t *testing.T) {
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), runs.PartSize)
	if err := b.PutPart(t.Context(), "run_1.in", 0, body); err != nil {
		t.Fatal(err)
	}
	os, err := js.ObjectStore(t.Context(), subject.Payloads)
	if err != nil {
		t.Fatal(err)
	}
	info := func() *jetstream.ObjectInfo {
		i, err := os.GetInfo(t.Context(), "run_1.in/0")
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	first := info()
	if first.Chunks != 1 {
		t.Errorf("a part is %d messages", first.Chunks)
	}
	if err := b.PutPart(t.Context(), "run_1.in", 0, body); err != nil || info().NUID != first.NUID {
		t.Errorf("what is there was written once more: %v", err)
	}
	if _, err := js.Publish(t.Context(), "$O."+subject.Payloads+".C."+first.NUID, []byte("damage")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.GetPart(t.Context(), "run_1.in", 0); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
