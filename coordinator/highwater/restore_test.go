package highwater

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"ao/nats/stream"
	"ao/shared/clock"
)

// begin starts a keeper that has compared RUNS with the mark.
func begin(t *testing.T, d *deployment, mark bucket, h projected, dir string) *Keeper {
	t.Helper()
	k := New(Config{Stream: d, Bucket: mark, History: h, Name: "of " + dir, Dir: dir,
		Log: slog.New(slog.DiscardHandler)})
	if err := k.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

// projected is the History of a Config.
type projected interface {
	Confirmed() bool
	Seq() uint64
	LastFingerprints() []stream.Fingerprint
	Reread()
	Rebuilds() uint64
}

// damaged records a damage, and resolves it.
func damaged(t *testing.T, k *Keeper, unreadable uint64) {
	t.Helper()
	if _, err := k.Verify(t.Context(), unreadable); err != nil {
		t.Fatal(err)
	}
	if err := k.Resolve(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}

// restoredFrom returns a deployment into which a backup with this mark was restored.
func restoredFrom(mark []byte) *deployment {
	d := &deployment{history: newHistory(20), mark: mark, rev: 7}
	d.created = time.Unix(2, 0)
	d.restored = incarnation(stream.State{Created: d.created})
	return d
}

// keep calls Reconcile for a time.
func keep(t *testing.T, k *Keeper, limit time.Duration) {
	t.Helper()
	for range limit / (raiseEvery / 10) {
		if err := k.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Sleep(t.Context(), raiseEvery/10)
	}
}

// TestARestoreBringsItsDamages: a restored stream has the damages of the backup. Those that a data folder knows are of
// the stream before, and a new one is noticed all the same. What could not be read is not in the stream.
func TestARestoreBringsItsDamages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		old := &deployment{history: newHistory(20)}
		k := begin(t, old, bucket{old}, old, dir)
		damaged(t, k, 1)
		if _, err := k.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		backup := old.mark
		damaged(t, k, 2)
		keep(t, k, time.Minute) // stores the mark in its data folder
		begin(t, old, bucket{old}, old, other)

		restored := restoredFrom(backup)
		k = begin(t, restored, bucket{restored}, restored, dir)
		if all := k.Damages(); len(all) != 1 || all[0].AcceptedAt == nil || k.Held() != nil || Truncatable(k) != nil {
			t.Fatalf("after the restore: damages %+v, held %v, truncatable %v", all, k.Held(), Truncatable(k))
		}
		second, third := &deployment{history: restored.history}, &deployment{history: restored.history}
		late := begin(t, second, bucket{restored}, second, other)
		damaged(t, begin(t, third, bucket{restored}, third, ""), 3)
		for name, k := range map[string]*Keeper{"the first": k, "the second": late} {
			if err := k.Removing(t.Context(), func() error { return nil }); err == nil {
				t.Errorf("%s removes records after another damage", name)
			}
		}
		if restored.rereads != 1 || second.rereads != 1 {
			t.Errorf("RUNS was read again %d and %d times, want once each", restored.rereads, second.rereads)
		}
	})
}

// slow is a deployment whose history takes two seconds to be read again.
type slow struct {
	*deployment
	confirmed time.Time
}

func (s *slow) Reread()         { s.rereads, s.confirmed = s.rereads+1, time.Now().Add(2*time.Second) }
func (s *slow) Confirmed() bool { return !time.Now().Before(s.confirmed) }

// TestARestoredDamageIsReadOnce: a backup with a damage whose runs are not known has RUNS read again once. A removal
// right after the restore is no damage.
func TestARestoredDamageIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &deployment{history: newHistory(20)}
		if _, err := begin(t, old, bucket{old}, old, "").Verify(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		restored := restoredFrom(old.mark)
		h := &slow{deployment: restored}
		k := begin(t, restored, bucket{restored}, h, "")
		keep(t, k, 5*time.Second)
		if restored.rereads != 1 || !k.Unhandled() {
			t.Fatalf("RUNS was read again %d times, want once; its runs are looked for: %v", restored.rereads,
				k.Unhandled())
		}
		if err := k.Resolve(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}

		restored = restoredFrom(restored.mark)
		restored.created = time.Unix(3, 0)
		restored.restored = incarnation(stream.State{Created: restored.created})
		k = begin(t, restored, bucket{restored}, &slow{restored, time.Now().Add(3 * time.Second)}, "")
		err := k.Removing(t.Context(), func() error {
			delete(restored.all, 3)
			keep(t, k, 5*time.Second)
			delete(restored.all, 4)
			keep(t, k, 5*time.Second)
			return nil
		})
		if n := len(k.Damages()); err != nil || n != 1 {
			t.Errorf("after a removal: %v, %d damages, want the one of the backup", err, n)
		}
	})
}

// TestARestoreUnderALivingCoordinator: a coordinator that goes on, and is not the first to see the restored stream,
// notices the next damage.
func TestARestoreUnderALivingCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deployment{history: newHistory(20)}
		k := begin(t, d, bucket{d}, d, "")
		damaged(t, k, 1)
		keep(t, k, 2*time.Second)
		backup := d.mark
		damaged(t, k, 2)
		keep(t, k, 2*time.Second)

		restored := restoredFrom(backup)
		first := begin(t, restored, bucket{restored}, restored, "")
		k.Stream, k.Bucket = restored, bucket{restored}
		keep(t, k, 2*time.Second)
		before := d.rereads
		damaged(t, first, 3)
		keep(t, k, 20*time.Second)
		if n := d.rereads - before; n != 1 || len(k.Damages()) != 2 {
			t.Errorf("RUNS was read again %d times, want once; it knows %d damages, want 2", n, len(k.Damages()))
		}
	})
}
