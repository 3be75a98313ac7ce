package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

// stall is the longest time between two steps.
type stall struct {
	mu    sync.Mutex
	steps int
	last  time.Time
	worst time.Duration
}

func (s *stall) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.steps++
	if s.steps > 1 {
		s.worst = max(s.worst, now.Sub(s.last))
	}
	s.last = now
}

func (s *stall) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// over says how long it stalled, which must not be too long.
func (s *stall) over(t *testing.T, what string, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%s: %d, stalled %v at most", what, s.steps, s.worst.Round(time.Millisecond))
	if s.worst > most {
		t.Errorf("%s stalled for %v", what, s.worst)
	}
}

// A new leader is elected 4 to 9 s after the last message of the old one. The rest is for the test's own setup: three
// servers on a machine with other work.
const mostStalled = 10*time.Second + 15*time.Second

// until does something again until it is done or refused; it must not come to anything else.
func until(ctx context.Context, t *testing.T, do func(context.Context) error) error {
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil || errors.Is(err, bus.ErrTaken) {
			return err
		}
		if ctx.Err() == nil && fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
			return err
		}
		pause, done := context.WithTimeout(ctx, 20*time.Millisecond)
		<-pause.Done()
		done()
	}
	return ctx.Err()
}

func TestConcurrentAppendsOverALeaderChange(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	const racers, each = 3, 8
	var mu sync.Mutex
	winners, wins := map[int][]string{}, map[int]uint64{}
	var progress stall
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for racer := range racers {
		b := c.Bus(t)
		var next atomic.Int64
		for range each {
			wg.Go(func() {
				for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
					n := int(next.Add(1))
					nonce := fmt.Sprint(racer, "-", n)
					var seq uint64
					err := until(t.Context(), t, func(ctx context.Context) (err error) {
						seq, err = b.AppendAndVerify(ctx, bus.Entry{Subject: ended(n), Body: []byte(nonce)},
							func(body []byte) bool { return string(body) == nonce })
						return err
					})
					progress.step()
					if err == nil {
						mu.Lock()
						winners[n] = append(winners[n], nonce)
						wins[n] = seq
						mu.Unlock()
					}
				}
			})
		}
	}
	natstest.Until(t, "they race", func() bool { return progress.taken() > 200 })
	p := c.Leader(subject.Runs)
	p.Kill()
	before := progress.taken()
	natstest.Until(t, "they race under another leader", func() bool { return progress.taken() > before+200 })
	p.Start()
	c.Current()
	cancel()
	wg.Wait()
	c.Current() // whichever replica is asked
	progress.over(t, "appends", mostStalled)
	b := c.Bus(t)
	all, err := b.Records(t.Context(), subject.AllRuns, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	stands := map[string]bus.Message{}
	for _, m := range all {
		if _, twice := stands[m.Subject]; twice {
			t.Errorf("%s exists twice", m.Subject)
		}
		stands[m.Subject] = m
	}
	if len(stands) != len(winners) {
		t.Errorf("%d records stand, %d were won", len(stands), len(winners))
	}
	for n, who := range winners {
		m := stands[ended(n)]
		if len(who) != 1 || string(m.Body) != who[0] || m.Seq != wins[n] {
			t.Errorf("%d was won by %v at %d; the stream has %q at %d", n, who, wins[n], m.Body, m.Seq)
		}
	}
}

