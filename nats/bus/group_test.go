package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"ao/nats/embed"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// open is a bus that believes batches to be cheap (or dear), so that it makes them whatever this machine is like.
func open(t *testing.T, cheap bool) *Bus {
	t.Helper()
	b := openOn(t, server(t), Config{})
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.group.tuner = batchTuner{batches: cheap, settled: true}
	return b
}

func server(t *testing.T) *embed.Server {
	t.Helper()
	s, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: "2m", Staging: "disk"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// openOn is a bus on a connection of its own.
func openOn(t *testing.T, s *embed.Server, cfg Config) *Bus {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	nc, err := s.Dial(Options(t.Name(), cfg.Log)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := Open(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRefusedAppendFailsNoOther(t *testing.T) {
	t.Parallel()
	for _, cheap := range []bool{true, false} {
		t.Run(fmt.Sprint("in batches ", cheap), func(t *testing.T) {
			b := open(t, cheap)
			ctx := context.Background()
			const appends = 1000
			subj := func(n int) string { return subject.Ended("7", "run_"+strconv.Itoa(n), "k") }
			for n := 0; n < appends; n += 100 { // these are taken already
				if _, err := b.publish(ctx, Entry{Subject: subj(n), Body: []byte("first")}); err != nil {
					t.Fatal(err)
				}
			}
			seqs := make([]uint64, appends)
			next := make(chan int)
			var wg sync.WaitGroup
			for range 128 {
				wg.Go(func() {
					for n := range next {
						seq, err := b.Append(ctx, Entry{Subject: subj(n), Body: []byte(strconv.Itoa(n))})
						if want := n%100 == 0; errors.Is(err, ErrTaken) != want || (err != nil) != want {
							t.Errorf("%d: got %v, want taken %v", n, err, want)
						}
						seqs[n] = seq
					}
				})
			}
			for n := range appends {
				next <- n
			}
			close(next)
			wg.Wait()
			for n, seq := range seqs {
				m, err := b.Last(ctx, subj(n))
				if err != nil {
					t.Fatal(n, err)
				}
				if n%100 == 0 {
					if string(m.Body) != "first" {
						t.Fatalf("%d: the first message was replaced", n)
					}
				} else if m.Seq != seq || string(m.Body) != strconv.Itoa(n) {
					t.Fatalf("%d: stored %q at %d, want it at %d", n, m.Body, m.Seq, seq)
				}
			}
			if s, err := b.State(ctx); err != nil || s.Msgs != appends {
				t.Errorf("got %+v, %v, want %d messages", s, err, appends)
			}
			if made := batchesIn(t, b); made != cheap {
				t.Errorf("batches were made: %v, want %v", made, cheap)
			}
		})
	}
}

// batchesIn says whether a record came in a batch.
func batchesIn(t *testing.T, b *Bus) bool {
	t.Helper()
	s, err := b.js.Stream(t.Context(), subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Nats-Batch-Id") != "" {
			return true
		}
	}
	return false
}

func TestAppendBatchIsAllOrNone(t *testing.T) {
	t.Parallel()
	b := open(t, true)
	ctx := t.Context()
	e := func(n int) Entry {
		return Entry{Subject: subject.Claimed("7", "run_"+strconv.Itoa(n), "k"), Body: []byte("x")}
	}
	seq, err := b.AppendBatch(ctx, e(1), e(2), e(3))
	if err != nil || seq != 3 {
		t.Fatalf("got %d, %v, want sequence 3", seq, err)
	}
	for _, bad := range [][]Entry{{e(4), e(2)}, {e(2), e(4)}, {e(4), e(4)}, {e(4), e(5), e(3), e(6)}} {
		if _, err := b.AppendBatch(ctx, bad...); !errors.Is(err, ErrTaken) {
			t.Errorf("got %v, want ErrTaken", err)
		}
	}
	if s, err := b.State(ctx); err != nil || s.Msgs != 3 {
		t.Errorf("got %+v, %v, want 3 messages", s, err)
	}
}

// Another client holds all places for batches: each batch is refused at once. When there is room again, batches are
// written.
func TestBatchesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := open(t, true)
	occupy := func(commit bool) {
		t.Helper()
		for n := range maxBatches * 4 {
			m := nats.NewMsg(subject.Ended("1", "run_"+strconv.Itoa(n), strconv.FormatBool(commit)))
			m.Header = nats.Header{"Nats-Batch-Id": {strconv.Itoa(n)}, "Nats-Batch-Sequence": {"1"}}
			if commit {
				m.Header = nats.Header{"Nats-Batch-Id": {strconv.Itoa(n)}, "Nats-Batch-Sequence": {"2"},
					"Nats-Batch-Commit": {"1"}}
			}
			if err := b.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	occupy(false)
	pair := func(n int) []Entry {
		return []Entry{{Subject: subject.Claimed("7", "run_"+strconv.Itoa(n), "k"), Body: []byte("x")},
			{Subject: subject.Ended("7", "run_"+strconv.Itoa(n), "k"), Body: []byte("x")}}
	}
	before, began := b.nc.Stats().OutMsgs, time.Now()
	for n := range 16 {
		if _, err := b.AppendBatch(t.Context(), pair(n)...); !errors.Is(err, ErrTooManyBatches) {
			t.Fatalf("got %v, want ErrTooManyBatches", err)
		}
	}
	if sent := b.nc.Stats().OutMsgs - before; sent >= 2*2*16 { // others send some, too
		t.Errorf("16 batches of two were refused after %d messages, want 32 and a few: none is tried again", sent)
	}
	if took := time.Since(began); took > 16*time.Second { // even one request's timeout each would be longer
		t.Errorf("16 refusals took %v", took)
	}
	occupy(true)
	if seq, err := b.AppendBatch(t.Context(), pair(0)...); err != nil || seq == 0 {
		t.Errorf("got %d, %v, though there is room again", seq, err)
	}
}

func TestCancelledAppendFailsNoOther(t *testing.T) {
	t.Parallel()
	b := open(t, true)
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			ctx := context.Background()
			if n%3 == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*time.Microsecond)
				defer cancel()
			}
			_, err := b.Append(ctx, Entry{Subject: subject.Ended("7", "run_"+strconv.Itoa(n), "k"), Body: []byte("x")})
			if n%3 != 0 && err != nil {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// Appends whose batch the server has no room for go one by one.
func TestAppendsNeedNoRoomForABatch(t *testing.T) {
	t.Parallel()
	b := open(t, true)
	for n := range 50 { // opened, and not committed
		m := nats.NewMsg(subject.Ended("7", "run_open"+strconv.Itoa(n), "k"))
		m.Header = nats.Header{"Nats-Batch-Id": {strconv.Itoa(n)}, "Nats-Batch-Sequence": {"1"}}
		if err := b.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			if _, err := b.Append(t.Context(),
				Entry{Subject: subject.Ended("7", "run_"+strconv.Itoa(n), "k"), Body: []byte("x")}); err != nil {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// A bus that shares another's appends needs no connection of its own for them.
func TestABusAppendsWithAnother(t *testing.T) {
	t.Parallel()
	s := server(t)
	b := openOn(t, s, Config{})
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	with := openOn(t, s, Config{GroupWith: b})
	with.nc.Close()
	var all sync.WaitGroup
	for n := range 200 {
		for _, by := range []*Bus{b, with} {
			all.Go(func() {
				e := Entry{Subject: subject.Ended("7", fmt.Sprintf("run_%d", n), fmt.Sprintf("k%p", by)),
					Body: []byte("{}")}
				if _, err := by.Append(t.Context(), e); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
}
