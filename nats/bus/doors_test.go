package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	runs "ao/shared/run"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// background runs f until the test ends.
func background(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
}

func TestSetupRefusesANewerLayout(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ layout, want string }{{"2.0", "newer program"}, {"soon", "cannot be read"}} {
		if _, err := js.CreateOrUpdateStream(t.Context(),
			jetstream.StreamConfig{Name: subject.Runs, Subjects: []string{subject.AllRuns},
				Metadata: map[string]string{"ao.layout": tt.layout}}); err != nil {
			t.Fatal(err)
		}
		if err := natstest.Open(t, s).Setup(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", tt.layout, err, tt.want)
		}
	}
}

func TestSetupOnASmallDisk(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t, func(c *embed.Config) { c.MaxStore = 300 << 20 })
	s, err := b.State(t.Context())
	if err != nil || s.MaxBytes < 16<<20 || s.MaxBytes > 300<<20 {
		t.Errorf("got %+v, %v, want a size that fits", s, err)
	}
}

func TestSetupBringsAnOlderLayoutUpAndLeavesANewerMinor(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ layout, want string }{{"", "1.0"}, {"0.9", "1.0"}, {"1.7", "1.7"}} {
		js.DeleteStream(t.Context(), subject.Rejected)
		meta := map[string]string{"ao.layout": tt.layout, "team": "x"}
		if _, err := js.CreateStream(t.Context(),
			jetstream.StreamConfig{Name: subject.Rejected, Subjects: []string{subject.AllRejected},
				MaxBytes: 1 << 20, Metadata: meta}); err != nil {
			t.Fatal(err)
		}
		if err := natstest.Open(t, s).Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		st, err := js.Stream(t.Context(), subject.Rejected)
		if err != nil {
			t.Fatal(err)
		}
		c := st.CachedInfo().Config
		if c.Metadata["ao.layout"] != tt.want || c.Metadata["team"] != "x" || c.MaxBytes != 1<<20 {
			t.Errorf("%s: got %v, %d bytes", tt.layout, c.Metadata, c.MaxBytes)
		}
	}
}

