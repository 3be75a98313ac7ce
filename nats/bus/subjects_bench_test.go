package bus_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// BenchmarkMemoryOfSubjects stores b.N messages on as many subjects, and restarts the server. The figures are the
// memory that each takes: of what runs, and at most while it starts.
func BenchmarkMemoryOfSubjects(b *testing.B) {
	s := natstest.Proc(b)
	bb := s.Bus(b)
	empty := s.Memory("VmRSS")
	nc := s.Conn(b)
	for i := range b.N {
		session, run := fmt.Sprintf("ses_%032x", i), fmt.Sprintf("run_%032x", i)
		if err := nc.Publish(subject.Event(strconv.Itoa(i%64), session, run, "message"), []byte("x")); err != nil {
			b.Fatal(err)
		}
		if i%5000 == 0 { // or the server refuses what it has no time for
			waitStored(b, nc, i)
		}
	}
	waitStored(b, nc, b.N-1)
	state, err := bb.StreamState(b.Context(), subject.Events)
	if err != nil || state.Msgs < uint64(b.N) {
		b.Fatalf("%d messages of %d: %v", state.Msgs, b.N, err)
	}
	per := func(kib int) float64 { return float64(kib-empty) * 1024 / float64(b.N) }
	b.ReportMetric(per(s.Memory("VmRSS")), "B/subject")
	s.Stop()
	s.Start()
	b.ReportMetric(per(s.Memory("VmHWM")), "B/subject-at-start")
	s.Kill()
	s.Start()
	b.ReportMetric(per(s.Memory("VmHWM")), "B/subject-after-kill")
}

// waitStored waits until NATS has stored message i.
func waitStored(b *testing.B, nc *nats.Conn, i int) {
	b.Helper()
	for n := 0; ; n++ {
		name := fmt.Sprintf("ao.events.wait.%d.%d.x", i, n)
		m, err := nc.Request(name, nil, time.Minute)
		if err == nil && bytes.Contains(m.Data, []byte(`"seq"`)) {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
