package parts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/control/retention"
	"ao/coordinator/runs"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/nats-io/nats.go/jetstream"
)

// echoA is a request for the agent of keepsOne's runner.
const echoA = `{"agent_name":"a"}`

// keepsOne returns a coordinator that keeps one ended run, with its NATS and a runner.
func keepsOne(t *testing.T) (*embed.Server, *Coordinator, runnerapi.Runner) {
	t.Helper()
	s := natstest.Server(t)
	c := start(t, natstest.Open(t, s), Config{Keep: 1})
	r := runner("one", echo("a"))
	register(t, c, r)
	return s, c, r
}

// An idempotency key lives as long as its run. While NATS knows the run's message, a repeat gets its ids and starts
// nothing; after that the request is a new one.
func TestAKeyLivesAsLongAsItsRun(t *testing.T) {
	s, c, r := keepsOne(t)
	first := submit(t, c, echoA, "k")
	finish(t, c, claim(t, c, first.RunID, r))
	finish(t, c, claim(t, c, submit(t, c, echoA, "").RunID, r))
	c.retained.Truncate(t.Context(), retention.Step)
	if again := submit(t, c, echoA, "k"); again.RunID != first.RunID || again.SessionID != first.SessionID {
		t.Fatalf("got %+v, want %+v", again, first)
	}
	_, err := c.Show(t.Context(), first.RunID)
	wantCode(t, err, "not_found")
	forgetIDs(t, s)
	keyIsFree(t, c, first)
	active(t, c, first.RunID, "is queued", isQueued)
	finish(t, c, claim(t, c, first.RunID, r))
}

// A run is truncated, and a record that was written after it is kept, because another run had begun in between. Under
// its key nothing begins: the kept record would be taken for one of the new run.
func TestAKeyWhoseRunHasRecordsLeft(t *testing.T) {
	s, c, r := keepsOne(t)
	first := submit(t, c, echoA, "k")
	one := claim(t, c, first.RunID, r)
	second := submit(t, c, echoA, "")
	finish(t, c, one)
	finish(t, c, claim(t, c, second.RunID, r))
	c.retained.Truncate(t.Context(), retention.Step)
	if left, err := c.bus.Records(t.Context(), subject.RecordsOf(first.RunID), 0, 9); err != nil || len(left) != 1 {
		t.Fatalf("left are %v, %v", left, err)
	}
	forgetIDs(t, s)
	for _, at := range []*Coordinator{c, start(t, natstest.Open(t, s), Config{})} {
		for range 20 {
			_, err := at.Submit(t.Context(), []byte(echoA), "test", "k")
			wantCode(t, err, "no_longer_kept")
		}
	}
	if got := firstRecords(t, c, first.RunID); len(got) != 0 {
		t.Errorf("it is accepted again: %+v", got)
	}
	third := submit(t, c, echoA, "") // its end makes room
	finish(t, c, claim(t, c, third.RunID, r))
	c.retained.Truncate(t.Context(), retention.Step)
	keyIsFree(t, c, first)
	finish(t, c, claim(t, c, first.RunID, r))
}

// One coordinator truncates a run, and accepts another one under its key. A second one still knows the first run, and
// takes the new record for a late one of that. It must not purge it.
func TestAKeyThatAnotherCoordinatorHasForgotten(t *testing.T) {
	s, c, r := keepsOne(t)
	slow := start(t, natstest.Open(t, s), Config{Keep: 1})
	first := submit(t, c, echoA, "k")
	finish(t, c, claim(t, c, first.RunID, r))
	finish(t, c, claim(t, c, submit(t, c, echoA, "").RunID, r))
	c.retained.Truncate(t.Context(), retention.Step)
	forgetIDs(t, s)
	keyIsFree(t, c, first)
	natstest.Until(t, "the other one has read the record", func() bool { return len(slow.History.LateRecords()) == 1 })
	slow.retained.Truncate(t.Context(), retention.Step)
	if got := firstRecords(t, c, first.RunID); len(got) != 1 {
		t.Fatalf("the run has the records %+v", got)
	}
	natstest.Until(t, "the other one knows the run", func() bool {
		_, open := slow.History.Active(first.RunID)
		return open
	})
	finish(t, slow, claim(t, slow, first.RunID, r))
}

