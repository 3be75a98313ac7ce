package highwater

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
)

// deployment is a stream with its projection, which has read all, and a bucket.
type deployment struct {
	*history
	clustered  bool
	reconnects uint64
	mark       []byte
	rev        uint64
	rereads    uint64
	noAnswer   bool // answers to writes are lost
	rotten     bool // the mark cannot be read
	restored   string
}

func (d *deployment) Clustered() bool    { return d.clustered }
func (d *deployment) Reconnects() uint64 { return d.reconnects }
func (d *deployment) Connected() bool    { return true }
func (d *deployment) Confirmed() bool    { return true }
func (d *deployment) Seq() uint64        { return d.last }
func (d *deployment) Reread()            { d.rereads++ }
func (d *deployment) Rebuilds() uint64   { return d.rereads }

func (d *deployment) LastFingerprints() []stream.Fingerprint {
	p, _ := stream.FingerprintOf(d.all[d.last], nil)
	return []stream.Fingerprint{p}
}

// bucket is the bucket of a deployment.
type bucket struct{ *deployment }

func (b bucket) Get(_ context.Context, key string) (body []byte, rev uint64, err error) {
	if key == subject.RestoredKey {
		return []byte(b.restored), 1, nil
	}
	if b.rev == 0 || b.rotten {
		return nil, 0, stream.ErrNotFound
	}
	return b.mark, b.rev, nil
}

func (b bucket) Create(ctx context.Context, key string, body []byte) (rev uint64, err error) {
	return b.Update(ctx, key, body, 0)
}

func (b bucket) Update(_ context.Context, _ string, body []byte, rev uint64) (next uint64, err error) {
	if rev != b.rev {
		return 0, stream.ErrTaken
	}
	b.mark, b.rev = body, rev+1
	if b.noAnswer {
		return 0, context.DeadlineExceeded
	}
	return b.rev, nil
}

func (b bucket) Rescue(context.Context) (bool, error) {
	removed := b.rotten
	if removed {
		b.mark, b.rev, b.deployment.rotten = nil, 0, false
	}
	return removed, nil
}

// TestSuspectedLoss: a cluster believes a loss once it was seen for 30 s, a single server at once. A former leader that
// has caught up before has lost nothing. Nothing starts while a loss is suspected.
func TestSuspectedLoss(t *testing.T) {
	for _, tt := range []struct {
		name      string
		clustered bool
		lost      time.Duration // then the records are back
		after     time.Duration // when the damages are counted
		damages   int
	}{
		{"a single server, at once", false, time.Hour, 2 * time.Second, 1},
		{"a cluster, not yet", true, time.Hour, 29 * time.Second, 0},
		{"a cluster, after 30 s", true, time.Hour, 31 * time.Second, 1},
		{"a former leader comes back", true, 28 * time.Second, time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole, short := newHistory(20), newHistory(15)
				d := &deployment{history: whole, clustered: tt.clustered}
				k := New(Config{Stream: d, Bucket: bucket{d}, History: d, Name: "one",
					Log: slog.New(slog.DiscardHandler)})
				pass := func(length time.Duration) {
					for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(raiseEvery / 10) {
						if err := k.Reconcile(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				pass(3 * time.Second)
				if err := k.Held(); err != nil {
					t.Fatalf("in order, and starts are held: %v", err)
				}
				d.history, d.reconnects = short, 1
				pass(min(tt.lost, tt.after))
				if k.Held() == nil {
					t.Error("records are missing, and starts are not held")
				}
				d.history = whole
				pass(tt.after - min(tt.lost, tt.after))
				if got := len(k.Damages()); got != tt.damages || d.rereads != uint64(tt.damages) {
					t.Errorf("%d damages, the history was read again %d times; want %d", got, d.rereads, tt.damages)
				}
			})
		})
	}
}

