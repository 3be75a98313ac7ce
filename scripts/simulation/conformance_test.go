package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
)

// recordLog is what the product asks of RUNS. The simulated one must be no kinder than NATS.
type recordLog interface {
	Append(ctx context.Context, e bus.Entry) (uint64, error)
	AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
	AppendEach(ctx context.Context, entries ...bus.Entry) (uint64, error)
	AppendAndVerify(ctx context.Context, e bus.Entry, isOwn func([]byte) bool) (uint64, error)
	Last(ctx context.Context, subj string) (bus.Message, error)
	Get(ctx context.Context, seq uint64) (bus.Message, error)
	State(ctx context.Context) (bus.State, error)
	Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	HasRecords(ctx context.Context, after, last uint64) (bool, error)
	Purge(ctx context.Context, stream, filter string, before uint64) error
	Truncate(ctx context.Context, before uint64) error
	FollowRuns(ctx context.Context, read func() []stream.Fingerprint, suspect func(bool),
		f func(bus.Message) error) error
	EnsureTaskQueue(ctx context.Context, queue string, start uint64) error
	TaskQueueState(ctx context.Context, queue string) (bus.TaskQueueState, error)
	DeleteTaskQueue(ctx context.Context, queue string) error
	Left() uint64
}

// TestConformance holds the simulated log and NATS, one server and three, to the same rules.
func TestConformance(t *testing.T) {
	t.Run("one server", func(t *testing.T) { conform(t, natstest.Bus(t)) })
	t.Run("three servers", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts processes")
		}
		conform(t, natstest.Cluster(t).Bus(t))
	})
	for _, clustered := range []bool{false, true} {
		t.Run(fmt.Sprintf("simulated, clustered %v", clustered), func(t *testing.T) {
			simulated(t, clustered, func(t *testing.T, w *world) { conform(t, w.connect("client")) })
		})
	}
}

// simulated calls f beside the loop of a world in which nothing else happens.
func simulated(t *testing.T, clustered bool, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(story{Seed: 1, Clustered: clustered}, slog.New(slog.DiscardHandler))
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(t, w)
		}()
		w.loop.run(time.Now().Add(time.Hour), func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
	})
}

// at returns a subject that nothing was written to.
func at(kind string, n int) string { return fmt.Sprintf("ao.runs.7.conformance.%s.%d", kind, n) }

func written(kind string, n int) bus.Entry {
	return bus.Entry{Subject: at(kind, n), Body: fmt.Appendf(nil, `{"nonce":"%s%d"}`, kind, n)}
}

// rules are what is checked.
type rules struct{ *testing.T }

func (r rules) must(err error) {
	r.Helper()
	if err != nil {
		r.Errorf("unexpected: %v", err)
	}
}

