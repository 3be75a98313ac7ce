package subject

import (
	"strings"
	"testing"
)

func TestParseReadsWhatTheFunctionsWrite(t *testing.T) {
	taskQueue := TaskQueue("procedural", "text", "_")
	for _, tt := range []struct {
		subject string
		want    Record
	}{
		{Queued("7", taskQueue, "run_1", 2),
			Record{Kind: QueuedKind, Partition: "7", TaskQueue: taskQueue, Run: "run_1", N: 2}},
		{Session("7", "ses_1"), Record{Kind: SessionKind, Partition: "7", Session: "ses_1"}},
		{Accepted("7", "ses_1", "run_1"), Record{Kind: AcceptedKind, Partition: "7", Session: "ses_1", Run: "run_1"}},
		{Claimed("7", "run_1", "k"), Record{Kind: ClaimedKind, Partition: "7", Run: "run_1", Key: "k"}},
		{Bound("7", "run_1", "k"), Record{Kind: BoundKind, Partition: "7", Run: "run_1", Key: "k"}},
		{Offered("7", "run_1", "k"), Record{Kind: OfferedKind, Partition: "7", Run: "run_1", Key: "k"}},
		{Ended("7", "run_1", "k"), Record{Kind: EndedKind, Partition: "7", Run: "run_1", Key: "k"}},
		{Stopping("7", "run_1"), Record{Kind: StoppingKind, Partition: "7", Run: "run_1"}},
		{Callback("7", "ses_p", "run_1", 2),
			Record{Kind: CallbackKind, Partition: "7", Session: "ses_p", Run: "run_1-2"}},
		{Callback("7", "ses_p", "run_1", 0),
			Record{Kind: CallbackKind, Partition: "7", Session: "ses_p", Run: "run_1"}},
		{Notified("7", "run_1", 3), Record{Kind: NotifiedKind, Partition: "7", Run: "run_1", N: 3}},
		{Tree("7", "ses_1", "run_1"), Record{Kind: TreeKind, Partition: "7", Session: "ses_1", Run: "run_1"}},
		{Deleted("7", "ses_1"), Record{Kind: DeletedKind, Partition: "7", Session: "ses_1"}},
		{"ao.runs.7.paused.run_1", Record{Partition: "7"}},
	} {
		t.Run(tt.subject, func(t *testing.T) {
			got, err := Parse(tt.subject)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseRefusesWhatIsNoRecord(t *testing.T) {
	for _, s := range []string{
		"", "ao", "ao.runs", "ao.runs.", "ao.runs.7", "ao.runs.7.", "ao.runs.7.ended", "ao.runs.7.ended.",
		"ao.runs..ended.r.k",
		"ao.runs.7.ended.r", "ao.runs.7.ended.r.", "ao.runs.7.ended..k", "ao.runs.7.ended.r.k.x",
		"ao.runs.7.ended.r.k.",
		"ao.runs.7.queued.procedural.text.run.1", "ao.runs.7.queued.procedural.text._.run.x",
		"ao.runs.7.queued.a.b..r.1",
		"ao.runs.7.queued.a.b.c", "ao.runs.7.queued.a.b.c.", "ao.runs.7.notified.run.-1", "ao.runs.7.stopping.r.x",
		"ao.events.7.s.r.k",
	} {
		if r, err := Parse(s); err == nil {
			t.Errorf("%q: got %+v, want an error", s, r)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	s := Queued("7", TaskQueue("procedural", "text", "_"), "run_1", 2)
	if n := testing.AllocsPerRun(100, func() { Parse(s) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		token string
		ok    bool
	}{
		{"a", true}, {"Ab-9_", true}, {"_", true}, {strings.Repeat("x", 128), true}, {strings.Repeat("x", 129), false},
		{"", false}, {"a.b", false}, {"*", false}, {">", false}, {"a b", false}, {"a/b", false}, {"ä", false},
		{"a\n", false}, {"a=b", false},
	} {
		if err := Check(tt.token); (err == nil) != tt.ok {
			t.Errorf("%q: got %v, want ok %v", tt.token, err, tt.ok)
		}
	}
}

// The partition is part of every stored subject: these values may never change.
func TestPartitionIsFixedForEver(t *testing.T) {
	for session, want := range map[string]string{"": "5", "ses_a": "18", "ses_b": "63",
		"ses_0190f3b0c0de7000800000000000c0de": "59"} {
		if got := Partition(session); got != want {
			t.Errorf("%q: got %s, want %s", session, got, want)
		}
	}
}

func TestTaskQueueDurablesDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for _, taskQueue := range []string{
		TaskQueue("procedural", "text", "_"), TaskQueue("procedural", "text-_", "_"),
		TaskQueue("procedural", "text_", "_"), TaskQueue("procedural", "_", "text"),
		TaskQueue("procedural", "a-b", "c"), TaskQueue("procedural", "a", "b-c"), TaskQueue("procedural-a", "b", "c"),
	} {
		name := TaskQueueDurable(taskQueue)
		if strings.ContainsAny(name, ".*> /\\") {
			t.Errorf("%s: %q is no legal name of a consumer", taskQueue, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s share %q", taskQueue, other, name)
		}
		seen[name] = taskQueue
		if of, ok := TaskQueueOf(name); !ok || of != taskQueue {
			t.Errorf("%q is of queue %q, want %q", name, of, taskQueue)
		}
	}
}

// TestRecords: each kind of record is described once, under a subject that is read as that kind.
func TestRecords(t *testing.T) {
	fill := strings.NewReplacer("[-<n>]", "", "<queue>", "a.b.c", "<attempt>", "1", "<n>", "1", "<", "", ">", "")
	described := map[Kind]bool{}
	for _, row := range Records {
		r, err := Parse(fill.Replace(row.Name))
		if err != nil || r.Kind == Unknown || described[r.Kind] || row.Means == "" || row.By == "" {
			t.Errorf("%s: kind %v, %v; or it is described twice, or not", row.Name, r.Kind, err)
		}
		described[r.Kind] = true
	}
	for k := range shapes {
		if !described[Kind(k)] && Kind(k) != Unknown {
			t.Errorf("the table of records has no %s", Kind(k))
		}
	}
}
