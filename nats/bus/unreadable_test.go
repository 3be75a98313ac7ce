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

// TestRescue: NATS writes a key again whose value it could not read, and has kept the others.
func TestRescue(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := setUp(t, p)
	bucket := b.Bucket(subject.Drafts)
	for _, key := range []string{"lost", "kept"} {
		if _, err := bucket.Put(t.Context(), key, []byte("a value")); err != nil {
			t.Fatal(err)
		}
	}
	if rescued, err := bucket.Rescue(t.Context()); err != nil || rescued {
		t.Errorf("all can be read: %t, %v", rescued, err)
	}
	rot(t, p, b, "KV_"+subject.Drafts, "$KV."+subject.Drafts+".lost")
	if rescued, err := bucket.Rescue(t.Context()); err != nil || !rescued {
		t.Errorf("one cannot be read: %t, %v", rescued, err)
	}
	if body, _, err := bucket.Get(t.Context(), "kept"); err != nil || string(body) != "a value" {
		t.Errorf("another key: %q, %v", body, err)
	}
	if _, err := bucket.Create(t.Context(), "lost", []byte("again")); err != nil {
		t.Error(err)
	}
}

// TestUnreadableRecordIsCounted by NATS.
func TestUnreadableRecordIsCounted(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := setUp(t, p)
	one := bus.Entry{Subject: ended(1), Body: []byte("somebody's record")}
	if _, err := b.Append(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	rot(t, p, b, subject.Runs, one.Subject)
	for subj, want := range map[string]uint64{one.Subject: 1, ended(2): 0} {
		if n, err := b.Counted(t.Context(), subj); err != nil || n != want {
			t.Errorf("%s: %d, %v; want %d", subj, n, err, want)
		}
	}
}
