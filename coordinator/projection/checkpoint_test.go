package projection

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
)

// whole is all that a reducer holds, with sequences; what its next records make of it follows from that.
func whole(f *reducer) string {
	first := func(r *row) (seq uint64) {
		if r != nil && !r.Evicted {
			seq = r.First
		}
		return seq
	}
	firsts := func(rows []*row) (all []uint64) {
		for _, r := range rows {
			if !r.Evicted {
				all = append(all, r.First)
			}
		}
		return all
	}
	lines := append(
		waitlistRows(f),
		fmt.Sprint("seq ", f.seq, " counts ", f.waiting, f.claimed, f.ended, len(f.runs), len(f.sessions), " newer ",
			f.newer, f.unknownKinds),
	)
	for _, r := range f.order {
		if r.Evicted {
			continue
		}
		o := *r
		o.session, o.next, o.turn, o.live = nil, nil, nil, nil
		o.Text, o.Failure = textRef{}, textRef{}
		o.Bytes, o.Records = 0, 0 // of truncated records, too
		var open blockCache
		lines = append(
			lines,
			fmt.Sprintf("found by %d: %s %s repeats %v", r.First, open.text(&f.texts, r.Text),
				open.text(&f.texts, r.Failure), f.retryOf[r]),
		)
		lines = append(
			lines,
			fmt.Sprintf("row %+v session %d next %d by %d at %t", o, r.session.First, first(r.next), first(r.turn),
				f.runs[r.Ident] == r),
		)
		if h := f.webhooks.of[r]; h != nil {
			lines = append(
				lines,
				fmt.Sprintf("hook of %d: %d %d %d %d %s %s %t", r.First, h.N, h.Tries, nanos(h.Next), h.Status,
					h.Reason, h.Host, h.to != nil),
			)
		}
		if p := f.past[r]; len(p) > 0 {
			lines = append(lines, fmt.Sprintf("past of %d: %v", r.First, p))
		}
		if r.live == nil {
			continue
		}
		a := *r.live.snap
		lines = append(
			lines,
			fmt.Sprintf("live %d: %s %s not before %d, tells %v, after %d before %d", r.First,
				must(json.Marshal(a.Spec)), must(json.Marshal(a.Claim)), nanos(a.NotBefore), firsts(r.live.children),
				first(r.live.prev), first(r.live.next)),
		)
		a.Spec, a.Claim, a.NotBefore, a.Started = nil, nil, began, nil
		lines = append(lines, fmt.Sprintf("live %d: %+v", r.First, a))
	}
	for _, s := range f.sorder {
		if s.runs == 0 {
			continue
		}
		o := *s
		o.firstRow, o.last, o.lastEnded, o.live, o.pending, o.due, o.Bound = nil, nil, nil, nil, nil, false, nil
		o.place, o.placeBelow, o.tree = 0, 0, nil
		lines = append(
			lines,
			fmt.Sprintf("session %+v %+v %d %d %d live %v owed %v owing %t at %t", o, s.binding(), first(s.firstRow),
				first(s.last), first(s.lastEnded), firsts(s.live), firsts(s.pending),
				f.pending[s] && len(firsts(s.pending)) > 0, f.sessions[s.Ident] == s),
		)
	}
	for id, seq := range f.deleted {
		lines = append(lines, fmt.Sprint("deleted ", id, seq, f.trees.parents[id]))
	}
	for id, t := range f.trees.stopped {
		lines = append(lines, fmt.Sprint("tree ", id, t))
	}
	for r := range f.trees.stopping {
		lines = append(lines, fmt.Sprint("halting ", r.First))
	}
	for s, rows := range f.trees.suppressing {
		lines = append(lines, fmt.Sprint("suppressing ", s.First, firsts(rows)))
	}
	for id, p := range f.callbacks.reserved {
		lines = append(lines, fmt.Sprint("promised ", id, p.seq, p.session, firsts(p.children)))
	}
	for _, r := range f.callbacks.recent {
		lines = append(lines, fmt.Sprint("recent ", r.Seq, r.At.UnixNano()))
	}
	for _, l := range f.late.all {
		lines = append(lines, fmt.Sprint("late ", l))
	}
	for _, p := range f.lastRead.Last() {
		lines = append(lines, fmt.Sprint("print ", p))
	}
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}

// over is a projection of a reducer that was made by hand.
func over(f *reducer) *allParts {
	j := joined(nil, Config{})
	j.reducer = f
	return j
}

// snap writes a checkpoint of a projection, with a rest after each entry.
func snap(t testing.TB, j *allParts, rest func()) []byte {
	t.Helper()
	var all bytes.Buffer
	seq, _, err := writeCheckpoint(j.Projection, "RUNS then", &all, 1, rest)
	if err != nil {
		t.Fatal(err)
	}
	if seq != j.reducer.seq {
		t.Fatalf("it is of record %d, the reducer has %d", seq, j.reducer.seq)
	}
	return sealed(all.Bytes())
}

func sealed(raw []byte) []byte {
	return binary.BigEndian.AppendUint32(slices.Clone(raw), crc32.Checksum(raw, castagnoli))
}

func loadBytes(raw []byte, identity string, key func(string, int) string) (*reducer, error) {
	return load(bytes.NewReader(raw), int64(len(raw)), identity, key)
}

// A checkpoint may be written at any record, and while records arrive. The checkpoint and the remaining records give
// the same projection as all records. No waiting run, pending callback or unverified result is overlooked.
func TestCheckpointAndRestAreComplete(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 21))
		records := interleave(rng, recordsOf(scenarios(t, rng, 1+rng.IntN(4))))
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
		f, err := loadBytes(raw, "RUNS then", keyOf)
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
			t.Fatalf("seed %d: %d parents have due callbacks, want %d", seed, got, owing)
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
		checkCallbacks(t, f)
		if got, want := whole(f), whole(j.reducer); got != want {
			t.Fatalf("seed %d: after the rest\n%s", seed, differ(got, want))
		}
	}
}