// TestARemovalWaitsForTheComparison: NATS lost records while it was away. A removal right after that must wait: while
// records are removed nobody counts them.
func TestARemovalWaitsForTheComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deployment{history: newHistory(20)}
		k := New(Config{Stream: d, Bucket: bucket{d}, History: d, Name: "one", Log: slog.New(slog.DiscardHandler)})
		if err := k.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.history, d.reconnects = newHistory(15), 1
		removed := false
		err := k.Removing(t.Context(), func() error { removed = true; return nil })
		if removed || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("removed %v before the history was compared, and got %v", removed, err)
		}
	})
}

// TestEachRemovalIsAnnounced, also after NATS's answer was lost to the write that said that the one before is over.
func TestEachRemovalIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deployment{history: newHistory(20)}
		k := New(Config{Stream: d, Bucket: bucket{d}, History: d, Name: "one", Log: slog.New(slog.DiscardHandler)})
		pass := func() {
			for range 30 {
				_ = k.Reconcile(t.Context())
				time.Sleep(raiseEvery / 10)
			}
		}
		pass()
		for n := range 4 {
			if err := k.Removing(t.Context(), func() error {
				if !strings.Contains(string(d.mark), `"removing":{"one":`) {
					t.Errorf("removal %d is not announced: %s", n+1, d.mark)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(unsureFor)
			d.noAnswer = true
			_ = k.Reconcile(t.Context())
			d.noAnswer = false
			if n%2 == 0 { // else the next removal comes before the mark is read again
				pass()
			}
		}
	})
}

// TestAnUnreadableMark: a coordinator whose data folder has an older mark does not take what was removed since for a
// loss.
func TestAnUnreadableMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dir := &deployment{history: newHistory(20)}, t.TempDir()
		start := func(dir string) *Keeper {
			k := New(Config{Stream: d, Bucket: bucket{d}, History: d, Name: "of " + dir, Dir: dir,
				Log: slog.New(slog.DiscardHandler)})
			for range 30 {
				if err := k.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(raiseEvery / 10)
			}
			return k
		}
		start(dir)
		other := start(t.TempDir())
		if err := other.Removing(t.Context(), func() error { delete(d.all, 3); return nil }); err != nil {
			t.Fatal(err)
		}
		d.rotten = true
		k := start(dir)
		if n := len(k.Damages()); n != 0 || k.Held() != nil || d.rev == 0 || d.rotten {
			t.Errorf("%d damages, %v, the mark has revision %d", n, k.Held(), d.rev)
		}
	})
}

// TestDamageOfAnotherCoordinator: a coordinator that is about to change the mark finds that another one has recorded a
// damage. It has RUNS read again first: it removes nothing, and does not resolve what it has not read.
func TestDamageOfAnotherCoordinator(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, k *Keeper) error{
		"a removal": func(ctx context.Context, k *Keeper) error {
			return k.Removing(ctx, func() error { t.Error("it removed records"); return nil })
		},
		"its runs are known": func(ctx context.Context, k *Keeper) error { return k.Resolve(ctx, nil, nil) },
		"it is accepted":     func(ctx context.Context, k *Keeper) error { _, err := k.Accept(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, mine := &deployment{history: newHistory(20)}, &deployment{history: newHistory(20)}
				log := slog.New(slog.DiscardHandler)
				one := New(Config{Stream: shared, Bucket: bucket{shared}, History: shared, Name: "one", Log: log})
				two := New(Config{Stream: mine, Bucket: bucket{shared}, History: mine, Name: "two", Log: log})
				for _, k := range []*Keeper{one, two} {
					if err := k.Reconcile(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := one.Verify(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
				if err := change(t.Context(), two); fault.KindOf(err) != fault.Unavailable || mine.rereads != 1 {
					t.Errorf("got %v, and the history was read again %d times", err, mine.rereads)
				}
				if two.Held() == nil || !two.Unhandled() {
					t.Error("it starts runs, and looks for none that are affected")
				}
			})
		})
	}
}