// holder is a server, other than the first, that has a follower's consumer.
func holder(t *testing.T, c *natstest.ClusterProcs) *natstest.Process {
	t.Helper()
	js, err := jetstream.New(c.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	var p *natstest.Process
	natstest.Until(t, "a follower's consumer is found", func() bool {
		s, err := js.Stream(t.Context(), subject.Runs)
		if err != nil {
			return false
		}
		for i := range s.ListConsumers(t.Context()).Info() {
			if at := c.Named(i.Cluster.Leader); i.Config.Durable == "" && at != c.Servers[0] && at != nil {
				p = at
			}
		}
		return p != nil
	})
	return p
}

func TestLeaderChangeIsShort(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	writer := c.Bus(t)
	reader, err := bus.Open(c.Servers[0].Conn(t), bus.Config{Replicas: 3, Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	const queue = "procedural.test._"
	if err := writer.EnsureTaskQueue(t.Context(), queue, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var written, taken, watched stall
	var runs, keys atomic.Uint64
	const followers = 4 // on whichever servers they come to be
	var followed [followers]stall
	var seen [followers]atomic.Uint64
	queued := func(n uint64) string { return subject.Queued("7", queue, "run_"+strconv.FormatUint(n, 10), 1) }
	wg.Go(func() { // who queues runs
		for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			n := runs.Load()
			if until(ctx, t, func(ctx context.Context) error {
				_, err := writer.AppendAndVerify(ctx, bus.Entry{Subject: queued(n), Body: []byte("x")},
					func([]byte) bool { return true })
				return err
			}) == nil {
				runs.Add(1)
				written.step()
			}
		}
	})
	for i := range followers {
		wg.Go(func() {
			_ = followRuns(ctx, reader, func(bool) {}, func(m bus.Message) error {
				if want := queued(seen[i].Load()); m.Subject != want {
					t.Errorf("followed %s, want %s", m.Subject, want)
				}
				seen[i].Add(1)
				followed[i].step()
				return nil
			})
		})
	}
	var mu sync.Mutex
	deliveries := map[string]int{}
	taker := reader.Poller(func() int { return 8 }, func(_ context.Context, d bus.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		deliveries[d.Subject]++
		d.Ack()
		taken.step()
	})
	wg.Go(func() { _ = taker.Poll(ctx, queue) })
	wg.Go(func() { // who changes a definition
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			_ = until(ctx, t, func(ctx context.Context) error {
				_, err := writer.Bucket(subject.Runners).Put(ctx, "k"+strconv.FormatUint(keys.Load()%10, 10),
					[]byte("x"))
				return err
			})
			keys.Add(1)
		}
	})
	wg.Go(func() {
		_ = reader.Bucket(subject.Runners).Watch(ctx, nil, func(ch bus.Change) error {
			if ch.Deleted {
				t.Errorf("%s was never deleted", ch.Key)
			}
			watched.step()
			return nil
		})
	})
	for _, victim := range []func() *natstest.Process{
		func() *natstest.Process { return holder(t, c) }, // the followers' own server stays: heartbeats are missing
		func() *natstest.Process { return c.Leader(subject.Runs) },
	} {
		before := runs.Load()
		natstest.Until(t, "all continues", func() bool { return runs.Load() > before+30 })
		p := victim()
		p.Kill()
		before = runs.Load()
		natstest.Until(t, "all continues without it", func() bool { return runs.Load() > before+30 })
		p.Start()
		c.Current()
	}
	natstest.Until(t, "all are followed and taken", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := runs.Load()
		for i := range seen {
			if seen[i].Load() < n {
				return false
			}
		}
		return uint64(len(deliveries)) >= n
	})
	cancel()
	wg.Wait()
	written.over(t, "queued", mostStalled)
	for i := range followed {
		followed[i].over(t, "followed", mostStalled)
	}
	taken.over(t, "taken", mostStalled)
	watched.over(t, "watched", mostStalled)
}

func TestALeaderThatHangsAndComesBack(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	b, reader := c.Bus(t), c.Bus(t)
	reader.Disbelieve(2 * time.Second)
	var seen, written atomic.Uint64
	var followed stall
	ended := make(chan error, 1)
	go func() {
		ended <- followRuns(t.Context(), reader, func(bool) {}, func(m bus.Message) error {
			if want := seen.Add(1); m.Seq != want {
				t.Errorf("followed %d, want %d", m.Seq, want)
			}
			followed.step()
			return nil
		})
	}()
	write := func(n int) {
		t.Helper()
		for range n {
			e := bus.Entry{Subject: subject.Stopping("7", "run_"+strconv.FormatUint(written.Add(1), 10))}
			natstest.Until(t, "a record is written", func() bool {
				_, err := b.AppendAndVerify(t.Context(), e, func([]byte) bool { return true })
				return err == nil
			})
		}
		natstest.Until(t, "all is followed", func() bool { return seen.Load() == written.Load() })
	}
	write(10)
	old := c.Leader(subject.Runs)
	old.Pause()
	write(20)
	old.Resume() // it believes that it leads, and knows the first ten
	write(10)
	c.Current()
	write(10)
	followed.over(t, "followed", mostStalled+5*time.Second) // only missing heartbeats show that it hangs

	js, err := jetstream.New(c.Conn(t))
	lost := time.Now()
	if err == nil {
		err = js.DeleteStream(t.Context(), subject.Runs)
	}
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, bus.ErrHistoryReplaced) || time.Since(lost) < 2*time.Second { // Disbelieve's
		t.Errorf("the records are gone: got %v after %v", err, time.Since(lost))
	}
}

