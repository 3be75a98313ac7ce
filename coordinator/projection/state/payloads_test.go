package state

import (
	"testing"

	"ao/shared/run"
)

// TestStoredBytesFollowTheRecords: what a run keeps in the object store counts to its caller and its tree. That ends
// when its input is removed, or it is forgotten.
func TestStoredBytesFollowTheRecords(t *testing.T) {
	f := newReducer(nil)
	add := func(id, session, parent, caller string, in, out int64) *Row {
		spec := &run.Spec{ID: id, SessionID: session, Parent: parent, Caller: caller, Type: run.Start}
		if in > 0 {
			spec.Body = &run.Payload{Name: id + ".x.in", Size: in}
		}
		var ch Change
		f.seq++
		r := f.begin(&ch, IdentOf(RunPrefix, id), spec, Record{Seq: f.seq})
		if out > 0 {
			f.payloads.output(r, spec, &run.Payload{Name: id + ".1.out", Size: out})
		}
		return r
	}
	add("run_top", "ses_top", "", "a", 100, 0)
	ended := add("run_below", "ses_below", "ses_top", "a", 20, 3)
	add("run_other", "ses_other", "", "a", 0, 7)
	add("run_b", "ses_b", "", "b", 1000, 0)
	add("run_none", "ses_none", "", "b", 0, 0)
	is := func(when, caller, session string, want Stored) {
		t.Helper()
		if got := StoredBy(f, caller, session); got != want || StoredBytes(f) != want.All {
			t.Errorf("%s: %+v, %d in all, want %+v", when, got, StoredBytes(f), want)
		}
	}
	is("a's tree", "a", "ses_below", Stored{1130, 130, 123})
	is("a's other tree", "a", "ses_other", Stored{1130, 130, 7})
	is("b", "b", "ses_b", Stored{1130, 1000, 1000})
	is("nobody", "c", "ses_c", Stored{1130, 0, 0})
	if TreeRoot(f, "ses_below") != TreeRoot(f, "ses_top") || TreeRoot(f, "ses_below") == TreeRoot(f, "ses_b") {
		t.Error("trees are mixed up")
	}
	if all := ExcessInputs(f, func(string, int64, int64) bool { return true }); len(all) != 0 {
		t.Errorf("inputs of open runs may go: %+v", all)
	}
	unlink(f.tables, ended)
	if all := ExcessInputs(f, func(_ string, _, of int64) bool { return of > 500 }); len(all) != 0 {
		t.Errorf("who holds little loses %+v", all)
	}
	all := ExcessInputs(f, func(_ string, _, of int64) bool { return of == 130 })
	if len(all) != 1 || all[0] != (EndedInput{"run_below", "run_below.x.in", 20}) {
		t.Errorf("what may go: %+v", all)
	}
	ForgetInputs(f, f.seq, func(name string) bool { return name != "run_b.x.in" })
	is("what open runs were given stays", "b", "ses_b", Stored{1130, 1000, 1000})
	ForgetInputs(f, f.seq, func(name string) bool { return name != "run_below.x.in" })
	is("a removed input", "a", "ses_below", Stored{1110, 110, 103})
	if NamesPayload(f, "run_below", "run_below.x.in") || !NamesPayload(f, "run_below", "run_below.1.out") {
		t.Error("the wrong payload is named")
	}
	f.drop(ended)
	is("a forgotten run", "a", "ses_top", Stored{1107, 107, 100})
}