// keyIsFree waits until the key k makes a run with the ids of the first one. NATS takes its time to forget IDs.
func keyIsFree(t *testing.T, c *Coordinator, first runs.Accepted) {
	t.Helper()
	natstest.Until(t, "the key is free", func() bool {
		again := submit(t, c, echoA, "k")
		_, accepted := c.History.Active(again.RunID)
		return accepted && again.RunID == first.RunID && again.SessionID == first.SessionID
	})
}

// forgetIDs makes NATS forget the IDs of messages, as it does after two minutes.
func forgetIDs(t *testing.T, s *embed.Server) {
	t.Helper()
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	one, err := js.Stream(t.Context(), subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	cfg := one.CachedInfo().Config
	// NATS may look for old IDs before it takes over the new time, and then waits for the time of before.
	for _, cfg.Duplicates = range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// Two requests with one key and other bodies come to two coordinators at the same moment. Their runs have other queues
// or sessions, or one waits for a runner. One is accepted, and the other one changes nothing.
func TestOtherBodiesAtTheSameMoment(t *testing.T) {
	s := natstest.Server(t)
	at := []*Coordinator{start(t, natstest.Open(t, s), Config{}), start(t, natstest.Open(t, s), Config{})}
	r := runner("one", echo("a"), echo("b"))
	register(t, at[0], r)
	natstest.Until(t, "both know the runner", func() bool {
		_, err := at[1].Check(t.Context(), []byte(`{"agent_name":"a"}`), "test")
		return err == nil
	})
	const elsewhere = `{"agent_name":"b","additional_demands":{"hostname":"elsewhere"}}`
	for name, bodies := range map[string][2]string{
		"parameters":      {`{"agent_name":"a","parameters":{"n":1}}`, `{"agent_name":"a","parameters":{"n":2}}`},
		"queues":          {`{"agent_name":"a"}`, `{"agent_name":"a","additional_demands":{"hostname":"here"}}`},
		"one waits":       {`{"agent_name":"a"}`, elsewhere},
		"sessions":        {`{"agent_name":"a","session_id":"ses_%d-1"}`, `{"agent_name":"a","session_id":"ses_%d-5"}`},
		"an own session":  {`{"agent_name":"a","session_id":"ses_%d-3"}`, `{"agent_name":"b"}`},
		"one waits in it": {`{"agent_name":"a","session_id":"ses_%d-4"}`, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 20 {
				key := fmt.Sprint(name, i)
				body := func(n int) []byte { return []byte(strings.ReplaceAll(bodies[n], "%d", fmt.Sprint(i))) }
				var runs [2]string
				var errs [2]error
				var both sync.WaitGroup
				for n, c := range at {
					both.Go(func() {
						a, err := c.Submit(t.Context(), body(n), "test", key)
						runs[n], errs[n] = a.RunID, err
					})
				}
				both.Wait()
				won := slices.Index(errs[:], nil)
				if won < 0 || errs[1-won] == nil {
					t.Fatalf("got %v", errs)
				}
				wantCode(t, errs[1-won], "idempotency_key_reused")
				got := firstRecords(t, at[0], runs[won])
				if len(got) != 1 || got[0].Agent != bodies[won][len(`{"agent_name":"`):][:1] {
					t.Fatalf("%d won; its run has the records %+v", won, got)
				}
				for _, c := range at {
					again, err := c.Submit(t.Context(), body(won), "test", key)
					if err != nil || again.RunID != runs[won] || again.SessionID != got[0].SessionID {
						t.Fatalf("a repeat is answered with %+v, %v", again, err)
					}
				}
			}
		})
	}
}

// firstRecords returns what the queued and accepted records of a run hold, and the session records that name it.
func firstRecords(t *testing.T, c *Coordinator, id string) (all []run.Spec) {
	t.Helper()
	records, err := c.bus.Records(t.Context(), subject.AllRuns, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	sessions := 0
	for _, m := range records {
		rec, err := subject.Parse(m.Subject)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case rec.Run == id && (rec.Kind == subject.QueuedKind || rec.Kind == subject.AcceptedKind):
			q, err := run.DecodeQueued(m.Body, nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, q.Spec)
		case rec.Kind == subject.SessionKind && strings.Contains(string(m.Body), id):
			sessions++
		}
	}
	if sessions > 1 {
		t.Errorf("%d sessions begin with run %s", sessions, id)
	}
	return all
}

// Two coordinators read other definitions of an agent, and plan one request in two ways. The first record counts, and
// both give its answer.
func TestOneRequestTwoPlans(t *testing.T) {
	s := natstest.Server(t)
	var at []*Coordinator
	for _, tags := range []string{`[]`, `["nowhere"]`} { // queued here, and accepted there
		dir := t.TempDir()
		definition := `{"name":"thinker","demands":{"tags":` + tags + `}}`
		if err := os.WriteFile(filepath.Join(dir, "thinker.json"), []byte(definition), 0o600); err != nil {
			t.Fatal(err)
		}
		at = append(at, start(t, natstest.Open(t, s), Config{AgentsDirs: []string{dir}}))
	}
	register(t, at[0], runnerapi.Runner{Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv",
		ExecutorProfile: "mind", ExecutorType: run.Autonomous}, Instance: "one", MaxConcurrentRuns: 8})
	for i := range 20 {
		answers := make(chan string, 2)
		for _, c := range at {
			go func() {
				a, err := c.Submit(t.Context(), []byte(`{"agent_name":"thinker","prompt":"x"}`), "test", fmt.Sprint(i))
				answers <- fmt.Sprint(a.RunID, a.SessionID, err)
			}()
		}
		if one, two := <-answers, <-answers; one != two {
			t.Fatalf("got %s and %s", one, two)
		}
		id, _ := at[0].keys.IDs("test", fmt.Sprint(i))
		if got := firstRecords(t, at[0], id); len(got) != 1 {
			t.Fatalf("the run has the records %+v", got)
		}
	}
}

