package payload

import (
	"context"
	"slices"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
)

// store is an object store with a limit, and a history of what records name there.
type store struct {
	bytes, limit int64
	stored       map[[2]string]int64 // by caller and session
	named        map[string]bool     // payloads that records name
	bound        string              // the pointer that every session is bound to
	dropped      []string
	damaged      bool
}

func (s *store) StreamState(context.Context, string) (bus.State, error) {
	return bus.State{Bytes: uint64(s.bytes), MaxBytes: s.limit}, nil
}
func (s *store) StoredBytes() int64               { return s.StoredBy("", "").All }
func (s *store) SameTree(a, b string) bool        { return a == b }
func (s *store) NamesPayload(_, name string) bool { return s.named[name] }
func (s *store) Ended(id string) bool             { return id != "run_open" }
func (s *store) Confirmed() bool                  { return !s.damaged }
func (s *store) ExecutorSessionID(string) string  { return s.bound }
func (s *store) DropPayload(_ context.Context, name string) error {
	s.dropped = append(s.dropped, name)
	return nil
}
func (s *store) Holder(id string) (caller, session string, ok bool) {
	return "me", "ses_" + id, id != "run_gone"
}
func (s *store) StoredBy(caller, session string) (n state.Stored) {
	for of, bytes := range s.stored {
		n.All += bytes
		if of[0] == caller {
			n.Caller += bytes
		}
		if of[1] == session {
			n.Tree += bytes
		}
	}
	return n
}

// TestRoom: who gets how much of an object store of 1,000 MB, of which inputs may take 900 and results 950.
func TestRoom(t *testing.T) {
	const mb = 1 << 20
	mine1, others := [2]string{"me", "ses_1"}, [2]string{"other", "ses_2"}
	mine, other := Owner{"run_1", "me", "ses_1"}, Owner{"run_2", "other", "ses_2"}
	elsewhere := Owner{"run_3", "me", "ses_3"}
	for _, tt := range []struct {
		name   string
		stored map[[2]string]int64
		bytes  int64 // in the store, as NATS says
		owner  Owner
		size   int64
		result bool
		code   string
	}{
		{"the first", nil, 0, mine, 400, false, ""},
		{"more than half", nil, 0, mine, 460, false, run.CodePayloadShare},
		{"a second one of its tree", map[[2]string]int64{mine1: 200}, 0, mine, 30, false, run.CodePayloadShare},
		{"one of another tree", map[[2]string]int64{mine1: 200}, 0, elsewhere, 200, false, ""},
		{"beside one who has its share", map[[2]string]int64{others: 450}, 0, mine, 220, false, ""},
		{"too much beside it", map[[2]string]int64{others: 450}, 0, mine, 300, false, run.CodePayloadsFull},
		{"its share is used up", map[[2]string]int64{others: 450}, 0, other, 10, false, run.CodePayloadShare},
		{"all is taken", map[[2]string]int64{others: 890}, 0, mine, 20, false, run.CodePayloadsFull},
		{"a result has the reserve", map[[2]string]int64{others: 890}, 0, mine, 20, true, ""},
		{"a result of one with nearly half", map[[2]string]int64{mine1: 450, others: 400}, 0, mine, 20, true, ""},
		{"a result of a tree with much", map[[2]string]int64{mine1: 300}, 0, mine, 100, true, ""},
		{"not of one who has all", map[[2]string]int64{others: 890}, 0, other, 20, true, run.CodePayloadShare},
		{"what no record names counts", nil, 890 * mb, mine, 20, false, run.CodePayloadsFull},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{limit: 1000 * mb, bytes: tt.bytes, stored: map[[2]string]int64{}}
			for of, n := range tt.stored {
				s.stored[of] = n * mb
			}
			r := &Room{Stream: s, History: s}
			if err := r.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			admit := r.Input
			if tt.result {
				admit = r.Result
			}
			err := admit(tt.owner, "new", tt.size*mb)
			if code := codeOf(err); code != tt.code {
				t.Errorf("%v (%s), want %q", err, code, tt.code)
			}
		})
	}
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return fault.Of(err).Code
}

