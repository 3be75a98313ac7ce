package projection

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/run"
)

// whole is all that a fold holds, with sequences; what its next records make of it follows from that.
func whole(f *reducer) string {
	first := func(r *row) (seq uint64) {
		if r != nil && !r.evicted {
			seq = r.first
		}
		return seq
	}
	firsts := func(rows []*row) (all []uint64) {
		for _, r := range rows {
			if !r.evicted {
				all = append(all, r.first)
			}
		}
		return all
	}
	lines := append(
		standing(f),
		fmt.Sprint(
			"seq ",
			f.seq,
			" counts ",
			f.waiting,
			f.claimed,
			f.ended,
			len(f.runs),
			len(f.sessions),
			" newer ",
			f.newer,
			f.unknownKinds,
		),
	)
	for _, r := range f.order {
		if r.evicted {
			continue
		}
		o := *r
		o.session, o.next, o.turn, o.live = nil, nil, nil, nil
		o.text, o.failure = textRef{}, textRef{}
		var open blockCache
		lines = append(
			lines,
			fmt.Sprintf(
				"found by %d: %s %s repeats %v",
				r.first,
				open.text(&f.texts, r.text),
				open.text(&f.texts, r.failure),
				f.repeats.of[r],
			),
		)
		lines = append(
			lines,
			fmt.Sprintf(
				"row %+v session %d next %d by %d at %t",
				o,
				r.session.first,
				first(r.next),
				first(r.turn),
				f.runs[r.id] == r,
			),
		)
		if h := f.webhooks.of[r]; h != nil {
			lines = append(
				lines,
				fmt.Sprintf(
					"hook of %d: %d %d %d %d %s %s %t",
					r.first,
					h.n,
					h.tries,
					nanos(h.next),
					h.status,
					h.reason,
					h.host,
					h.to != nil,
				),
			)
		}
		if p := f.past[r]; len(p) > 0 {
			lines = append(lines, fmt.Sprintf("past of %d: %v", r.first, p))
		}
		if r.live == nil {
			continue
		}
		a := *r.live.snap
		lines = append(
			lines,
			fmt.Sprintf(
				"live %d: %s %s not before %d, tells %v, after %d before %d",
				r.first,
				must(json.Marshal(a.Spec)),
				must(json.Marshal(a.Claim)),
				nanos(a.NotBefore),
				firsts(r.live.children),
				first(r.live.prev),
				first(r.live.next),
			),
		)
		a.Spec, a.Claim, a.NotBefore, a.Started = nil, nil, began, nil
		lines = append(lines, fmt.Sprintf("live %d: %+v", r.first, a))
	}
	for _, s := range f.sorder {
		if s.runs == 0 {
			continue
		}
		o := *s
		o.firstRow, o.last, o.lastEnded, o.live, o.pending, o.due, o.bound = nil, nil, nil, nil, nil, false, nil
		o.place, o.placeBelow = 0, 0
		lines = append(
			lines,
			fmt.Sprintf(
				"session %+v %+v %d %d %d live %v owed %v owing %t at %t",
				o,
				s.binding(),
				first(s.firstRow),
				first(s.last),
				first(s.lastEnded),
				firsts(s.live),
				firsts(s.pending),
				f.pending[s] && len(firsts(s.pending)) > 0,
				f.sessions[s.id] == s,
			),
		)
	}
	for id, seq := range f.deleted {
		lines = append(lines, fmt.Sprint("deleted ", id, seq, f.trees.parents[id]))
	}
	for id, t := range f.trees.stopped {
		lines = append(lines, fmt.Sprint("tree ", id, t))
	}
	for r := range f.trees.stopping {
		lines = append(lines, fmt.Sprint("halting ", r.first))
	}
	for s, rows := range f.trees.suppressing {
		lines = append(lines, fmt.Sprint("suppressing ", s.first, firsts(rows)))
	}
	for id, p := range f.callbacks.reserved {
		lines = append(lines, fmt.Sprint("promised ", id, p.seq, p.session, firsts(p.children)))
	}
	for _, r := range f.callbacks.recent {
		lines = append(lines, fmt.Sprint("recent ", r.seq, r.at.UnixNano()))
	}
	for _, l := range f.late.all {
		lines = append(lines, fmt.Sprint("late ", l))
	}
	for n := f.fingerprinted - min(f.fingerprinted, maxFingerprints); n < f.fingerprinted; n++ {
		lines = append(lines, fmt.Sprint("print ", f.fingerprints[n%maxFingerprints]))
	}
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}

// snap writes a snapshot of a projection's fold, with a rest after each entry.
// over is a projection of a fold that was made by hand.
func over(f *reducer) *Journal {
	j := joined(nil, Config{})
	j.reducer = f
	return j
}

