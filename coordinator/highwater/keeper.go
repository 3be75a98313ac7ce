package highwater

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// raiseEvery is how often the mark is raised at most.
const raiseEvery = time.Second

// Config is what a Keeper works with. Only Dir may be empty.
type Config struct {
	Stream interface {
		reader
		Reconnects() uint64
		Connected() bool
		Clustered() bool // a loss must be reported for a while until it is believed
	}
	Bucket interface {
		Get(ctx context.Context, key string) (body []byte, rev uint64, err error)
		Create(ctx context.Context, key string, body []byte) (rev uint64, err error)
		Update(ctx context.Context, key string, body []byte, rev uint64) (next uint64, err error)
		Rescue(ctx context.Context) (removed bool, err error) // what NATS cannot read
	}
	History interface {
		Confirmed() bool
		Seq() uint64
		LastFingerprints() []stream.Fingerprint
		Reread()          // reads RUNS again from the beginning
		Rebuilds() uint64 // counts that
	}
	Name string        // of this process, among all coordinators
	Dir  string        // data folder; empty: the mark is in the bucket alone
	Sync time.Duration // AO_NATS_SYNC; 0: always
	Log  *slog.Logger
}

// Keeper raises the mark, and compares RUNS with it. Any number of them run side by side.
type Keeper struct {
	Config

	shown atomic.Pointer[view]

	mu         chan struct{} // holds one while somebody has the lock, perhaps waiting for NATS
	known      *mark         // the newest one that this process has seen
	rev        uint64        // its revision in the bucket, 0: none
	checked    bool          // RUNS was compared since the start
	handled    int           // the generation of the last damage whose runs this process has looked for
	doubt      time.Time
	reconnects uint64
	flagged    bool      // the mark says that this process removes records
	removals   int       // in progress
	unsure     time.Time // when a removal failed, which NATS may do later all the same
	skipped    int
	closing    bool
	reconciled time.Time
	rebuilds   uint64 // of the projection, when it was asked to read RUNS again
	reached    []progress
	rescued    time.Time // when this process removed a mark that NATS could not read
	filed      uint64    // revision in the file
	raw        []byte    // the bucket's value that was read last
	decoded    *mark     // the mark in it
}

// progress is how far the history had come at a time.
type progress struct {
	at  time.Time
	seq uint64
}

// New returns a Keeper.
func New(cfg Config) *Keeper {
	k := &Keeper{Config: cfg, handled: -1, mu: make(chan struct{}, 1)}
	k.show()
	return k
}

// locked calls f with the lock, and then shows the outcome to those who do not wait for NATS. If ctx ends before it has
// the lock, f is not called.
func (k *Keeper) locked(ctx context.Context, f func() error) error {
	select {
	case k.mu <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.mu }()
	defer k.show()
	return f()
}

// Run keeps the mark until ctx ends, and raises it a last time then.
func (k *Keeper) Run(ctx context.Context) error {
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if k.Stream.Connected() {
			_ = k.Close(last) // else the mark is a second older
		}
	}()
	for {
		if err := k.Reconcile(ctx); err != nil && ctx.Err() == nil {
			k.Log.Debug("the high-water mark was not kept, retrying", "err", err)
		}
		if !clock.Sleep(ctx, raiseEvery/10) {
			return nil
		}
	}
}

// Reconcile compares RUNS with the mark, and raises the mark. Call it often: it does that once a second, and at once
// after the connection was lost.
func (k *Keeper) Reconcile(ctx context.Context) error {
	err := k.locked(ctx, func() error {
		if settled(k) && (time.Since(k.reconciled) < raiseEvery || idle(k)) {
			return nil
		}
		k.reconciled = time.Now()
		if err := k.check(ctx); err != nil {
			return err
		}
		return k.raise(ctx)
	})
	if errors.Is(err, stream.ErrTaken) { // another coordinator has raised it; the next call sees that
		return nil
	}
	return err
}

// Close raises the mark a last time, at a clean end.
func (k *Keeper) Close(ctx context.Context) error {
	return k.locked(ctx, func() error {
		k.closing = true
		if err := k.check(ctx); err != nil {
			return err
		}
		return k.raise(ctx)
	})
}

// settled reports whether RUNS was compared since the connection was lost. The caller holds mu.
func settled(k *Keeper) bool {
	return k.checked && k.doubt.IsZero() && k.reconnects == k.Stream.Reconnects()
}

// maxSkipped is how often nothing is asked of NATS if nothing has changed here. Others may have recorded a damage.
const maxSkipped = 9

// idle reports whether nothing has changed since the last call. The caller holds mu.
func idle(k *Keeper) bool {
	k.skipped++
	if k.skipped > maxSkipped {
		k.skipped = 0
		return false
	}
	return k.known.Seq == k.History.Seq() &&
		k.known.Durable == k.known.Seq && (!k.flagged || k.removals > 0) && len(k.known.Removing) == 0
}

