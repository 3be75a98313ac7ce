package bus_test

import (
	"errors"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	runs "ao/shared/run"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// unlimited takes the limits of the buckets and the object store away, as in older deployments.
func unlimited(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	all := js.ListStreams(t.Context())
	for one := range all.Info() {
		if strings.HasPrefix(one.Config.Name, "KV_") || strings.HasPrefix(one.Config.Name, "OBJ_") {
			one.Config.MaxBytes = -1
			if _, err := js.UpdateStream(t.Context(), one.Config); err != nil {
				t.Fatal(err)
			}
		}
	}
	if all.Err() != nil {
		t.Fatal(all.Err())
	}
	return js
}

// limits returns what each stream may hold, and the sum.
func limits(t *testing.T, b *bus.Bus) (of map[string]uint64, sum uint64) {
	t.Helper()
	s, err := b.ServerHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of = map[string]uint64{}
	for _, one := range s.Streams {
		of[one.Name] = one.MaxBytes
		sum += one.MaxBytes
		if one.MaxBytes == 0 {
			t.Errorf("%s has no limit", one.Name)
		}
	}
	return of, sum
}

// TestOlderDeploymentsGetLimitsInPlace: their payloads and buckets had none. What is there stays, a limit of the
// operator's stays, and where the streams have reserved everything EVENTS gives half.
func TestOlderDeploymentsGetLimitsInPlace(t *testing.T) {
	t.Parallel()
	payloads := "OBJ_" + subject.Payloads
	for _, tt := range []struct {
		name     string
		cluster  bool
		most     int64
		taken    func(js jetstream.JetStream, most int64) // by the streams, before the update
		payloads uint64                                   // their limit at least
		events   func(before uint64) uint64
	}{
		{"with space", false, 1 << 40, nil, 4 << 30, nil},
		{"with little space", false, 200 << 20, nil, 8 << 20, nil},
		{"with none", false, 200 << 20, func(js jetstream.JetStream, most int64) {
			cfg := config(t, js, subject.Runs)
			info, err := js.AccountInfo(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cfg.MaxBytes += most - int64(info.ReservedStore)
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}, 8 << 20, func(before uint64) uint64 { return before / 2 }},
		{"in a cluster with little space", true, 200 << 20, nil, 8 << 20, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b *bus.Bus
			var nc *nats.Conn
			if tt.cluster {
				c := natstest.Cluster(t, natstest.MaxStore(tt.most))
				b, nc = c.Bus(t), c.Conn(t)
			} else {
				s := natstest.Server(t, natstest.MaxStore(tt.most))
				b, nc = natstest.Open(t, s), natstest.Conn(t, s)
				if err := b.Setup(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.PutPart(t.Context(), "run_1.in", 0, []byte("kept")); err != nil {
				t.Fatal(err)
			}
			first, _ := limits(t, b)
			js := unlimited(t, nc)
			if tt.taken != nil {
				cfg := config(t, js, subject.Events)
				cfg.MaxBytes = 40 << 20
				if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				first[subject.Events] = 40 << 20
				tt.taken(js, tt.most)
			}
			if err := b.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			of, sum := limits(t, b)
			if sum > uint64(tt.most) || of[payloads] < tt.payloads {
				t.Errorf("all may hold %d of %d, payloads %d", sum, tt.most, of[payloads])
			}
			events := first[subject.Events]
			if tt.events != nil {
				events = tt.events(events)
			}
			if of[subject.Events] != events {
				t.Errorf("EVENTS may hold %d, not %d", of[subject.Events], events)
			}
			if body, err := b.GetPart(t.Context(), "run_1.in", 0); err != nil || string(body) != "kept" {
				t.Errorf("a payload from before: %q, %v", body, err)
			}
			cfg := config(t, js, payloads)
			cfg.MaxBytes = 9 << 20
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if err := b.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			if of, _ := limits(t, b); of[payloads] != 9<<20 {
				t.Errorf("the operator's limit became %d", of[payloads])
			}
		})
	}
}

// TestAFullObjectStoreRefusesOnlyItsOwn: payloads are refused with their own error. Records and buckets go on. What is
// removed makes room, although a full store takes no tombstones.
func TestAFullObjectStoreRefusesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t, natstest.MaxStore(90<<20))
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	part, n := make([]byte, runs.PartSize), 0
	for _, err := b.StreamState(t.Context(), "OBJ_"+subject.Payloads); err == nil && n < 1000; n++ {
		err = b.PutPart(t.Context(), "run_1.in", n, part)
		if f, is := errors.AsType[*fault.Fault](err); is {
			if f.Code != runs.CodePayloadsFull || f.Kind != fault.Busy || f.RetryAfter == 0 {
				t.Errorf("a full object store: %v (%s)", err, f.Code)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 || n == 1000 {
		t.Fatalf("%d parts were stored", n)
	}
	for _, err := range []error{b.PutPart(t.Context(), "run_2.in", 0, part), b.DropPayload(t.Context(), "run_1.in")} {
		if err != nil && fault.KindOf(err) != fault.Busy {
			t.Error(err)
		}
	}
	end := bus.Entry{Subject: subject.Ended("01", "first", "key"), Body: []byte("x")}
	if _, err := b.Append(t.Context(), end); err != nil {
		t.Errorf("a record: %v", err)
	}
	if _, err := b.Bucket(subject.Agents).Put(t.Context(), "k", []byte("v")); err != nil {
		t.Errorf("a key: %v", err)
	}
	if err := b.PutPart(t.Context(), "run_2.in", 0, part); err != nil {
		t.Errorf("with room: %v", err)
	}
	if parts := natstest.Payloads(t, b); len(parts) != 1 {
		t.Errorf("left: %v", parts)
	}
	if state, err := b.StreamState(t.Context(), "OBJ_"+subject.Payloads); err != nil || state.Msgs != 2 {
		t.Errorf("%d messages are left, not a part and its description: %v", state.Msgs, err)
	}
}

func config(t *testing.T, js jetstream.JetStream, stream string) jetstream.StreamConfig {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config
}