// History was truncated after a checkpoint: a projection that starts from it ends in the state of the others.
func TestCheckpointBeforeATruncation(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 24))
		records := tidy(rng, scenarios(t, rng, 3))
		j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
		n := 1 + rng.IntN(len(records))
		for i, e := range records[:n] {
			j.reducer.apply(message(i+1, e))
		}
		f, err := loadBytes(snap(t, j, func() {}), "RUNS then", keyOf)
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

// Hundreds of sessions are deleted while a checkpoint is written: so many that the reducer would tidy its lists.
func TestSessionsDeletedDuringACheckpoint(t *testing.T) {
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
	f, err := loadBytes(raw, "RUNS then", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := whole(f), whole(j.reducer); got != want || len(f.runs) != 20 {
		t.Errorf("%d runs are left\n%s", len(f.runs), differ(got, want))
	}
}

func TestCheckpointIsAbandonedOnTruncation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 22))
	j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
	for i, e := range newScenario(t, rng, 100).records {
		j.reducer.apply(message(i+1, e))
	}
	if _, _, err := writeCheckpoint(j.Projection, "x", io.Discard, 1, func() { j.Forget(2) }); err != errInterrupted {
		t.Errorf("got %v", err)
	}
	j.reset()
	if j.reducer.dirty != nil {
		t.Error("it is still being written")
	}
}

func TestDamagedCheckpointIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 23))
	j := joined(nil, Config{Key: keyOf, ValidChecked: marked})
	for i, e := range interleave(rng, recordsOf(scenarios(t, rng, 2))) {
		j.reducer.apply(message(i+1, e))
	}
	raw := snap(t, j, func() {})
	if _, err := loadBytes(raw, "RUNS then", keyOf); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		if i%natstest.Load(5, 1) != 0 && i > 64 {
			continue
		}
		for _, flip := range []byte{1, 0x80, byte(1 + rng.IntN(255))} {
			bad := slices.Clone(raw)
			bad[i] ^= flip
			if _, err := loadBytes(bad, "RUNS then", keyOf); err == nil {
				t.Fatalf("byte %d of %d is another one, and it is taken", i, len(raw))
			}
		}
		if _, err := loadBytes(raw[:i], "RUNS then", keyOf); err == nil {
			t.Fatalf("the first %d bytes of %d are taken", i, len(raw))
		}
	}
	for _, tt := range []struct {
		name, want string
		raw        []byte
		identity   string
	}{
		{"another stream's", "another stream", raw, "RUNS now"},
		{"of another version", "version", sealed(bytes.Replace(raw[:len(raw)-4], fmt.Append(nil, checkpointVersion),
			fmt.Append(nil, checkpointVersion+1), 1)), "RUNS then"},
		{"of the format before", "version", sealed([]byte("AOFOLD\r\n\x10")), "RUNS then"},
		{"without an end", "damaged", sealed([]byte(checkpointHeader("RUNS then"))), "RUNS then"},
		{"empty", "damaged", nil, "RUNS then"},
	} {
		if _, err := loadBytes(tt.raw, tt.identity, keyOf); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a snapshot %s: %v", tt.name, err)
		}
	}
}

// Whoever adds a field must think of the checkpoint. An exported field of a saved type is in it, and checkpointVersion
// is raised. Everything else is listed here: fields that savedRun, savedSession or savedEnd have instead, and fields
// that load computes.
func TestCheckpointHasEveryField(t *testing.T) {
	for _, tt := range []struct {
		of            any
		instead, anew string
	}{
		{row{}, "session turn live", "next"},
		{live{}, "snap children", "prev next fresh in before behind since caller tree"},
		{session{}, "pending runs", "firstRow last lastEnded live open place placeBelow due tree"},
		{binding{}, "", ""},
		{webhook{}, "", "row to place"},
		{past{}, "", ""},
		{textRef{}, "", ""},
		{stored{}, "", ""},
		{payloads{}, "of", "bytes"},
		{LateRecord{}, "", ""},
		{tree{}, "", ""},
		{report{}, "", ""},
		{stream.Fingerprint{}, "", ""},
		{reservation{}, "seq session children", ""},
		{reducer{}, "lastRead",
			"tables scan waitlists webhooks late trees callbacks key checked results newer unknownKinds stats ignored"},
		{tables{}, "order sorder past deleted seq texts retryOf payloads", "changes version runs sessions " +
			"evictedRuns evictedSessions head tail fresh pending dirty waiting claimed ended usage"},
		{usage{}, "", "all callers"},
		{texts{}, "blocks", "last"},
		{scanner{}, "", "definitions names"},
		{waitlists{}, "", "queues unqueued claimed waits"},
		{webhooks{}, "of", "tables scan hosts"},
		{lateRecords{}, "all", ""},
		{trees{}, "stopped suppressing parents", "tables below children stopping changed"},
		{callbacks{}, "recent reserved", "tables trees due"},
	} {
		var fields []string
		for f := range reflect.TypeOf(tt.of).Fields() {
			if !f.IsExported() {
				fields = append(fields, f.Name)
			}
		}
		want := strings.Fields(tt.instead + " " + tt.anew)
		slices.Sort(fields)
		slices.Sort(want)
		if !slices.Equal(fields, want) {
			t.Errorf("%T has the unexported fields\n%q, known are\n%q", tt.of, fields, want)
		}
	}
}
