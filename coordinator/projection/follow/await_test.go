package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ao/coordinator/projection"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Waiting for a record that NATS has lost does not make others believe that the record at its sequence was read.
func TestWaitBeyondTheEndOfTheStream(t *testing.T) {
	b := start(t, projection.Config{})
	if err := b.Await(t.Context(), b.write(b.actor(run.NewSessionID()).Queued(1))); err != nil {
		t.Fatal(err)
	}
	last := b.Seq()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // time for many lookups
	defer cancel()
	if err := b.Await(ctx, last+50); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a record that does not exist: got %v", err)
	}
	if b.Seq() != last {
		t.Errorf("the projection is at %d, the stream at %d", b.Seq(), last)
	}
	for range 20 {
		a := b.actor(run.NewSessionID())
		if err := b.Await(t.Context(), b.write(a.Queued(1))); err != nil {
			t.Fatal(err)
		}
		if _, ok := b.Active(a.Spec.ID); !ok {
			t.Fatal("a record that was waited for is not read")
		}
	}
}

// What this process wrote is waited for, until NATS has lost it.
func TestOwnWritesOfALostHistoryAreNotWaitedFor(t *testing.T) {
	server := natstest.Server(t)
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	conn := natstest.Open(t, server)
	if err := conn.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &bench{another(t, conn, projection.Config{}), t, conn, conn.Emitter(context.Background(), nil)}
	a := b.actor(run.NewSessionID())
	b.NoteWritten(b.write(a.Queued(1), a.Claimed(1)))
	if err := b.WaitOwnWrites(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, ok := b.Active(a.Spec.ID); !ok || got.Claim == nil {
		t.Error("it has not what it wrote")
	}
	if err := errors.Join(js.DeleteStream(t.Context(), subject.Runs), conn.Setup(t.Context())); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the new history is read", func() bool {
		_, ok := b.Active(a.Spec.ID)
		return !ok && b.Ready() == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.WaitOwnWrites(ctx); err != nil {
		t.Errorf("a record that is lost: %v", err)
	}
}

// A projection that has not caught up never answers that a run does not exist.
func TestNoRunIsUnknownBeforeCatchingUp(t *testing.T) {
	j := joined(natstest.Bus(t), projection.Config{Log: natstest.Log(t)})
	if _, err := j.Get(t.Context(), run.NewID()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a run: %v", err)
	}
	if _, err := j.Session(t.Context(), run.NewSessionID()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a session: %v", err)
	}
}