func TestTheStreamKeepsTheFirstRecordWhateverTheHeaders(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc := natstest.Conn(t, s)
	if _, err := b.Append(t.Context(), bus.Entry{Subject: ended(1), Body: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []nats.Header{{"Nats-Rollup": {"sub"}}, {"Nats-Rollup": {"all"}},
		{"Nats-Expected-Last-Subject-Sequence": {"1"}}, {"Nats-TTL": {"1s"}}, {}} {
		if _, err := nc.RequestMsg(&nats.Msg{Subject: ended(1), Header: h, Data: []byte("second")},
			5*time.Second); err != nil {
			t.Fatal(err)
		}
		if m, err := b.Last(t.Context(), ended(1)); err != nil || string(m.Body) != "first" || m.Seq != 1 {
			t.Errorf("%v: got %q, %v, want the first record", h, m.Body, err)
		}
	}
}

func TestBucket(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	k := natstest.Bus(t).Bucket(subject.Agents)
	if _, _, err := k.Get(ctx, "a"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	rev, err := k.Create(ctx, "a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Create(ctx, "a", nil); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("create again: %v", err)
	}
	next, err := k.Update(ctx, "a", []byte("2"), rev)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Update(ctx, "a", []byte("3"), rev); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("update of an old revision: %v", err)
	}
	if err := k.DeleteRev(ctx, "a", rev); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("delete of an old revision: %v", err)
	}
	if body, rev, err := k.Get(ctx, "a"); err != nil || string(body) != "2" || rev != next {
		t.Errorf("got %q, %d, %v", body, rev, err)
	}
	if _, err := k.Put(ctx, "b.c", []byte("4")); err != nil {
		t.Fatal(err)
	}
	if all, err := k.List(ctx); err != nil || len(all) != 2 || string(all["b.c"].Body) != "4" {
		t.Errorf("got %v, %v", all, err)
	}
	if err := k.DeleteRev(ctx, "a", next); err != nil {
		t.Error(err)
	}
	if all, err := k.List(ctx); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := k.Create(ctx, "a", nil); err != nil {
		t.Errorf("create after delete: %v", err)
	}
	if _, err := k.Put(ctx, "a b*", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("bad key: %v", err)
	}
}

// A single server that crashed may have lost the last changes of a bucket. Then an older revision counts. It follows a
// deletion: who keeps revisions would ignore it.
func TestAWatchOfABucketThatLostItsLastChanges(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	k, enough := b.Bucket(subject.TaskQueues), errors.New("enough")
	if _, err := k.Put(t.Context(), "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	var changes []string
	err := k.Watch(t.Context(), map[string]bus.Value{"a": {Rev: 20}}, func(c bus.Change) error {
		changes = append(changes, fmt.Sprint(c.Key, " ", c.Rev, c.Deleted))
		if c.Deleted {
			return nil
		}
		return enough
	})
	if want := []string{"a 0 true", "a 1 false"}; !errors.Is(err, enough) || !slices.Equal(changes, want) {
		t.Errorf("got %v, %v; want %v", changes, err, want)
	}
}

// TestAWatchReportsDeletionsOfKeysItHasNotSeen: whoever puts a key may keep it before the watch has read it, and the
// watch may read no more than its deletion.
func TestAWatchReportsDeletionsOfKeysItHasNotSeen(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	k, enough := b.Bucket(subject.TaskQueues), errors.New("enough")
	for _, key := range []string{"a", "b"} {
		if _, err := k.Put(t.Context(), key, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := k.Watch(ctx, nil, func(c bus.Change) error {
		got = append(got, fmt.Sprint(c.Key, " ", c.Deleted))
		if len(got) == 1 {
			return nil
		}
		return enough
	})
	if want := []string{"b false", "a true"}; !errors.Is(err, enough) || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestWatchReportsCurrentNewAndMissedChanges(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	k := b.Bucket(subject.TaskQueues)
	k.Put(t.Context(), "a", []byte("1"))
	k.Put(t.Context(), "b", []byte("1"))
	var mu sync.Mutex
	view := map[string]string{"listed": "0"} // and gone before the watch begins
	background(t, func(ctx context.Context) error {
		return p.Bus(t).Bucket(subject.TaskQueues).Watch(ctx, map[string]bus.Value{"listed": {Rev: 1}},
			func(c bus.Change) error {
				mu.Lock()
				defer mu.Unlock()
				if c.Deleted {
					delete(view, c.Key)
				} else {
					view[c.Key] = string(c.Body)
				}
				return nil
			})
	})
	is := func(want string) {
		t.Helper()
		natstest.Until(t, want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(view) == want
		})
	}
	is("map[a:1 b:1]")
	k.Put(t.Context(), "a", []byte("2"))
	k.Delete(t.Context(), "b")
	is("map[a:2]")
	p.Kill()
	p.Start()
	natstest.Until(t, "we are back", b.Connected)
	k.Put(t.Context(), "c", []byte("3"))
	k.Delete(t.Context(), "a")
	is("map[c:3]")
	// gone without a word
	if err := b.Purge(t.Context(), "KV_"+subject.TaskQueues, "$KV."+subject.TaskQueues+".c", 0); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Start()
	is("map[]")
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	b, ctx := natstest.Bus(t), t.Context()
	big := bytes.Repeat([]byte("0123456789abcdef"), runs.PartSize/16)
	for range 2 {
		for n, body := range [][]byte{big, []byte("rest"), {}} {
			if err := b.PutPart(ctx, "run_1", n, body); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.PutPart(ctx, "run_11", 0, []byte("x"))
	if got, err := b.GetPart(ctx, "run_1", 0); err != nil || !bytes.Equal(got, big) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := b.GetPart(ctx, "run_1", 7); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("missing part: %v", err)
	}
	if err := b.PutPart(ctx, "run_2", 0, append(big, 'x')); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("too large: %v", err)
	}
	if parts := natstest.Payloads(t, b); len(parts) != 2 || parts["run_1"] != 3 {
		t.Errorf("got %v, want 3 parts of run_1 and 1 of run_11", parts)
	}
	listed := uint64(0)
	first := func(name string, size uint64, at time.Time) bool {
		if name == "run_1" {
			listed += size
		}
		return name == "run_1" && !at.IsZero()
	}
	if err := b.DropPayloads(ctx, first); err != nil {
		t.Fatal(err)
	}
	if parts := natstest.Payloads(t, b); len(parts) != 1 || listed != uint64(len(big)+4) {
		t.Errorf("got %v, want run_11 alone; %d bytes were listed", parts, listed)
	}
}

func TestRequestsAndTheirFaults(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	if _, err := b.Request(t.Context(), subject.RunnerAPI("x"), nil); !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("got %v, want ErrNoResponders", err)
	}
	background(t, func(ctx context.Context) error {
		return b.Serve(ctx, subject.AllRunnerAPI, subject.Coordinators,
			func(_ context.Context, subj string, body []byte) ([]byte, error) {
				switch subj {
				case subject.RunnerAPI("fault"):
					return nil, fault.New(fault.Conflict, "agent_name_collision", "taken").With("agent_name", "a")
				case subject.RunnerAPI("error"):
					return nil, errors.New("secret")
				}
				return append([]byte(subj+" "), body...), nil
			})
	})
	natstest.Until(t, "an answer", func() bool {
		r, err := b.Request(t.Context(), subject.RunnerAPI("echo"), []byte("hi"))
		return err == nil && string(r) == "ao.fleet.echo hi"
	})
	_, err := b.Request(t.Context(), subject.RunnerAPI("fault"), nil)
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Conflict ||
		f.Code != "agent_name_collision" || f.Message != "taken" || len(f.Fields) != 1 {
		t.Errorf("got %#v", err)
	}
	_, err = b.Request(t.Context(), subject.RunnerAPI("error"), nil)
	if fault.KindOf(err) != fault.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestInboxActsOnTheHandlersError(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	for _, body := range []string{"good", "bad", "later"} {
		if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.InboxRuns, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	var good, bad, later atomic.Int32
	var keys sync.Map
	background(t, func(ctx context.Context) error {
		return b.Inbox(ctx, func(_ context.Context, m bus.InboxMessage) error {
			if body, twice := keys.LoadOrStore(m.Key, string(m.Body)); twice && body != string(m.Body) {
				t.Errorf("%s and %s have the key %s", body, m.Body, m.Key)
			}
			switch string(m.Body) {
			case "bad":
				bad.Add(1)
				return fault.Newf(fault.Invalid, "not a run")
			case "later":
				if later.Add(1) == 1 {
					return errors.New("trouble of our own")
				}
			default:
				good.Add(1)
			}
			return nil
		})
	})
	natstest.Until(t, "the inbox is empty", func() bool {
		s, err := b.StreamState(t.Context(), subject.Inbox)
		return err == nil && s.Msgs == 0
	})
	if good.Load() != 1 || bad.Load() != 1 || later.Load() != 2 {
		t.Errorf("good %d, bad %d, later %d", good.Load(), bad.Load(), later.Load())
	}
	if s, err := b.StreamState(t.Context(), subject.Rejected); err != nil || s.Msgs != 1 {
		t.Errorf("got %+v, %v, want one rejected message", s, err)
	}
}

func TestEventsAreAllThereOnceAndInOrderAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	e := b.Emitter(context.Background(), nil)
	emit := func(n int) {
		t.Helper()
		if err := e.Emit(t.Context(), subject.Event("7", "ses_1", "run_1", "message"),
			[]byte(strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 500 {
		emit(n)
	}
	seq, err := e.Flush(t.Context())
	if err != nil || seq != 500 {
		t.Fatalf("got %d, %v, want 500", seq, err)
	}
	p.Kill()
	natstest.Until(t, "the loss is noticed", func() bool { return !b.Connected() })
	for n := range 10 {
		emit(500 + n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Flush(ctx); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("flush while away: got %v, want Unavailable", err)
	}
	frozen := errors.New("frozen")
	given, giveUp := context.WithCancelCause(t.Context())
	giveUp(frozen)
	if _, err := e.Flush(given); !errors.Is(err, frozen) || fault.KindOf(err) == fault.Unavailable {
		t.Errorf("flush that its caller gave up: got %v, want his reason", err)
	}
	p.Start()
	seq, err = e.Flush(t.Context())
	if err != nil || seq != 510 {
		t.Fatalf("got %d, %v, want 510", seq, err)
	}
	got, err := b.Events(t.Context(), "ao.events.7.ses_1.>", 3, 10000)
	if err != nil || len(got) != 507 {
		t.Fatalf("got %d events, %v, want 507", len(got), err)
	}
	for i, m := range got {
		if want := strconv.Itoa(i + 3); string(m.Body) != want || m.Seq != uint64(i+4) {
			t.Fatalf("got %q at %d, want %q", m.Body, m.Seq, want)
		}
	}
	if got, err := b.Events(t.Context(), "ao.events.7.ses_1.>", 3, 5); err != nil || len(got) != 5 {
		t.Errorf("limit: got %d, %v", len(got), err)
	}
	if got, err := b.Events(t.Context(), "ao.events.7.ses_2.>", 0, 5); err != nil || len(got) != 0 {
		t.Errorf("none: got %d, %v", len(got), err)
	}
}

func TestConnectWaitsForAServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := bus.Connect(ctx, "nats://me:pass@"+natstest.FreeAddr(t), "test", natstest.Log(t))
	if err == nil || !strings.Contains(err.Error(), "nats-server -js") || strings.Contains(err.Error(), "pass") {
		t.Errorf("got %v", err)
	}
}