// check compares RUNS with the mark, and records a damage. The caller holds mu.
func (k *Keeper) check(ctx context.Context) error {
	reconnects := k.Stream.Reconnects()
	m, rev, err := k.read(ctx)
	if err != nil {
		return err
	}
	s, err := k.Stream.State(ctx)
	if err != nil {
		return err
	}
	if other := m != nil && m.Incarnation != incarnation(s); other && restored(ctx, k, s) {
		m = afterRestore(k, s, rev)
		rev, err = k.write(ctx, m, rev) // it counts from now on, for the other coordinators as well
		if err != nil {
			return err
		}
	} else if m == nil || m.Written.IsZero() || other && m.Seq == 0 { // nothing was marked yet
		m = &mark{V: 1, Incarnation: incarnation(s)}
	} else if d, err := m.compare(ctx, s, k.Stream); err != nil {
		return err
	} else if d != nil {
		if _, now, err := k.read(ctx); err != nil || now != rev { // somebody may have removed records meanwhile
			return cmp.Or(err, stream.ErrTaken) // compared again
		}
		return k.doubtful(ctx, m, rev, s, d, reconnects)
	}
	k.learn(m, rev)
	k.doubt, k.checked, k.reconnects = time.Time{}, true, reconnects
	return nil
}

// restored reports whether the stream was made by a restore.
func restored(ctx context.Context, k *Keeper, s stream.State) bool {
	raw, _, err := k.Bucket.Get(ctx, subject.RestoredKey)
	return err == nil && string(raw) == incarnation(s)
}

// afterRestore returns the mark that a restored stream begins with: it has the damages of the backup. Those that this
// process knew are of the stream before. rev is the revision of the bucket's mark. The caller holds mu.
func afterRestore(k *Keeper, s stream.State, rev uint64) *mark {
	k.handled = -1
	m := &mark{V: 1, Incarnation: incarnation(s)}
	if rev != 0 && k.decoded != nil {
		m.Generation, m.Damages = k.decoded.Generation, slices.Clone(k.decoded.Damages)
	}
	for i := range m.Damages {
		m.Damages[i].Unreadable = false // a backup has what can be read
	}
	return m
}

// learn takes over a mark. Where it tells of a damage that is new here, RUNS is read again: what this process knows may
// be gone. The caller holds mu.
func (k *Keeper) learn(m *mark, rev uint64) {
	if k.handled >= 0 && k.handled < m.Generation && (k.known == nil || k.known.Generation < m.Generation) {
		reread(k)
	}
	if k.known != nil && k.known.Incarnation != m.Incarnation && k.handled >= m.Generation {
		k.handled = -1 // another coordinator was the first to see a restored stream
	}
	if k.handled < 0 {
		k.handled = m.Generation
		if m.unresolved() {
			k.handled--
		}
		if m.unresolved() || m.Generation > 0 && !k.doubt.IsZero() { // what was read since the start may be older
			reread(k)
		}
	}
	k.known, k.rev = m, rev
	if _, says := m.Removing[k.Name]; !says {
		k.flagged = false // the answer to the last write may have been lost
	}
}

// current returns the newest mark, to be changed. Where another coordinator has recorded a damage, RUNS must be read
// again first, and the error says so. The caller holds mu.
func current(ctx context.Context, k *Keeper) (m *mark, rev uint64, err error) {
	m, rev, err = k.read(ctx)
	if err == nil && m != nil && k.known != nil && k.known.Generation < m.Generation {
		k.learn(m, rev)
		err = errHeld("the history is damaged (see 'ao verify'), and is being read again")
	}
	return m, rev, err
}

// reread makes the projection read RUNS again. The caller holds mu.
func reread(k *Keeper) {
	k.rebuilds = k.History.Rebuilds() + 1
	k.History.Reread()
}

// believeAfter returns how long a damage must be seen until it is recorded.
func believeAfter(clustered bool) time.Duration {
	if clustered {
		return stream.SuspectTimeout
	}
	return raiseEvery / 2
}

// doubtful records a damage that has been seen for long enough. The caller holds mu.
func (k *Keeper) doubtful(ctx context.Context, m *mark, rev uint64, s stream.State, d *Damage,
	reconnects uint64) error {
	if k.doubt.IsZero() {
		k.doubt = time.Now()
		k.Log.Warn("the history may be damaged; checking again", "what", d.Message)
	}
	if time.Since(k.doubt) < believeAfter(k.Stream.Clustered()) {
		return nil
	}
	next := *m
	next.Incarnation, next.Seq, next.Durable, next.Records = incarnation(s), s.Last, s.Last, int64(s.Msgs)
	next.Last, next.Time = nil, 0
	if m.Incarnation != next.Incarnation {
		next.Removing = nil
	}
	if !d.Tolerated {
		return k.record(ctx, next, rev, *d, reconnects)
	}
	now, err := k.write(ctx, &next, rev)
	if err == nil {
		k.Log.Error("NATS lost records that it had not synced yet (AO_NATS_SYNC)", "what", d.Message)
		k.learn(&next, now)
		k.checked, k.doubt, k.reconnects = true, time.Time{}, reconnects
	}
	return err
}

