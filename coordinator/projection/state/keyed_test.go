package state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// allowing has an attempt allow records up to a version.
func allowing(version int, e entry) entry {
	e.Body = []byte(strings.Replace(string(e.Body), `"v":1`, fmt.Sprintf(`"v":1,"record_version":%d`, version), 1))
	return e
}

// A record of a kind that workers write counts for nothing without the current attempt's key, whatever it holds. With
// the key, a record above the attempt's version is a failed end. If the attempt allows a record's version and this
// program does not know it, the program is not ready.
func TestVersionsOfWorkersRecords(t *testing.T) {
	const none = run.Status("")
	for _, tt := range []struct {
		name    string
		records func(a *actor) []entry
		version int // of the program
		newer   bool
		want    run.Status
	}{
		{"no run at all", func(a *actor) []entry {
			return []entry{inVersion(99, a.Ended(1, run.Completed, 0)), inVersion(2, a.Claimed(1))}
		}, 1, false, none},
		{"another attempt's key", func(a *actor) []entry {
			return []entry{a.Queued(1), inVersion(99, a.Claimed(2)), inVersion(99, a.Ended(2, run.Completed, 0))}
		}, 1, false, run.Pending},
		{"after the end", func(a *actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 0), inVersion(99, a.Bound(1, "m"))}
		}, 1, false, run.Completed},
		{"a claim", func(a *actor) []entry {
			return []entry{a.Queued(1), inVersion(2, a.Claimed(1))}
		}, 1, false, run.Failed},
		{"a claim, and then its end", func(a *actor) []entry {
			return []entry{a.Queued(1), inVersion(2, a.Claimed(1)), inVersion(2, a.Ended(1, run.Completed, 0))}
		}, 1, false, run.Failed},
		{"a binding", func(a *actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Bound(1, "m"))}
		}, 1,
			false, run.Failed},
		{"an offer", func(a *actor) []entry {
			a.Contract()
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Offered(1))}
		}, 1, false, run.Failed},
		{"an end", func(a *actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Ended(1, run.Completed, 0))}
		}, 1, false, run.Failed},
		{"an end, for a newer program", func(a *actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Ended(1, run.Completed, 0))}
		}, 2, false, run.Failed},
		{"an end that is allowed", func(a *actor) []entry {
			return []entry{allowing(2, a.Queued(1)), inVersion(2, a.Claimed(1)),
				inVersion(2, a.Ended(1, run.Completed, 0))}
		}, 2, false, run.Completed},
		{"one above that", func(a *actor) []entry {
			return []entry{allowing(2, a.Queued(1)), inVersion(2, a.Claimed(1)),
				inVersion(3, a.Ended(1, run.Completed, 0))}
		}, 2, false, run.Failed},
		{"one that is allowed, and not known", func(a *actor) []entry {
			return []entry{allowing(2, a.Queued(1)), inVersion(2, a.Claimed(1))}
		}, 1, true, run.Pending},
		{"a run never queued", func(a *actor) []entry {
			return []entry{a.Accepted(), inVersion(2, a.Claimed(1))}
		}, 2, false,
			run.Failed},
		{"queued twice, with two bounds", func(a *actor) []entry {
			moved := a.Queued(1)
			moved.Subject = subject.Queued(a.Part, "procedural.p._", a.Spec.ID, 1)
			return []entry{allowing(2, a.Queued(1)), moved, inVersion(2, a.Claimed(1)),
				inVersion(2, a.Ended(1, run.Completed, 0))}
		}, 2, false, run.Completed},
		{"another attempt is left", func(a *actor) []entry {
			a.Spec.Attempts = 2
			return []entry{allowing(2, a.Queued(1)), a.Claimed(1), inVersion(3, a.Ended(1, run.Completed, 0)),
				inVersion(3, a.Ended(1, run.Failed, 0)), a.Queued(2), a.Claimed(2)}
		}, 2, false, run.Claimed},
		{"which is bound anew", func(a *actor) []entry {
			a.Spec.Attempts = 2
			return []entry{allowing(2, a.Queued(1)), a.Claimed(1), a.Ended(1, run.Failed, 0), a.Queued(2),
				inVersion(2, a.Claimed(2))}
		}, 2, false, run.Failed},
		{"an end behind an unreadable record, attempts left", func(a *actor) []entry {
			a.Spec.Attempts = 3
			end := a.Ended(1, run.Failed, 0)
			end.Subject = subject.Ended(a.Part, a.Spec.ID, a.Key(run.NoAttempt))
			return []entry{a.Queued(1), a.Claimed(1), end}
		}, 1, false, run.Failed},
		{"of an unclaimed run", func(a *actor) []entry {
			end := a.Ended(1, run.Failed, 0)
			end.Subject = subject.Ended(a.Part, a.Spec.ID, a.Key(run.NoAttempt))
			return []entry{a.Queued(1), end, a.Claimed(1)}
		}, 1, false, run.Failed},
		{"an end behind an unreadable record of the attempt before", func(a *actor) []entry {
			a.Spec.Attempts = 3
			end := a.Ended(1, run.Failed, 0)
			end.Subject = subject.Ended(a.Part, a.Spec.ID, a.Key(run.NoAttempt))
			return []entry{a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0), a.Queued(2), a.Claimed(2), end}
		}, 1, false, run.Claimed},
		{"a coordinator's", func(a *actor) []entry {
			return []entry{a.Queued(1), a.Claimed(1), inVersion(2, a.Stopping())}
		},
			1, true, run.Stopping},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newActor(t, run.NewID(), run.NewSessionID(), "x")
			f := blank()
			f.version = tt.version
			for i, e := range tt.records(&a) {
				f.Apply(message(i+1, e))
				agree(t, f)
			}
			got := none
			if r := f.runs[IdentOf(RunPrefix, a.Spec.ID)]; r != nil {
				got = r.base()
			}
			if got != tt.want || (f.newer != 0) != tt.newer {
				t.Errorf("the run is %q, newer is record %d, want %q, %t", got, f.newer, tt.want, tt.newer)
			}
		})
	}
}

