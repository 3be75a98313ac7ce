package bus_test

import (
	"strconv"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

// TestAServerThatIsFullAtItsStartIsUsedAsItIs: what is there is not made again, for which the server would have no
// room.
func TestAServerThatIsFullAtItsStartIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	d := natstest.SmallDisk(t, 512<<20)
	p := natstest.ProcOn(t, d) // without max_file_store, as servers were run before
	b := p.Bus(t)
	record := func(run string) bus.Entry {
		return bus.Entry{Subject: subject.Ended("01", run, "key"), Body: make([]byte, 8<<10)}
	}
	if _, err := b.Append(t.Context(), record("before")); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Limit(20 << 20) // what a server without max_file_store gives itself on a disk with 27 MiB free
	p.Start()
	again := p.Bus(t) // sets up
	if _, err := again.Append(t.Context(), record("after")); err != nil {
		t.Errorf("a record: %v", err)
	}
	if _, err := again.Bucket(subject.Runners).Put(t.Context(), "k", []byte("v")); err != nil {
		t.Errorf("a key: %v", err)
	}
	if err := again.PutPart(t.Context(), "p", 0, make([]byte, 300<<10)); err != nil {
		t.Errorf("a payload: %v", err)
	}
}

// TestSetupOnAFullDisk: what exists is only looked up. What is missing waits for space, and Storage says so.
func TestSetupOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := natstest.SmallDisk(t, 512<<20)
	p := natstest.ProcOn(t, d, natstest.MaxStore(300<<20))
	if err := p.Bus(t).EnsureTaskQueue(t.Context(), "q", 1); err != nil {
		t.Fatal(err)
	}
	d.Fill()
	b := openOn(t, p)
	if err := b.Setup(t.Context()); err != nil || b.Storage() != nil {
		t.Fatalf("nothing is missing: %v, %v", err, b.Storage())
	}
	if err := b.EnsureTaskQueue(t.Context(), "q", 7); err != nil {
		t.Errorf("a queue that exists: %v", err)
	}
	if err := b.EnsureTaskQueue(t.Context(), "r", 1); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a new queue: %v", err)
	}
	js, err := jetstream.New(p.Conn(t))
	if err == nil {
		err = js.DeleteConsumer(t.Context(), subject.Inbox, subject.InboxDurable)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Fill() // the deletion made space
	done := make(chan error, 1)
	go func() { done <- b.Setup(t.Context()) }()
	natstest.Until(t, "it says what it waits for", func() bool {
		err := b.Storage()
		return err != nil && strings.Contains(err.Error(), "no space for inbox")
	})
	d.Free()
	if err := <-done; err != nil || b.Storage() != nil {
		t.Errorf("with space: %v, %v", err, b.Storage())
	}
}

// TestSetupWaitsForRoomAndSaysSo where something is missing: it continues when there is room.
func TestSetupWaitsForRoomAndSaysSo(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t, natstest.MaxStore(30<<20))
	b := openOn(t, p)
	done := make(chan error, 1)
	go func() { done <- b.Setup(t.Context()) }()
	natstest.Until(t, "it says what it waits for", func() bool {
		err := b.Storage()
		return err != nil && strings.Contains(err.Error(), "no space for stream") &&
			strings.Contains(err.Error(), "max_file_store")
	})
	select {
	case err := <-done:
		t.Fatalf("it waits no longer: %v", err)
	default:
	}
	p.Stop()
	p.Limit(300 << 20)
	p.Start()
	if err := <-done; err != nil || b.Storage() != nil {
		t.Errorf("with room: %v, %v", err, b.Storage())
	}
}

// TestSmallDisksHaveSmallerStreams: all streams are created, and together they fit. That holds even where the first one
// alone would fit at its full size. It also holds on a cluster, whose servers learn late what the others have reserved.
func TestSmallDisksHaveSmallerStreams(t *testing.T) {
	t.Parallel()
	single := func(t *testing.T, most int64) *bus.Bus { return natstest.Bus(t, natstest.MaxStore(most)) }
	cluster := func(t *testing.T, most int64) *bus.Bus { return natstest.Cluster(t, natstest.MaxStore(most)).Bus(t) }
	for _, c := range []struct {
		name     string
		on       func(*testing.T, int64) *bus.Bus
		replicas int
		most     int64
	}{
		{"a server", single, 1, 90 << 20},
		{"a server", single, 1, 6 << 30},
		{"a server", single, 1, 8<<30 + 1<<20}, // RUNS and EVENTS fit whole
		{"a server", single, 1, 8<<30 + 20<<20},
		{"a server", single, 1, 8<<30 + 520<<20}, // INBOX too
		{"a server", single, 1, 13 << 30},        // nearly all
		{"a cluster", cluster, 3, 90 << 20},
		{"a cluster", cluster, 3, 6 << 30},
	} {
		t.Run(c.name+" of "+strconv.FormatInt(c.most>>20, 10)+" MiB", func(t *testing.T) {
			t.Parallel()
			b := c.on(t, c.most)
			if _, err := b.Append(t.Context(),
				bus.Entry{Subject: subject.Ended("01", "first", "key"), Body: make([]byte, 8<<10)}); err != nil {
				t.Fatal(err)
			}
			s, err := b.ServerHealth(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var sum int64
			for _, one := range s.Streams {
				sum += int64(one.MaxBytes)
				if one.Replicas != c.replicas || one.MaxBytes < 1<<20 {
					t.Errorf("%s: %d replicas of %d bytes", one.Name, one.Replicas, one.MaxBytes)
				}
			}
			if len(s.Streams) != 15 || sum > c.most {
				t.Errorf("%d streams may hold %d bytes on servers that store %d", len(s.Streams), sum, c.most)
			}
		})
	}
}

// TestTheAuditNeedsNoRoomOfItsOwn: a deployment that gave all room away before there was an audit goes on without one.
func TestTheAuditNeedsNoRoomOfItsOwn(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t, natstest.MaxStore(90<<20))
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), subject.Audit); err != nil {
		t.Fatal(err)
	}
	taken, err := js.AccountInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: "TAKEN", Subjects: []string{"taken"},
			MaxBytes: 90<<20 - int64(taken.ReservedStore) - 1<<20}); err != nil {
		t.Fatal(err)
	}
	if err := b.Setup(t.Context()); err != nil || b.Storage() != nil {
		t.Errorf("without room: %v, %v", err, b.Storage())
	}
	if st, err := b.ServerHealth(t.Context()); err != nil || len(st.Streams) != 14 {
		t.Errorf("%d streams, %v", len(st.Streams), err)
	}
	if _, err := b.AuditState(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of a stream that is not there: %v", err)
	}
	if err := js.DeleteStream(t.Context(), "TAKEN"); err != nil {
		t.Fatal(err)
	}
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AuditState(t.Context()); err != nil {
		t.Errorf("with room: %v", err)
	}
}
