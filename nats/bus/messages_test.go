package bus_test

import (
	"errors"
	"fmt"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

var allStreams = []string{subject.Runs, subject.Events, subject.Inbox, subject.Rejected, subject.Audit}

// TestStreamsAreBoundedInMessages: as many as fit into NATS's memory, also in a folder of an older version. What is
// there already stays, and so does an operator's limit.
func TestStreamsAreBoundedInMessages(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	nc := natstest.Conn(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	setup := func(memory int64) {
		t.Helper()
		b, err := bus.Open(nc, bus.Config{Memory: memory, Log: natstest.Log(t)})
		if err == nil {
			err = b.Setup(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	limits := func() map[string]int64 {
		all := map[string]int64{}
		for _, name := range allStreams {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = stream.CachedInfo().Config.MaxMsgs
		}
		return all
	}
	change := func(name string, most int64) {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgs = most
		if most < 0 { // as an older version made it
			delete(cfg.Metadata, "ao.max_msgs")
		}
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	want := func(memory int64) {
		t.Helper()
		var sum int64
		for name, most := range limits() {
			sum += most
			if most != bus.Messages(name, memory) {
				t.Errorf("%s may hold %d messages, want %d", name, most, bus.Messages(name, memory))
			}
		}
		if need := sum * bus.SubjectMemory; need > memory/4*3 {
			t.Errorf("with a subject each they take %d of %d bytes", need, memory)
		}
	}
	setup(1 << 30)
	want(1 << 30)
	for _, name := range allStreams {
		change(name, -1)
	}
	setup(2 << 30)
	want(2 << 30)
	setup(1 << 30)
	want(1 << 30)
	change(subject.Events, 12345)
	setup(2 << 30)
	if have := limits(); have[subject.Events] != 12345 {
		t.Errorf("an operator's limit is %d", have[subject.Events])
	}
	const more = 6000 // than half of the least
	for i := range more {
		if _, err := js.Publish(t.Context(), subject.Claimed("1", fmt.Sprint("run_", i), "k"), nil); err != nil {
			t.Fatal(err)
		}
	}
	setup(1 << 20)
	if most := limits()[subject.Runs]; most != 2*more {
		t.Errorf("RUNS holds %d records and may hold %d", more, most)
	}
	for i := range more - 1000 { // nearly full
		if _, err := js.Publish(t.Context(), subject.Claimed("1", fmt.Sprint("run_", more+i), "k"), nil); err != nil {
			t.Fatal(err)
		}
	}
	setup(1 << 20)
	if most := limits()[subject.Runs]; most != 2*more {
		t.Errorf("the limit of a full stream grew from %d to %d at a start", 2*more, most)
	}
}

// TestFullOfMessagesIsNotTaken: a stream that has as many messages as it may refuses with the code of a subject that is
// taken. It is another error.
func TestFullOfMessagesIsNotTaken(t *testing.T) {
	t.Parallel()
	server := natstest.Server(t)
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	entry := func(n int) bus.Entry {
		return bus.Entry{Subject: subject.Claimed("1", fmt.Sprint("run_", n), "k"), Body: []byte("{}")}
	}
	if _, err := b.Append(t.Context(), entry(1)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 3} {
		_, err := b.Append(t.Context(), entry(2))
		if n > 1 {
			_, err = b.AppendBatch(t.Context(), entry(n), entry(n+10))
		}
		if errors.Is(err, bus.ErrTaken) || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%d: %v", n, err)
		}
	}
}