// raise brings the mark to what the projection has applied. The caller holds mu.
func (k *Keeper) raise(ctx context.Context) error {
	if !k.doubt.IsZero() || !k.checked || !k.History.Confirmed() {
		return nil
	}
	seq, last := uint64(0), k.History.LastFingerprints()
	if len(last) > 0 {
		seq = last[len(last)-1].Seq
	}
	s, err := k.Stream.State(ctx)
	if err != nil {
		return err
	}
	next := *k.known
	next.Removing = maps.Clone(next.Removing)
	maps.DeleteFunc(next.Removing, func(name string, since time.Time) bool {
		over := k.removals == 0 && time.Since(k.unsure) > unsureFor
		return name == k.Name && over || time.Since(since) > removalTimeout
	})
	stale := seq < next.Seq || s.Last < seq // it is being read again
	ended := len(next.Removing) != len(k.known.Removing)
	age := time.Since(next.Written)
	fresh := age > 0 && age < raiseEvery*9/10 && !k.closing // another coordinator has raised it
	durable := k.durable(seq)
	if !stale && (ended || k.rev == 0 || !fresh && (seq > next.Seq || durable > next.Durable)) {
		next.Seq, next.Last = seq, last
		next.Durable = max(next.Durable, durable)
		next.Records = int64(s.Msgs) - int64(s.Last-seq)
		if len(last) > 0 {
			next.Time = last[len(last)-1].Time
		}
		rev, err := k.write(ctx, &next, k.rev)
		if err != nil {
			k.flagged = false // it may be written all the same
			return err
		}
		k.known, k.rev = &next, rev
		_, k.flagged = next.Removing[k.Name]
	}
	return file(k)
}

// durable returns the last sequence that is older than AO_NATS_SYNC. The caller holds mu.
func (k *Keeper) durable(seq uint64) (durable uint64) {
	if k.Sync == 0 {
		return seq
	}
	now := time.Now()
	if n := len(k.reached); n == 0 || k.reached[n-1].seq < seq {
		k.reached = append(k.reached, progress{now, seq})
	}
	for len(k.reached) > 0 && now.Sub(k.reached[0].at) > k.Sync {
		durable, k.reached = k.reached[0].seq, k.reached[1:]
	}
	return durable
}

func (k *Keeper) write(ctx context.Context, m *mark, rev uint64) (uint64, error) {
	m.Written = time.Now().UTC()
	raw, err := strictjson.Encode(m)
	if err != nil {
		return 0, err
	}
	if rev == 0 {
		return k.Bucket.Create(ctx, subject.MarkKey, raw)
	}
	return k.Bucket.Update(ctx, subject.MarkKey, raw, rev)
}

// file stores the mark in the data folder. The caller holds mu.
func file(k *Keeper) error {
	if k.Dir == "" || k.filed == k.rev || k.handled < k.known.Generation {
		return nil
	}
	raw, err := strictjson.Encode(k.known)
	if err == nil {
		err = writeFile(k.Dir, raw)
	}
	if err != nil {
		k.Log.Warn("the high-water mark was not stored in the data folder", "err", err)
		return nil
	}
	k.filed = k.rev
	return nil
}

// Removing calls remove, which removes records from RUNS, after the mark says so.
func (k *Keeper) Removing(ctx context.Context, remove func() error) error {
	err := k.locked(ctx, func() error {
		err := k.flag(ctx)
		if err == nil {
			k.removals++
		}
		return err
	})
	if err != nil {
		return err
	}
	err = remove()
	_ = k.locked(context.WithoutCancel(ctx), func() error {
		k.removals--
		if err != nil {
			k.unsure = time.Now()
		}
		return nil
	})
	return err
}

// unsureFor is how long NATS may take for a removal that it has not answered.
const unsureFor = time.Minute

// flag makes the mark say that this process removes records. The caller holds mu.
func (k *Keeper) flag(ctx context.Context) error {
	for !k.flagged {
		m, rev, err := current(ctx, k)
		if err != nil {
			return err
		}
		if m == nil || !settled(k) { // what is missing must not seem to have been removed
			return errHeld("the history has not been compared with its high-water mark yet")
		}
		next := m.withRemoval(k.Name, time.Now().UTC())
		rev, err = k.write(ctx, next, rev)
		if errors.Is(err, stream.ErrTaken) {
			continue
		}
		if err != nil {
			return err
		}
		k.known, k.rev, k.flagged = next, rev, true
	}
	return nil
}

func errHeld(why string) error { return fault.New(fault.Unavailable, "", why).After(time.Second) }
