package highwater_test

import (
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"ao/coordinator/highwater"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
)

// read is a projection that has read all.
type read struct{ stream.Tail }

func (*read) Confirmed() bool                          { return true }
func (*read) Reread()                                  {}
func (*read) Rebuilds() uint64                         { return 0 }
func (r *read) LastFingerprints() []stream.Fingerprint { return r.Last() }
func (r *read) Seq() uint64                            { last := r.Last(); return last[len(last)-1].Seq }

// BenchmarkRaise measures what it costs to compare RUNS with its high-water mark and to raise the mark. Each
// coordinator does that at most once a second. The mark is in the bucket, where a NATS of its own syncs every write,
// and in the data folder.
func BenchmarkRaise(b *testing.B) {
	server := natstest.Proc(b, natstest.SyncAlways)
	conn := server.Conn(b)
	log, err := bus.Open(conn, bus.Config{})
	if err != nil {
		b.Fatal(err)
	}
	if err := log.Setup(b.Context()); err != nil {
		b.Fatal(err)
	}
	history := &read{}
	grow := func(n int) {
		b.Helper()
		e := bus.Entry{Subject: subject.Stopping("7", fmt.Sprintf("run_%d", n)), Body: []byte(`{"v":1}`)}
		seq, err := log.Append(b.Context(), e)
		if err != nil {
			b.Fatal(err)
		}
		m, err := log.Get(b.Context(), seq)
		if err != nil {
			b.Fatal(err)
		}
		history.Add(m)
	}
	k := highwater.New(highwater.Config{Stream: log, Bucket: log.Bucket(subject.HighWater), History: history,
		Name: "bench", Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	var took, cpu time.Duration
	asked, n := uint64(0), 0
	for b.Loop() { // the timers of b cost more than a raise
		n++
		grow(n)
		was, sent, began := processorTime(b), conn.Stats().OutMsgs, time.Now()
		if err := k.Close(b.Context()); err != nil { // raises it whenever it was raised last
			b.Fatal(err)
		}
		took += time.Since(began)
		cpu += processorTime(b) - was
		asked += conn.Stats().OutMsgs - sent
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/op")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(n), "cpu-ns/op")
	b.ReportMetric(float64(asked)/float64(n), "requests/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