func TestOneReplicaBecomesThreeAndTheyMustAgree(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	b, err := bus.Open(c.Conn(t), bus.Config{Replicas: 1, Log: natstest.Log(t)})
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err == nil {
		err = b.EnsureTaskQueue(t.Context(), "procedural.test._", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	once := func(b *bus.Bus) func(context.Context) error {
		return func(ctx context.Context) error { _, err := b.Append(ctx, bus.Entry{Subject: ended(1)}); return err }
	}
	// taken: by the one that had no answer
	if err := until(t.Context(), t, once(b)); err != nil && !errors.Is(err, bus.ErrTaken) {
		t.Fatal(err)
	}
	b = c.Bus(t)
	c.Current()
	js, err := jetstream.New(c.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "all streams and 2 consumers have three replicas", func() bool {
		streams, durables := 0, 0
		for list := js.ListStreams(t.Context()); ; {
			i, more := <-list.Info()
			if !more {
				return list.Err() == nil && streams == 15 && durables == 2
			}
			s, err := js.Stream(t.Context(), i.Config.Name)
			if err != nil || i.Config.Replicas != 3 || len(i.Cluster.Replicas) != 2 {
				return false
			}
			streams++
			consumers := s.ListConsumers(t.Context())
			for i := range consumers.Info() {
				if i.Cluster == nil || len(i.Cluster.Replicas) != 2 {
					return false
				}
				durables++
			}
			if consumers.Err() != nil {
				return false
			}
		}
	})
	if err := until(t.Context(), t, once(b)); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("what was there is %v", err)
	}

	// What was written a moment ago is read, also when another replica would not have it yet.
	values := b.Bucket(subject.Schemas)
	tried := 0
	for made := 0; made < 20; tried++ {
		key := "k" + strconv.Itoa(tried)
		rev, err := values.Create(t.Context(), key, []byte(key))
		if fault.KindOf(err) == fault.Unavailable && tried < 100 {
			continue // nobody knows whether it stands: another one
		}
		if err != nil {
			t.Fatal(err)
		}
		made++
		if err := until(t.Context(), t, func(ctx context.Context) error {
			_,
				err := values.Create(ctx, key, nil)
			return err
		}); !errors.Is(err, bus.ErrTaken) {
			t.Errorf("made twice: %v", err)
		}
		read := func() (body []byte, at uint64, err error) {
			natstest.Until(t, "it is read", func() bool {
				body, at, err = values.Get(t.Context(), key)
				return fault.KindOf(err) != fault.Unavailable
			})
			return body, at, err
		}
		if body, at, err := read(); err != nil || at != rev || string(body) != key {
			t.Errorf("got %s at %d, %v", body, at, err)
		}
		if err := until(t.Context(), t, func(ctx context.Context) error {
			return values.DeleteRev(ctx, key,
				rev)
		}); err != nil && !errors.Is(err, bus.ErrTaken) {
			t.Error(err)
		}
		if _, _, err := read(); !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("deleted, and there: %v", err)
		}
	}

	// A write that is on its way is not taken for one that stands.
	alone := c.Leader(subject.Runs)
	open := func() *bus.Bus {
		b, err := bus.Open(alone.Conn(t), bus.Config{Replicas: 3, Log: natstest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first, second := open(), open()
	for _, p := range c.Servers {
		if p != alone {
			p.Kill() // the leader cannot commit any more, and does not know it yet
		}
	}
	appendTwo := func(b *bus.Bus, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := b.Append(ctx, bus.Entry{Subject: ended(2), Body: []byte("x")})
		return err
	}
	if err := appendTwo(first, 200*time.Millisecond); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("nobody can have written it: %v", err)
	}
	if err := appendTwo(second, 3*time.Second); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("nobody can know whether it will stand: %v", err)
	}
	_, err = second.AppendBatch(t.Context(), bus.Entry{Subject: ended(2)}, bus.Entry{Subject: ended(3)})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("nobody can know whether it will stand: %v", err)
	}
	ready := make(chan error, 1)
	go func() { ready <- second.Setup(t.Context()) }()
	for _, p := range c.Servers {
		if p != alone {
			p.Start()
		}
	}
	if err := <-ready; err != nil {
		t.Errorf("the set-up waits for a leader: %v", err)
	}
}
