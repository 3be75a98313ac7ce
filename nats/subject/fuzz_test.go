package subject

import (
	"strings"
	"testing"
)

// FuzzParse: what is read of a subject is in it, and makes the same subject again: no record has two names.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		Queued("07", "procedural.p._", "run_1", 2), Session("07", "ses_1"), Accepted("07", "ses_1", "run_1"),
		Claimed("07", "run_1", "abc"), Ended("07", "run_1", "abc"), Stopping("07", "run_1"),
		Notified("07", "run_1", 3), Deleted("07", "ses_1"), Bound("07", "run_1", "k"), Offered("07", "run_1", "k"),
		Tree("07", "ses_1", "run_1"),
		"ao.runs.07.later.x", "ao.runs.07.queued.a.b.c.d.-1", "ao.runs.07.queued.a.b.c.d.-0",
		"ao.runs.07.queued.a.b.c.d.+1", "ao.runs.07.notified.r.01", "ao.runs.07.queued.a.b.c.d", "ao.runs...",
		"ao.events.x", "ao.runs.07.session.a.b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil || r.Kind == Unknown {
			return
		}
		made := map[Kind]func() string{
			QueuedKind:   func() string { return Queued(r.Partition, r.TaskQueue, r.Run, r.N) },
			SessionKind:  func() string { return Session(r.Partition, r.Session) },
			AcceptedKind: func() string { return Accepted(r.Partition, r.Session, r.Run) },
			ClaimedKind:  func() string { return Claimed(r.Partition, r.Run, r.Key) },
			BoundKind:    func() string { return Bound(r.Partition, r.Run, r.Key) },
			OfferedKind:  func() string { return Offered(r.Partition, r.Run, r.Key) },
			EndedKind:    func() string { return Ended(r.Partition, r.Run, r.Key) },
			StoppingKind: func() string { return Stopping(r.Partition, r.Run) },
			NotifiedKind: func() string { return Notified(r.Partition, r.Run, r.N) },
			DeletedKind:  func() string { return Deleted(r.Partition, r.Session) },
			TreeKind:     func() string { return Tree(r.Partition, r.Session, r.Run) },
			CallbackKind: func() string { return "ao.runs." + r.Partition + ".callback." + r.Session + "." + r.Run },
		}[r.Kind]()
		if made != text || strings.Count(r.TaskQueue, ".") != map[bool]int{true: 2}[r.Kind == QueuedKind] {
			t.Errorf("%q is read as %+v, which is %q", text, r, made)
		}
	})
}