func snap(t testing.TB, j *Journal, rest func()) []byte {
	t.Helper()
	var all []byte
	w := checkpointWriter{
		p:     j.Projection,
		rest:  rest,
		flush: func(b []byte) error { all = append(all, b...); return nil },
	}
	seq, err := w.write("RUNS then")
	if err != nil {
		t.Fatal(err)
	}
	if seq != j.reducer.seq {
		t.Fatalf("it is of record %d, the fold has %d", seq, j.reducer.seq)
	}
	return sealed(all)
}

func sealed(raw []byte) []byte {
	return binary.LittleEndian.AppendUint32(slices.Clone(raw), crc32.Checksum(raw, castagnoli))
}

// A snapshot at any place, written while records come, and the rest of the records make what all records make; and
// nothing that waits is overlooked.
func TestASnapshotAndTheRestAreTheWhole(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 21))
		records := interleave(rng, recordsOf(families(t, rng, 1+rng.IntN(4))))
		n := rng.IntN(len(records))
		j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
		apply := func(f *reducer, i int) { f.apply(message(i+1, records[i])) }
		for i := range n {
			apply(j.reducer, i)
		}
		often := rng.IntN(4)
		raw := snap(t, j, func() {
			for range rng.IntN(1 + often) {
				if n < len(records) {
					apply(j.reducer, n)
					n++
				}
			}
		})
		f, err := load(raw, "RUNS then", keyOf)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := whole(f), whole(j.reducer); got != want {
			t.Fatalf("seed %d: after record %d\n%s", seed, n, differ(got, want))
		}
		other := over(f)
		f.checked = marked
		waiting, owing := 0, len(other.DueCallbacks())
		if got, want := len(other.NewResults()), len(j.UnverifiedResults()); got != want {
			t.Fatalf("seed %d: %d results are to be checked, want %d", seed, got, want)
		}
		for _, s := range f.sessions {
			if s.turn() != nil {
				waiting++
			}
		}
		if got := len(other.Eligible()); got != waiting {
			t.Fatalf("seed %d: %d turns may be queued, want %d", seed, got, waiting)
		}
		if got := len(other.NewCallbacks()); got != owing {
			t.Fatalf("seed %d: %d parents may be told, want %d", seed, got, owing)
		}
		if rng.IntN(3) == 0 {
			cut := j.Prunable(rng.IntN(20), began, began.Add(3600e9))
			j.Forget(cut)
			other.Forget(cut)
		}
		for i := n; i < len(records); i++ {
			apply(j.reducer, i)
			apply(f, i)
		}
		agree(t, f)
		kin(t, f)
		if got, want := whole(f), whole(j.reducer); got != want {
			t.Fatalf("seed %d: after the rest\n%s", seed, differ(got, want))
		}
	}
}

// History was truncated after a snapshot: who begins with that has in the end what the others have.
func TestASnapshotFromBeforeATruncation(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 24))
		records := tidy(rng, families(t, rng, 3))
		j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
		n := 1 + rng.IntN(len(records))
		for i, e := range records[:n] {
			j.reducer.apply(message(i+1, e))
		}
		f, err := load(snap(t, j, func() {}), "RUNS then", keyOf)
		if err != nil {
			t.Fatal(err)
		}
		f.checked = marked
		for i, e := range records[n:] {
			j.reducer.apply(message(n+i+1, e))
		}
		cut := min(j.Prunable(rng.IntN(10), began, began.Add(3600e9)), uint64(n+1))
		j.Forget(cut)
		anew := blank()
		for i, e := range records {
			f.apply(message(i+1, e))
			if i+1 >= int(cut) {
				anew.apply(message(i+1, e))
			}
		}
		f.forget(cut)
		if got, want := whole(f), whole(j.reducer); got != want {
			t.Fatalf("seed %d: cut %d, snapshot of %d\n%s", seed, cut, n, differ(got, want))
		}
		if got, want := draw(f), draw(anew); got != want {
			t.Fatalf("seed %d: who began with the rest\n%s", seed, differ(got, want))
		}
	}
}

// Hundreds of sessions go while a snapshot is written: so many that the fold would tidy its lists.
func TestSessionsThatAreDeletedMeanwhileAreNotInASnapshot(t *testing.T) {
	j := joined(nil, Config{})
	records := plain(t, 300)
	for _, m := range records {
		j.reducer.apply(m)
	}
	n := 0
	raw := snap(t, j, func() {
		if s := j.reducer.sorder[n]; n < 280 {
			n++
			j.reducer.apply(
				message(len(records)+n, entry{Subject: subject.Deleted("1", s.sessionID()), Body: []byte(`{"v":1}`)}),
			)
		}
	})
	f, err := load(raw, "RUNS then", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := whole(f), whole(j.reducer); got != want || len(f.runs) != 20 {
		t.Errorf("%d runs are left\n%s", len(f.runs), differ(got, want))
	}
}

func TestASnapshotIsGivenUpWhenHistoryIsTruncated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 22))
	j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
	for i, e := range newFamily(t, rng, 100).records {
		j.reducer.apply(message(i+1, e))
	}
	w := checkpointWriter{p: j.Projection, rest: func() { j.Forget(2) }, flush: func([]byte) error { return nil }}
	if _, err := w.write("x"); err != errInterrupted {
		t.Errorf("got %v", err)
	}
	j.reset()
	if j.reducer.dirty != nil {
		t.Error("it is still being written")
	}
}

func TestADamagedSnapshotIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 23))
	j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
	for i, e := range interleave(rng, recordsOf(families(t, rng, 2))) {
		j.reducer.apply(message(i+1, e))
	}
	raw := snap(t, j, func() {})
	if _, err := load(raw, "RUNS then", keyOf); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		if i%natstest.Load(5, 1) != 0 && i > 64 {
			continue
		}
		for _, flip := range []byte{1, 0x80, byte(1 + rng.IntN(255))} {
			bad := slices.Clone(raw)
			bad[i] ^= flip
			if _, err := load(bad, "RUNS then", keyOf); err == nil {
				t.Fatalf("byte %d of %d is another one, and it is taken", i, len(raw))
			}
			load(sealed(bad[:len(bad)-4]), "RUNS then", keyOf) // whoever makes a checksum for it gets no panic
		}
		if _, err := load(raw[:i], "RUNS then", keyOf); err == nil {
			t.Fatalf("the first %d bytes of %d are taken", i, len(raw))
		}
		load(sealed(raw[:i]), "RUNS then", keyOf)
	}
	for _, tt := range []struct {
		name, want string
		raw        []byte
		identity   string
	}{
		{"another stream's", "another stream", raw, "RUNS now"},
		{"of another version", "version", slices.Concat(raw[:len(snapshotMagic)], []byte{snapshotVersion + 1},
			raw[len(snapshotMagic)+1:]), "RUNS then"},
		{"with something behind it", "damaged", sealed(append(slices.Clone(raw[:len(raw)-4]), 0)), "RUNS then"},
		{"empty", "damaged", nil, "RUNS then"},
	} {
		if _, err := load(tt.raw, tt.identity, keyOf); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a snapshot %s: %v", tt.name, err)
		}
	}
}

// Whoever adds a field to these must think of the snapshot: is it written, or made again? Then it is added here, and
// snapshotVersion raised.
func TestSnapshotsKnowEveryField(t *testing.T) {
	for _, tt := range []struct {
		of             any
		written, other string
	}{
		{row{}, "id session agent runner parent dir first full claim end events created claimed started ended turn " +
			"timeout attempt deliveries status mode depth webhook callback reported claimedByRunner versionExceeded " +
			"evicted eventsUnknown suppressed resume text failure proven live", "next"},
		{live{}, "snap children", "prev next fresh in before behind since"},
		{Active{}, "Spec QueuedSeq ClaimSeq UnverifiedSeq CarriedEndSeq Queue Attempt Key Claim RecordVersion " +
			"Stopping TreeStop NotBefore", "Status FirstSeq Started"},
		{session{}, "id agent agentType parent dir first modified lastEnded pending bound misses",
			"firstRow last live open runs place placeBelow due"},
		{binding{}, "model host profile", ""},
		{webhook{}, "n tries next status reason host", "row to place"},
		{past{}, "queued claimedByRunner", ""},
		{LateRecord{}, "Seq Subject first", ""},
		{reservation{}, "seq session children", ""},
		{stream.Fingerprint{}, "Seq Time Sum", ""},
		{reducer{}, "fingerprints fingerprinted",
			"tables scan waitlists webhooks late trees callbacks key checked results newer unknownKinds stats scratch"},
		{tables{}, "order sorder past deleted seq texts repeats", "changes version runs sessions evictedRuns " +
			"evictedSessions head tail fresh pending dirty waiting claimed ended"},
		{scanner{}, "", "names"},
		{waitlists{}, "", "queues unqueued claimed"},
		{webhooks{}, "of", "tables scan hosts"},
		{lateRecords{}, "all", ""},
		{trees{}, "stopped suppressing parents", "tables below children stopping changed"},
		{callbacks{}, "recent reserved", "tables trees due"},
		{run.Claim{}, "V SessionID RunnerID Instance Nonce Attempt At SignsEvents", "Next"},
		{run.Spec{}, "ID Type SessionID Agent AgentType Mode Parent Depth ProjectDir Demands Owner Timeout TimeoutBy " +
			"Attempts CallbackURL ExecutorSessionID PreviousRunID HasOutputSchema Caller IsCallbackTurn CreatedAt " +
			"Trace RetryOf Requested Body Input", ""},
	} {
		var fields []string
		for f := range reflect.TypeOf(tt.of).Fields() {
			fields = append(fields, f.Name)
		}
		want := slices.Concat(strings.Fields(tt.written), strings.Fields(tt.other))
		slices.Sort(fields)
		slices.Sort(want)
		if !slices.Equal(fields, want) {
			t.Errorf(
				"%T has the fields\n%s\nthe snapshot knows\n%s",
				tt.of,
				strings.Join(fields, " "),
				strings.Join(want, " "),
			)
		}
	}
}