// versioned gives some records of histories other versions, and some attempts other bounds, up to most.
func versioned(rng *rand.Rand, records []entry, most int) []entry {
	for i, e := range records {
		switch rec, _ := subject.Parse(e.Subject); {
		case rec.Kind == subject.QueuedKind && rng.IntN(2) == 0 && most > 1:
			records[i] = allowing(most, e)
		case rec.Kind.Keyed() && rng.IntN(6) == 0:
			records[i] = inVersion(1+rng.IntN(3), e)
		}
	}
	return records
}

// Programs of different versions project all records alike, and so does one that starts from a checkpoint. Workers may
// write anything, as long as coordinators write only what all programs read.
func TestProgramsOfDifferentVersionsAgree(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 77))
		records := versioned(rng, interleave(rng, recordsOf(scenarios(t, rng, 1+rng.IntN(3)))), 1)
		older, newer := blank(), blank()
		newer.version = 2
		cut := rng.IntN(len(records))
		for i, e := range records {
			older.Apply(message(i+1, e))
			newer.Apply(message(i+1, e))
			if i == cut {
				f, err := load(snap(t, over(newer), func() {}), keyOf)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := whole(f), whole(newer); got != want {
					t.Fatalf("seed %d: after a snapshot\n%s", seed, differ(got, want))
				}
				f.checked, f.version = marked, 2
				newer = f
			}
		}
		agree(t, older)
		if older.newer != 0 || newer.newer != 0 {
			t.Fatalf("seed %d: records %d and %d count as a newer version's", seed, older.newer, newer.newer)
		}
		if got, want := whole(newer), whole(older); got != want {
			t.Fatalf("seed %d: the newer one\n%s", seed, differ(got, want))
		}
	}
}

// A checkpoint has the record versions that active attempts allow.
func TestCheckpointHasVersionBounds(t *testing.T) {
	for seed := range uint64(natstest.Load(30, 100)) {
		rng := rand.New(rand.NewPCG(seed, 78))
		records := versioned(rng, interleave(rng, recordsOf(scenarios(t, rng, 1+rng.IntN(3)))), 2)
		f := blank()
		f.version = 2
		for i, e := range records {
			f.Apply(message(i+1, e))
			if rng.IntN(10) > 0 {
				continue
			}
			g, err := load(snap(t, over(f), func() {}), keyOf)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := whole(g), whole(f); got != want {
				t.Fatalf("seed %d: record %d\n%s", seed, i+1, differ(got, want))
			}
			g.checked, g.version = marked, 2
			f = g
		}
		agree(t, f)
		if f.newer != 0 {
			t.Fatalf("seed %d: record %d counts as a newer version's", seed, f.newer)
		}
	}
}