func (r rules) is(what string, got, want any) {
	r.Helper()
	if got != want {
		r.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (r rules) taken(err error) {
	r.Helper()
	r.is("is taken: "+fmt.Sprint(err), errors.Is(err, bus.ErrTaken), true)
}

func (r rules) missing(err error) {
	r.Helper()
	r.is("is not found: "+fmt.Sprint(err), errors.Is(err, bus.ErrNotFound), true)
}

// conform checks each rule. Each writes under subjects of its own.
func conform(t *testing.T, l recordLog) {
	ctx, r := t.Context(), rules{t}
	must, is, taken, missing := r.must, r.is, r.taken, r.missing

	// A subject takes one message, ever.
	first, err := l.Append(ctx, written("once", 1))
	must(err)
	_, err = l.Append(ctx, bus.Entry{Subject: at("once", 1), Body: []byte("another")})
	taken(err)
	m, err := l.Last(ctx, at("once", 1))
	must(err)
	is("the first stays", string(m.Body)+fmt.Sprint(m.Seq), `{"nonce":"once1"}`+fmt.Sprint(first))
	m, err = l.Get(ctx, first)
	must(err)
	is("by sequence", m.Subject, at("once", 1))
	_, err = l.Last(ctx, at("once", 2))
	missing(err)
	_, err = l.Get(ctx, first+1000)
	missing(err)

	// A batch is written as a whole, or not at all, and its sequences follow each other.
	last, err := l.AppendBatch(ctx, written("batch", 1), written("batch", 2), written("batch", 3))
	must(err)
	for n := range 3 {
		m, err = l.Get(ctx, last-2+uint64(n))
		must(err)
		is("a batch keeps its order", m.Subject, at("batch", n+1))
	}
	_, err = l.AppendBatch(ctx, written("batch", 4), written("batch", 2))
	taken(err)
	_, err = l.Last(ctx, at("batch", 4))
	missing(err)
	seq, err := l.AppendBatch(ctx, written("batch", 5))
	must(err)
	is("a refused batch takes no sequence", seq, last+1)

	// One by one, what precedes a refused message stays.
	_, err = l.AppendEach(ctx, written("each", 1), written("batch", 1), written("each", 2))
	taken(err)
	_, err = l.Last(ctx, at("each", 1))
	must(err)
	_, err = l.Last(ctx, at("each", 2))
	missing(err)

	// A refusal is settled by reading back.
	seq, err = l.AppendAndVerify(ctx, written("once", 1), func(body []byte) bool {
		return string(body) == `{"nonce":"once1"}`
	})
	must(err)
	is("an own record", seq, first)
	_, err = l.AppendAndVerify(ctx, written("once", 1), func([]byte) bool { return false })
	taken(err)

	// The state has what was written before it was asked for.
	state, err := l.State(ctx)
	must(err)
	is("the last sequence", state.Last, last+2)
	follows, err := l.HasRecords(ctx, state.Last, state.Last+5)
	must(err)
	is("something follows the last", follows, false)
	follows, err = l.HasRecords(ctx, state.Last-1, state.Last)
	must(err)
	is("the last follows", follows, true)

	// A purge removes what precedes a sequence, and frees its subject, not its sequence.
	all, err := l.Records(ctx, at("batch", 0)[:len(at("batch", 0))-1]+"*", 0, 10)
	must(err)
	is("records under a filter", len(all), 4)
	must(l.Purge(ctx, subject.Runs, at("batch", 0)[:len(at("batch", 0))-1]+"*", last))
	natstest.Until(t, "two records are left", func() bool { // another server may apply a purge later
		all, err = l.Records(ctx, at("batch", 0)[:len(at("batch", 0))-1]+"*", 0, 10)
		must(err)
		_, err = l.Get(ctx, last-2)
		return len(all) == 2 && errors.Is(err, stream.ErrNotFound)
	})
	seq, err = l.Append(ctx, written("batch", 1))
	must(err)
	is("a purged subject", seq, state.Last+1)

	// The last sequence and its time stay when its record is purged.
	gone, err := l.Append(ctx, written("gone", 1))
	must(err)
	before, err := l.State(ctx)
	must(err)
	must(l.Purge(ctx, subject.Runs, at("gone", 1), 0))
	state, err = l.State(ctx)
	must(err)
	is("the sequence of a purged last record", state.Last, gone)
	is("its time", state.LastTime, before.LastTime)
	is("a time", before.LastTime.IsZero(), false)

	// Readers get what is left, in order.
	var read []uint64
	stop := errors.New("stop")
	err = l.FollowRuns(ctx, func() []stream.Fingerprint { return nil }, func(bool) {}, func(m bus.Message) error {
		read = append(read, m.Seq)
		if m.Seq == seq {
			return stop
		}
		return nil
	})
	is("the reader's own error", errors.Is(err, stop), true)
	is("in order", slices.IsSorted(read), true)
	is("how many", len(read), int(seq)-2)

	// A truncation moves the beginning. Who has read beyond it reads on.
	must(l.Truncate(ctx, last))
	state, err = l.State(ctx)
	must(err)
	is("the first sequence", state.First, last)
	m, err = l.Get(ctx, seq)
	must(err)
	next, err := l.Append(ctx, written("once", 3))
	must(err)
	lastRead := func() []stream.Fingerprint {
		p, _ := stream.FingerprintOf(m, nil)
		return []stream.Fingerprint{p}
	}
	err = l.FollowRuns(ctx, lastRead, func(bool) {}, func(m bus.Message) error {
		is("the next record", m.Seq, next)
		return stop
	})
	is("reads on", errors.Is(err, stop), true)

	// Who has read another record there learns that its history was replaced.
	m.Subject = at("once", 99)
	err = l.FollowRuns(ctx, lastRead, func(bool) {}, func(bus.Message) error { return stop })
	is("replaced: "+fmt.Sprint(err), errors.Is(err, bus.ErrHistoryReplaced), true)

	// A task queue's consumer starts where it was first asked to, until it is deleted.
	const queue = "procedural.conformance._"
	_, err = l.TaskQueueState(ctx, queue)
	missing(err)
	one, err := l.Append(ctx, bus.Entry{Subject: subject.Queued("7", queue, "run_1", 1)})
	must(err)
	_, err = l.Append(ctx, bus.Entry{Subject: subject.Queued("7", queue, "run_2", 1)})
	must(err)
	must(l.EnsureTaskQueue(ctx, queue, one+1))
	must(l.EnsureTaskQueue(ctx, queue, 1))
	q, err := l.TaskQueueState(ctx, queue)
	must(err)
	is("waiting after the start", q.Pending, uint64(1))
	must(l.DeleteTaskQueue(ctx, queue))
	must(l.DeleteTaskQueue(ctx, queue))
	must(l.EnsureTaskQueue(ctx, queue, 0))
	q, err = l.TaskQueueState(ctx, queue)
	must(err)
	is("waiting in all", q.Pending, uint64(2))
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	natstest.Main(m)
}
