package bus_test

import (
	"strconv"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// TestAServerThatIsFullAtItsStartIsUsedAsItIs: what is there is not made again, for which the server would have no room.
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

// TestSetupWaitsForRoomAndSaysSo where something is missing: it goes on when there is room.
func TestSetupWaitsForRoomAndSaysSo(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t, natstest.MaxStore(40<<20))
	b := openOn(t, p)
	done := make(chan error, 1)
	go func() { done <- b.Setup(t.Context()) }()
	natstest.Until(t, "it says what it waits for", func() bool {
		err := b.Storage()
		return err != nil && strings.Contains(err.Error(), "no room for stream") && strings.Contains(err.Error(), "max_file_store")
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

// TestAClusterWithSmallDisksMakesItsStreamsSmaller as a single server does, though its servers hear late what the others have promised:
// all streams are made, and together they fit.
func TestAClusterWithSmallDisksMakesItsStreamsSmaller(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{90 << 20, 6 << 30} {
		t.Run(strconv.FormatInt(most>>20, 10)+" MiB", func(t *testing.T) {
			t.Parallel()
			c := natstest.Cluster(t, natstest.MaxStore(most))
			b := c.Bus(t)
			if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.Ended("01", "first", "key"), Body: make([]byte, 8<<10)}); err != nil {
				t.Fatal(err)
			}
			s, err := b.Standing(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var sum int64
			for _, one := range s.Streams {
				sum += int64(one.MaxBytes)
				if one.Replicas != 3 || one.MaxBytes < 16<<20 {
					t.Errorf("%s: %d replicas of %d bytes", one.Name, one.Replicas, one.MaxBytes)
				}
			}
			if len(s.Streams) != 4 || sum > most {
				t.Errorf("%d streams may hold %d bytes on servers that store %d", len(s.Streams), sum, most)
			}
		})
	}
}
