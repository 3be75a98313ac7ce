package embed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// TestServerRestartsOnceItsDiskHasRoom: by itself, and not before. Connections come back, what
// was acknowledged is there, and writes are answered again.
func TestServerRestartsOnceItsDiskHasRoom(t *testing.T) {
	t.Parallel()
	d := natstest.SmallDisk(t, 256<<20)
	p := natstest.ProcOn(t, d, natstest.SyncAlways)
	b := p.Bus(t)
	record := func(run string) bus.Entry {
		return bus.Entry{Subject: subject.Ended("01", run, "key"), Body: make([]byte, 8<<10)}
	}
	for round := range 2 {
		kept := record("kept" + string(rune('a'+round)))
		seq, err := b.Append(t.Context(), kept)
		if err != nil {
			t.Fatal(err)
		}
		d.Fill()
		natstest.Until(t, "it does not write", func() bool {
			_, err := b.Append(t.Context(), record("full"+string(rune('a'+round))))
			return errors.Is(err, bus.ErrStorageFailing)
		})
		before := b.Reconnects()
		d.Leave(8 << 20)
		looked := time.Now()
		natstest.Until(t, "it was looked at several times", func() bool { return time.Since(looked) > 2*time.Second })
		if err := b.CheckStorage(t.Context()); !errors.Is(err, bus.ErrStorageFailing) || b.Reconnects() != before {
			t.Errorf("with little room it is left as it is: %v, %d restarts", err, b.Reconnects()-before)
		}
		d.Free()
		natstest.Until(t, "it writes again", func() bool {
			_, err := b.Append(t.Context(), record("again"+string(rune('a'+round))))
			return err == nil || errors.Is(err, bus.ErrTaken)
		})
		if b.Reconnects() != before+1 {
			t.Errorf("%d restarts, want 1", b.Reconnects()-before)
		}
		if m, err := b.Get(t.Context(), seq); err != nil || len(m.Body) != len(kept.Body) {
			t.Errorf("what was acknowledged: %v", err)
		}
	}
}

// TestAnUnreadableValueIsNoFullDisk: NATS does not replace it, and writes everything else. No restart would help.
func TestAnUnreadableValueIsNoFullDisk(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	bucket := b.Bucket(subject.Runners)
	if _, err := bucket.Put(t.Context(), "one", make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.FlipRecord("KV_"+subject.Runners, "$KV."+subject.Runners+".one")
	p.Start()
	natstest.Until(t, "the client is connected again", b.Connected)
	before := b.Reconnects()
	put := func(key string, limit time.Duration) error {
		ctx, done := context.WithTimeout(t.Context(), limit)
		defer done()
		_, err := bucket.Put(ctx, key, nil)
		return err
	}
	if put("one", 3*time.Second) == nil { // several checks
		t.Error("NATS replaced what it cannot read; Bucket.Rescue is needed no more")
	}
	if err := put("two", 30*time.Second); err != nil {
		t.Errorf("another key: %v", err)
	}
	if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.Ended("01", "run", "key")}); err != nil {
		t.Errorf("another stream: %v", err)
	}
	if err := b.CheckStorage(t.Context()); err != nil || b.Reconnects() != before || !b.Connected() {
		t.Errorf("%v, and it was restarted %d times", err, b.Reconnects()-before)
	}
}
