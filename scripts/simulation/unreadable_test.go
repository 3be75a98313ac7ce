package simulation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
)

// TestConformanceOfUnreadableRecords holds the simulated log and a single server to the same rules. The server ends
// cleanly, and one bit in each of the records is another one when it starts again.
func TestConformanceOfUnreadableRecords(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts processes")
		}
		p := natstest.Proc(t)
		b := p.Bus(t)
		conformUnreadable(t, b, func(records ...bus.Message) {
			p.Stop()
			for _, m := range records {
				p.FlipRecord(subject.Runs, m.Subject)
			}
			p.Start()
			natstest.Until(t, "the client is connected again", b.Connected)
		})
	})
	t.Run("simulated", func(t *testing.T) {
		simulated(t, false, func(t *testing.T, w *world) {
			conformUnreadable(t, w.connect("client"), func(records ...bus.Message) {
				_ = w.loop.call(t.Context(), &act{key: "decay", do: func() time.Duration {
					for _, m := range records {
						w.runs.decay(m.Seq)
					}
					return 0
				}})
			})
		})
	})
}

// conformUnreadable checks what is left of a record that NATS cannot read.
func conformUnreadable(t *testing.T, l recordLog, decay func(...bus.Message)) {
	ctx, r := t.Context(), rules{t}
	const queue, filter = "procedural.conformance._", "ao.runs.7.conformance.unreadable.*"
	for n := 10; n < 20; n++ {
		_, err := l.Append(ctx, written("unreadable", n))
		r.must(err)
	}
	for _, run := range []string{"run_1", "run_2"} {
		to := subject.Queued("7", queue, run, 1)
		_, err := l.Append(ctx, bus.Entry{Subject: to, Body: []byte("0123456789abcdef")})
		r.must(err)
	}
	before, err := l.State(ctx)
	r.must(err)
	bad, err := l.Last(ctx, at("unreadable", 14))
	r.must(err)
	last, err := l.Last(ctx, subject.Queued("7", queue, "run_2", 1))
	r.must(err)
	decay(bad, last)

	// It is counted.
	now, err := l.State(ctx)
	r.must(err)
	r.is("the state", fmt.Sprint(now.First, now.Last, now.Msgs), fmt.Sprint(before.First, before.Last, before.Msgs))
	r.must(l.EnsureTaskQueue(ctx, queue, 0))
	q, err := l.TaskQueueState(ctx, queue)
	r.must(err)
	r.is("waiting in a queue", q.Pending, uint64(2))

	// It is not given, and nobody waits for it.
	_, err = l.Last(ctx, bad.Subject)
	r.missing(err)
	_, err = l.Get(ctx, bad.Seq)
	r.missing(err)
	all, err := l.Records(ctx, filter, 0, 20)
	r.must(err)
	r.is("records under a filter", len(all), 9)
	all, err = l.Records(ctx, bad.Subject, 0, 20)
	r.must(err)
	r.is("records of its subject", len(all), 0)
	follows, err := l.HasRecords(ctx, bad.Seq-1, bad.Seq)
	r.must(err)
	r.is("it follows", follows, false)
	stop := errors.New("stop")
	read := 0
	err = l.FollowRuns(ctx, func() []stream.Fingerprint { return nil }, func(bool) {}, func(bus.Message) error {
		if read++; read == 10 {
			return stop
		}
		return nil
	})
	r.is("the reader's own error", errors.Is(err, stop), true)
	r.is("what seems to be left at the end", l.Left(), uint64(2))

	// Who has read it reads on.
	next, err := l.Append(ctx, written("unreadable", 30))
	r.must(err)
	lastRead := func() []stream.Fingerprint {
		p, _ := stream.FingerprintOf(last, nil)
		return []stream.Fingerprint{p}
	}
	err = l.FollowRuns(ctx, lastRead, func(bool) {}, func(m bus.Message) error {
		r.is("the next record", m.Seq, next)
		return stop
	})
	r.is("reads on", errors.Is(err, stop), true)
	r.is("what seems to be left then", l.Left(), uint64(0))

	// Its subject takes no other one, and it is not removed under it.
	_, err = l.Append(ctx, bus.Entry{Subject: bad.Subject, Body: []byte("another")})
	r.taken(err)
	_, err = l.AppendAndVerify(ctx, bus.Entry{Subject: bad.Subject, Body: bad.Body}, func([]byte) bool { return true })
	r.taken(err)
	_, err = l.AppendBatch(ctx, written("unreadable", 31), bus.Entry{Subject: bad.Subject})
	r.taken(err)
	_, err = l.Last(ctx, at("unreadable", 31))
	r.missing(err)
	r.must(l.Purge(ctx, subject.Runs, bad.Subject, 0))
	_, err = l.Append(ctx, bus.Entry{Subject: bad.Subject, Body: []byte("another")})
	r.taken(err)
	after, err := l.State(ctx)
	r.must(err)
	r.is("the state after a purge", fmt.Sprint(after.First, after.Last, after.Msgs),
		fmt.Sprint(now.First, next, now.Msgs+1))
}