// TestADamageFoundDuringAStart: a coordinator that has just started, and has read RUNS before the loss, learns of it
// from the first mark that it compares. It reads RUNS again.
func TestADamageFoundDuringAStart(t *testing.T) {
	for name, resolved := range map[string]bool{"its runs are not known yet": false, "its runs are known": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := &deployment{history: newHistory(20), clustered: true}
				mine := &deployment{history: shared.history, clustered: true}
				log := slog.New(slog.DiscardHandler)
				one := New(Config{Stream: shared, Bucket: bucket{shared}, History: shared, Name: "one", Log: log})
				if err := one.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				shared.history, shared.reconnects, mine.history = newHistory(15), 1, newHistory(15)
				two := New(Config{Stream: mine, Bucket: bucket{shared}, History: mine, Name: "two", Log: log})
				for second := range 40 {
					for _, k := range []*Keeper{two, one}[max(0, 1-second/3):] { // one knows first
						if err := k.Reconcile(t.Context()); err != nil {
							t.Fatal(err)
						}
						if resolved && len(one.Damages()) > 0 {
							if err := one.Resolve(t.Context(), nil, nil); err != nil {
								t.Fatal(err)
							}
						}
					}
					time.Sleep(time.Second)
				}
				if len(two.Damages()) != 1 || mine.rereads != 1 {
					t.Errorf("it knows %d damages, and has read RUNS again %d times", len(two.Damages()), mine.rereads)
				}
			})
		})
	}
}

// TestLostRuns: what is lost may have followed a record that no mark had. Then the events of the run decide, and not
// that a damage names fewer runs than it affects.
func TestLostRuns(t *testing.T) {
	k := New(Config{})
	k.shown.Store(&view{damages: []Damage{{Reached: 382, Lost: 2, Runs: []Run{{ID: "named"}}}}})
	for _, tt := range []struct {
		id                string
		after             uint64
		possible, claimed bool
	}{
		{"named", 381, true, true},
		{"named", 385, true, true},
		{"another", 381, true, true},
		{"another", 385, true, false},
	} {
		if possible, claimed := k.Lost(tt.id, tt.after); possible != tt.possible || claimed != tt.claimed {
			t.Errorf("%s after %d: %v %v", tt.id, tt.after, possible, claimed)
		}
	}
	k.shown.Store(&view{})
	if possible, claimed := k.Lost("named", 1); possible || claimed {
		t.Error("nothing is damaged, and a run may be lost")
	}
}

// TestADamageBeforeItsRunsAreKnown: another damage is found before the runs of the first one are known. They are known
// together.
func TestADamageBeforeItsRunsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deployment{history: newHistory(20)}
		k := New(Config{Stream: d, Bucket: bucket{d}, History: d, Name: "one", Log: slog.New(slog.DiscardHandler)})
		for _, left := range []uint64{20, 15, 10} {
			d.history, d.reconnects = newHistory(left), d.reconnects+1
			for range 30 {
				if err := k.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(raiseEvery / 10)
			}
		}
		if err := k.Resolve(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		if len(k.Damages()) != 2 {
			t.Fatalf("%d damages, want 2", len(k.Damages()))
		}
		for _, one := range k.Damages() {
			if one.ResolvedAt == nil {
				t.Errorf("not resolved: %s", one.Message)
			}
		}
	})
}

// TestWhatIsNotTruncated: a single server that cannot read a record loses more than is truncated, also when there is
// another damage.
func TestWhatIsNotTruncated(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := &deployment{history: newHistory(20), clustered: clustered}
			k := New(Config{Stream: d, Bucket: bucket{d}, History: d, Name: "one", Log: slog.New(slog.DiscardHandler)})
			verify := func(unreadable uint64, damages int) {
				t.Helper()
				all, err := k.Verify(t.Context(), unreadable)
				if err != nil || len(all) != damages {
					t.Fatalf("got %+v, %v, want %d damages", all, err, damages)
				}
				if refused := Truncatable(k) != nil; refused != (damages > 0 && !clustered) {
					t.Errorf("clustered %v, %d damages: truncation is held: %v", clustered, damages, refused)
				}
			}
			verify(0, 0)
			verify(1, 1)
			if err := k.Reconcile(t.Context()); err != nil { // the mark is raised
				t.Fatal(err)
			}
			d.history, d.reconnects = newHistory(10), 1
			verify(1, 2)
		})
	}
}