// TestUploadsCountUntilTheProjectionHasThem: many at once do not get more than their share.
func TestUploadsCountUntilTheProjectionHasThem(t *testing.T) {
	const mb = 1 << 20
	s := &store{limit: 1000 * mb, stored: map[[2]string]int64{}, named: map[string]bool{}}
	r := &Room{Stream: s, History: s}
	if err := r.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	send := func(id string) error {
		return r.Input(Owner{id, "me", "ses_" + id}, id+".x.in", 200*mb)
	}
	for _, id := range []string{"run_1", "run_2", "run_1"} {
		if err := send(id); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	if err := send("run_3"); codeOf(err) != run.CodePayloadShare {
		t.Fatalf("more than the share on its way: %v", err)
	}
	r.Forget("run_2.x.in")
	if err := r.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := send("run_3"); err != nil {
		t.Fatalf("after one was withdrawn: %v", err)
	}
	s.named["run_1.x.in"], s.named["run_3.x.in"] = true, true // the projection counts them now
	if err := send("run_4"); err != nil {
		t.Fatalf("what is counted twice: %v", err)
	}
}

// TestWhatNoRecordNamesCountsToItsCaller: a list tells what there is, also after a restart, and what went away.
func TestWhatNoRecordNamesCountsToItsCaller(t *testing.T) {
	const mb = 1 << 20
	s := &store{limit: 1000 * mb, stored: map[[2]string]int64{}, named: map[string]bool{"run_4.x.in": true}}
	r := &Room{Stream: s, History: s}
	if err := r.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Listed(map[string]int64{"run_1.x.in": 100 * mb, "run_2.1.out": 100 * mb, "run_3.1.0.state": 100 * mb,
		"run_4.x.in": 500 * mb, "run_gone.1.out": 500 * mb}, time.Now())
	if short := r.Short(); !short("me", 200*mb, 150*mb) || short("other", 200*mb, 10*mb) {
		t.Error("what no record names does not make its caller's inputs go, or makes others' go")
	}
	send := func(caller string, size int64) error {
		return r.Input(Owner{"run_9", caller, "ses_9"}, "run_9.x.in", size*mb)
	}
	if err := send("me", 310); codeOf(err) != run.CodePayloadShare {
		t.Errorf("beside 300 MB: %v", err)
	}
	if err := send("other", 290); err != nil {
		t.Errorf("another caller: %v", err)
	}
	r.Forget("run_9.x.in")
	if err := r.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Listed(map[string]int64{"run_4.x.in": 500 * mb}, time.Now().Add(2*time.Minute))
	if err := send("me", 310); err != nil {
		t.Errorf("after they went away: %v", err)
	}
}

// TestStatesThatNobodyContinuesFrom: what the next turn has replaced goes after a while, whoever was to remove it.
func TestStatesThatNobodyContinuesFrom(t *testing.T) {
	s := &store{limit: 1 << 30, bound: "state:run_2.1"}
	r := &Room{Stream: s, History: s}
	sizes := map[string]int64{"run_open.1.state": 1, "run_1.1.state": 1, "run_1.1.0.state": 1, "run_2.1.state": 1,
		"run_2.1.1.state": 1, "run_gone.1.state": 1, "run_3.1.out": 1}
	for i, age := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		s.damaged = i == 1
		r.Listed(sizes, time.Now().Add(-age))
		if err := r.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i < 2 && len(s.dropped) > 0 {
			t.Errorf("removed at once, or from a damaged history: %q", s.dropped)
		}
		r = &Room{Stream: s, History: s}
	}
	if slices.Sort(s.dropped); !slices.Equal(s.dropped, []string{"run_1.1.0.state", "run_1.1.state"}) {
		t.Errorf("removed are %q", s.dropped)
	}
}