// A session is deleted, and its first run with it. Ids are not used again: a repeat gets them and starts nothing. A
// session that goes on without its first run does not begin again either.
func TestAKeyOfADeletedSession(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	r := runner("one", echo("a"))
	register(t, c, r)
	const body = `{"agent_name":"a"}`
	first := submit(t, c, body, "k")
	finish(t, c, claim(t, c, first.RunID, r))
	if err := c.DeleteSession(t.Context(), first.SessionID); err != nil {
		t.Fatal(err)
	}
	for _, at := range []*Coordinator{c, start(t, c.bus, Config{})} {
		if again := submit(t, at, body, "k"); again.RunID != first.RunID || again.SessionID != first.SessionID {
			t.Errorf("got %+v, want %+v", again, first)
		}
	}
	if got := firstRecords(t, c, first.RunID); len(got) != 0 {
		t.Errorf("it is accepted again: %+v", got)
	}
}

// Two repeats of a request with a session id of its own at the same moment: both get the first answer.
func TestConcurrentRepeatsGetOneAnswer(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	register(t, c, runner("one", echo("a")))
	for range 20 {
		body := `{"agent_name":"a","session_id":"` + run.NewSessionID() + `"}`
		answers := make(chan string, 8)
		for range cap(answers) {
			go func() {
				a, err := c.Submit(t.Context(), []byte(body), "test", body)
				answers <- fmt.Sprint(a.RunID, err)
			}()
		}
		first := <-answers
		for range cap(answers) - 1 {
			if got := <-answers; got != first {
				t.Fatalf("got %s and %s", first, got)
			}
		}
	}
}
