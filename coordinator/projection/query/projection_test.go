package query

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// bench is a projection on a real server.
type bench struct {
	*allParts
	t    testing.TB
	bus  *bus.Bus
	emit *bus.Emitter
}

func start(t testing.TB, cfg projection.Config) *bench {
	t.Helper()
	b := natstest.Bus(t)
	return &bench{another(t, b, cfg), t, b, b.Emitter(context.Background(), nil)}
}

// another is one more projection on the same server.
func another(t testing.TB, b *bus.Bus, cfg projection.Config) *allParts {
	t.Helper()
	cfg.Log = natstest.Log(t)
	j := joined(b, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { j.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	natstest.Until(t, "the projection is ready", func() bool { return j.Ready() == nil })
	return j
}

// Write appends records and gives the last one's sequence.
func (b *bench) write(records ...entry) (seq uint64) {
	b.t.Helper()
	for _, e := range records {
		var err error
		seq, err = b.bus.Append(b.t.Context(), e)
		if err != nil {
			b.t.Fatal(e.Subject, err)
		}
	}
	return seq
}

// emitAll writes events and returns the last one's sequence.
func (b *bench) emitAll(events ...entry) uint64 {
	b.t.Helper()
	for _, e := range events {
		if err := b.emit.Emit(b.t.Context(), e.Subject, e.Body); err != nil {
			b.t.Fatal(err)
		}
	}
	seq, err := b.emit.Flush(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return seq
}

func (b *bench) actor(session string) actor {
	return newActor(b.t, run.NewID(), session, "x")
}

func TestReadsFollowWrites(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor(run.NewSessionID())
	for i, tt := range []struct {
		entry
		want run.Status
	}{{a.Queued(1), run.Pending}, {a.Claimed(1), run.Claimed}} {
		seq := b.write(tt.entry)
		if i > 0 {
			if err := b.Await(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
		}
		r, err := b.Get(t.Context(), a.Spec.ID)
		if err != nil || r.Status != tt.want || string(r.Parameters) != string(a.Spec.Parameters) {
			t.Errorf("got %s %s %v, want %s", r.Status, r.Parameters, err, tt.want)
		}
	}
	for _, id := range []string{run.NewID(), "run_x"} {
		if _, err := b.Get(t.Context(), id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := b.Get(t.Context(), "run_*"); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
	if _, err := b.Session(t.Context(), "ses_none"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestRunningIsShownAndDecidesNothing(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor(run.NewSessionID())
	b.Await(t.Context(), b.write(a.Queued(1), a.Claimed(1)))
	at := time.Now()
	b.Started(a.Spec.ID, "another's key", at)
	if r, _ := b.Get(t.Context(), a.Spec.ID); r.Status != run.Claimed || r.StartedAt != nil {
		t.Errorf("a foreign key: %s", r.Status)
	}
	b.Started(a.Spec.ID, a.Key(1), at)
	r, err := b.Get(t.Context(), a.Spec.ID)
	if err != nil || r.Status != run.Running || !r.StartedAt.Equal(at) || !r.TimeoutAt.Equal(at.Add(300*time.Second)) {
		t.Errorf("%+v %v", r, err)
	}
	s, err := b.Session(t.Context(), a.Spec.SessionID)
	if err != nil || s.Status != run.SessionRunning {
		t.Error(s, err)
	}
	b.Await(t.Context(), b.write(a.Stopping()))
	if a, ok := b.Active(a.Spec.ID); !ok || !a.Stopping || a.Status != run.Stopping {
		t.Error(a.Status)
	}
}

func TestResult(t *testing.T) {
	for _, cache := range []int{0, -1} { // what is not at hand is read from the stream
		b := start(t, projection.Config{Cache: cache})
		good, bad := b.actor(run.NewSessionID()), b.actor(run.NewSessionID())
		b.Await(t.Context(), b.write(good.Queued(1), good.Claimed(1), bad.Queued(1)))
		if _, _, err := b.Result(t.Context(), good.Spec.ID); fault.KindOf(err) != fault.Conflict ||
			!strings.Contains(err.Error(), "claimed") {
			t.Error(err)
		}
		if _, _, err := b.SessionResult(t.Context(), good.Spec.SessionID); fault.KindOf(err) != fault.Conflict {
			t.Error(err)
		}
		b.Await(t.Context(), b.write(good.Ended(1, run.Completed, 0), bad.Claimed(1), bad.Ended(1, run.Failed, 0)))
		res, r, err := b.Result(t.Context(), good.Spec.ID)
		if err != nil || string(res.Data) != `{"ok":true}` || r.Status != run.Completed ||
			string(r.Parameters) != string(good.Spec.Parameters) ||
			*res.ExitCode != 0 {
			t.Errorf("%s %+v %v", res.Data, r, err)
		}
		if again, _, err := b.SessionResult(t.Context(), good.Spec.SessionID); err != nil ||
			string(again.Data) != string(res.Data) {
			t.Error(err)
		}
		_, r, err = b.Result(t.Context(), bad.Spec.ID)
		if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "Process exited with code 1") ||
			r.Error == nil ||
			r.Error.Code != "command_failed" {
			t.Errorf("%v %+v", err, r.Error)
		}
	}
}

func TestLargeBodies(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor(run.NewSessionID())
	put := func(name string, v any) *run.Payload {
		raw := body(t, v)
		sum := sha256.Sum256(raw)
		p := &run.Payload{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
		for rest := raw; len(rest) > 0; p.Parts++ {
			n := min(len(rest), run.PartSize)
			if err := b.bus.PutPart(t.Context(), name, p.Parts, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		return p
	}
	params := json.RawMessage(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
	a.Spec.Body, a.Spec.Input = put(a.Spec.ID+".in", run.Input{Parameters: params}), nil
	end := run.Ended{
		V:       1,
		Status:  run.Completed,
		Attempt: 1,
		At:      began,
		Body:    put(a.Spec.ID+".out", run.Result{Type: run.Procedural, Data: params}),
	}
	b.Await(t.Context(), b.write(a.Queued(1), entry{Subject: a.Ended(1, run.Completed, 0).Subject, Body: body(t, end)}))
	if r, err := b.Get(t.Context(), a.Spec.ID); err != nil || string(r.Parameters) != string(params) {
		t.Error(len(r.Parameters), err)
	}
	if res, _, err := b.Result(t.Context(), a.Spec.ID); err != nil || string(res.Data) != string(params) {
		t.Error(len(res.Data), err)
	}
	if p, err := b.Runs(t.Context(), Query{}); err != nil || len(p.Runs) != 1 || p.Runs[0].Parameters != nil {
		t.Error(p, err)
	}
}

func TestWait(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor(run.NewSessionID())
	b.Await(t.Context(), b.write(a.Queued(1), a.Claimed(1)))
	const waiters = 2000
	got := make(chan run.Status, waiters)
	for range waiters {
		go func() {
			r, _ := b.Wait(t.Context(), a.Spec.ID)
			got <- r.Status
		}()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if r, err := b.Wait(short, a.Spec.ID); !errors.Is(err, context.DeadlineExceeded) || r.Status != run.Claimed {
		t.Errorf("a wait that ends before the run: %s %v", r.Status, err)
	}
	b.write(a.Ended(1, run.Failed, 0))
	for range waiters {
		if s := <-got; s != run.Failed {
			t.Fatal(s)
		}
	}
	if r, err := b.Wait(t.Context(), a.Spec.ID); err != nil || r.Status != run.Failed ||
		r.Error.Code != "command_failed" {
		t.Error(r, err)
	}
	if _, err := b.Wait(t.Context(), run.NewID()); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestOnChangeAndASecondProjection(t *testing.T) {
	var mu sync.Mutex
	var changes []state.Change
	due := make(chan struct{}, 100)
	b := start(t, projection.Config{
		OnChange: func(c state.Change) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, c)
		},
		OnEffect: func(e state.Effect) {
			if e&state.TurnDue != 0 {
				due <- struct{}{}
			}
		},
	})
	a := b.actor(run.NewSessionID())
	next := newActor(t, run.NewID(), a.Spec.SessionID, "x")
	seq := b.write(a.Queued(1), next.Accepted(), a.Claimed(1), a.Ended(1, run.Completed, 0))
	b.Await(t.Context(), seq)
	select {
	case <-due:
	case <-time.After(time.Minute):
		t.Error("nobody says that a turn has come")
	}
	if e := b.Eligible(); len(e) != 1 || e[0].Spec.ID != next.Spec.ID {
		t.Error(e)
	}
	natstest.Until(t, "all changes are reported", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(changes) == 4
	})
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s %s>%s first=%t live=%t", c.Kind, c.Before, c.After, c.First, c.Live))
	}
	want := []string{
		"queued >pending first=true live=true",
		"accepted >pending first=false live=true",
		"claimed pending>claimed first=false live=true",
		"ended claimed>completed first=false live=true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	other := another(t, b.bus, projection.Config{})
	if x, y := seen(t, other), seen(t, b.allParts); x != y {
		t.Errorf("a second projection says\n%s\nthe first\n%s", x, y)
	}
	if other.Oldest() != b.Oldest() || other.Seq() != seq {
		t.Error(other.Oldest(), b.Oldest(), other.Seq())
	}
}

func TestPurgedLastRecordIsReached(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor(run.NewSessionID())
	b.write(a.Queued(1), a.Ended(1, run.Failed, 0))
	seq := b.write(a.Stopping()) // late, and the last of the stream
	if err := b.bus.Purge(t.Context(), subject.Runs, a.Stopping().Subject, 0); err != nil {
		t.Fatal(err)
	}
	other := another(t, b.bus, projection.Config{})
	if other.Seq() < seq {
		t.Errorf("at %d, want %d", other.Seq(), seq)
	}
	if _, err := other.Get(t.Context(), run.NewID()); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestQueries(t *testing.T) {
	b := start(t, projection.Config{})
	one, two, three, four := b.actor("ses_1"), b.actor("ses_2"), b.actor("ses_1"), b.actor("ses_4")
	two.Spec.Agent, two.Spec.Parent = "y", "ses_1"
	four.Spec.CreatedAt = began.Add(time.Hour)
	two.Spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"a \u006eeedle in\u0020a haystack \"quoted\""}`)}
	four.Spec.Input, four.Spec.RetryOf = &run.Input{
		Parameters: json.RawMessage(`{"a":1,"prompt":"NEEDLE in a"}`),
	}, one.Spec.ID
	b.Await(
		t.Context(),
		b.write(
			one.Queued(1),
			two.Queued(1),
			three.Accepted(),
			four.Queued(1),
			two.Claimed(1),
			one.Ended(1, run.Failed, 0),
		),
	)
	names := map[string]string{one.Spec.ID: "1", two.Spec.ID: "2", three.Spec.ID: "3", four.Spec.ID: "4"}
	for _, tt := range []struct {
		name           string
		q              Query
		runs, sessions string
	}{
		{"all, newest first", Query{}, "4 3 2 1", "4 2 1"},
		{"by status", Query{Statuses: []string{"pending"}}, "4 3", "4 1"},
		{"by agent", Query{Agent: "y"}, "2", "2"},
		{"by session", Query{Session: "ses_1"}, "3 1", "1"},
		{"by a session that isn't there", Query{Session: "ses_9"}, "", ""},
		{"by parent", Query{Parent: "ses_1"}, "2", "2"},
		{"by time", Query{CreatedAfter: began}, "4", "4"},
		{"by session and agent", Query{Session: "ses_1", Agent: "y"}, "", ""},
		{"only so many", Query{Limit: 2}, "4 3", "4 2"},
		{"by runner", Query{Runner: "rnr_1"}, "2 1", "4 2 1"},
		{"by another runner", Query{Runner: "rnr_2"}, "", "4 2 1"},
		{"by a run's id", Query{Text: one.Spec.ID}, "1", "4 2 1"},
		{"by the beginning of a session's id, in any case", Query{Text: "SES_1"}, "3 1", "4 2 1"},
		{"by an agent's name", Query{Text: "Y", Roots: true}, "", "4 2 1"},
		{"by an error's code", Query{Text: "command_failed"}, "1", "4 2 1"},
		{"by its message and a status", Query{Text: "exited WITH code", Statuses: []string{"failed"}}, "1", ""},
		{"by parameters", Query{Text: `"one":1`}, "", "4 2 1"},
		{"by a session and a text", Query{Text: "needle", Session: "ses_2"}, "2", "2"},
		{"by a prompt", Query{Text: "Needle in a"}, "4 2", "4 2 1"},
		{"by what no run has", Query{Text: "nothing like this"}, "", "4 2 1"},
		{"repeats", Query{RetryOf: one.Spec.ID}, "4", "4 2 1"},
		{"roots", Query{Roots: true}, "4 3 1", "4 2 1"},
		{"roots by runner and status", Query{Roots: true, Runner: "rnr_1", Statuses: []string{"failed"}}, "1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n, err := b.Count(t.Context(), tt.q); err != nil || !n.Exact ||
				tt.q.Limit == 0 && n.N != len(strings.Fields(tt.runs)) {
				t.Errorf("count: %+v %v", n, err)
			}
			p, err := b.Runs(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			var runs, sessions []string
			for _, r := range p.Runs {
				runs = append(runs, names[r.ID])
			}
			s, err := b.Sessions(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range s.Sessions {
				sessions = append(sessions, strings.TrimPrefix(s.ID, "ses_"))
			}
			if r, s := strings.Join(runs, " "), strings.Join(sessions, " "); r != tt.runs || s != tt.sessions {
				t.Errorf("got runs %q and sessions %q, want %q and %q", r, s, tt.runs, tt.sessions)
			}
		})
	}
	if p, err := b.Runs(t.Context(), Query{Statuses: []string{"claimed", "failed"}}); err != nil || len(p.Runs) != 2 {
		t.Error(p, err)
	}
	if p, err := b.Sessions(t.Context(), Query{Statuses: []string{"running"}}); err != nil || len(p.Sessions) != 1 {
		t.Error(p, err)
	}
	for _, tt := range []struct {
		q     Query
		field string
	}{
		{Query{Statuses: []string{"sleeping"}}, "status"},
		{Query{Limit: 1001}, "limit"},
		{Query{Limit: -1}, "limit"},
		{Query{Cursor: "!"}, "cursor"},
		{Query{Cursor: strings.Repeat("A", 100)}, "cursor"},
		{Query{Cursor: cursorAt("x:", 1)}, "cursor"},
	} {
		_, err := b.Runs(t.Context(), tt.q)
		_, err2 := b.Sessions(t.Context(), tt.q)
		for _, err := range []error{err, err2} {
			if f := fault.Of(err); f.Kind != fault.Invalid || len(f.Fields) != 1 || f.Fields[0].Value != tt.field {
				t.Errorf("%+v: %v", tt.q, err)
			}
		}
	}
	if _, err := b.Sessions(t.Context(), Query{Cursor: cursorAt(runCursor, 1)}); fault.KindOf(err) != fault.Invalid {
		t.Error("a cursor of another list:", err)
	}
}

func TestPagesAreStableWhileRunsArrive(t *testing.T) {
	b := start(t, projection.Config{})
	var want []string
	for range 25 {
		a := b.actor(run.NewSessionID())
		b.write(a.Queued(1))
		want = append(want, a.Spec.ID)
	}
	slices.Reverse(want)
	var runs, sessions []string
	q, sq := Query{Limit: 4}, Query{Limit: 4}
	for page := 0; ; page++ {
		b.Await(t.Context(), b.write(b.actor(run.NewSessionID()).Queued(1)))
		if page == 0 {
			b.Runs(t.Context(), q)
			p, _ := b.Runs(t.Context(), Query{Limit: 1})
			q.Cursor = p.Next // behind the one that came last
			s, _ := b.Sessions(t.Context(), Query{Limit: 1})
			sq.Cursor = s.Next
		}
		p, err := b.Runs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			runs = append(runs, r.ID)
		}
		s, err := b.Sessions(t.Context(), sq)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range s.Sessions {
			sessions = append(sessions, s.LastRun)
		}
		q.Cursor, sq.Cursor = p.Next, s.Next
		if p.Next == "" || s.Next == "" {
			if p.Next != s.Next {
				t.Error("the lists have different ends")
			}
			break
		}
	}
	if !slices.Equal(runs, want) || !slices.Equal(sessions, want) {
		t.Errorf("got\n%q\n%q\nwant\n%q", runs, sessions, want)
	}
}

func TestReadsGoOnWhileNATSIsAway(t *testing.T) {
	p := natstest.Proc(t)
	server := p.Bus(t)
	b := &bench{another(t, server, projection.Config{Cache: -1}), t, server, server.Emitter(context.Background(), nil)}
	ended, waiting := b.actor(run.NewSessionID()), b.actor(run.NewSessionID())
	b.Await(t.Context(), b.write(ended.Queued(1), ended.Ended(1, run.Failed, 0), waiting.Queued(1)))
	p.Kill()
	natstest.Until(t, "the loss is noticed", func() bool { return !server.Connected() })
	if r, err := b.Get(t.Context(), waiting.Spec.ID); err != nil || r.Status != run.Pending || r.Parameters == nil {
		t.Error(r, err)
	}
	if s, err := b.Session(t.Context(), ended.Spec.SessionID); err != nil || s.Status != run.SessionFailed {
		t.Error(s, err)
	}
	if l, err := b.Runs(t.Context(), Query{}); err != nil || len(l.Runs) != 2 || l.Runs[1].Status != run.Failed {
		t.Error(l, err)
	}
	for _, id := range []string{ended.Spec.ID, run.NewID()} {
		if _, err := b.Get(t.Context(), id); fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
	}
	p.Start()
	natstest.Until(t, "the connection is back", server.Connected)
	b.Await(t.Context(), b.write(waiting.Ended(1, run.Stopped, 0)))
	if r, err := b.Get(t.Context(), ended.Spec.ID); err != nil || r.Error == nil {
		t.Error(r, err)
	}
	if r, err := b.Get(t.Context(), waiting.Spec.ID); err != nil || r.Status != run.Stopped {
		t.Error(r, err)
	}
}
