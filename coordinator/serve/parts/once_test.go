package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"ao/coordinator/control/retention"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// An idempotency key outlives its run once more than RUN_KEEP runs have ended since. The run must not be executed
// twice, even if fewer runs are left afterwards or RUN_KEEP is raised.
func TestIdempotencyKeyOutlivesItsRun(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{Keep: 1})
	r := runner("one", echo("a"))
	register(t, c, r)
	const body = `{"agent_name":"a"}`
	first := submit(t, c, body, "k")
	finish(t, c, claim(t, c, first.RunID, r))
	last := submit(t, c, body, "")
	finish(t, c, claim(t, c, last.RunID, r))
	c.retained.Truncate(t.Context(), retention.Step)
	nothing := func(c *Coordinator, when string) {
		t.Helper()
		again := submit(t, c, body, "k")
		if err := c.reads.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, there := c.History.Active(first.RunID); there || again.RunID != first.RunID {
			t.Fatalf("%s: got %s again after %s; it is started again: %t", when, again.RunID, first.RunID, there)
		}
		_, err := c.Show(t.Context(), again.RunID)
		wantCode(t, err, "no_longer_kept")
		_, err = c.Session(t.Context(), again.SessionID)
		wantCode(t, err, "no_longer_kept")
		_, err = c.Show(t.Context(), run.NewID())
		wantCode(t, err, "not_found")
		_, err = c.Session(t.Context(), run.NewSessionID())
		wantCode(t, err, "not_found")
	}
	nothing(c, "truncated")
	nothing(start(t, c.bus, Config{Keep: 1000}), "more may be kept")
	if err := c.DeleteSession(t.Context(), last.SessionID); err != nil {
		t.Fatal(err)
	}
	nothing(c, "fewer are left")
}

// A coordinator died between key and run: the repeat stores the run, also where history has been truncated.
func TestAKeyWithoutARunStoresIt(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{Keep: 1})
	r := runner("one", echo("a"))
	register(t, c, r)
	const body = `{"agent_name":"a"}`
	for range 3 {
		finish(t, c, claim(t, c, submit(t, c, body, "").RunID, r))
	}
	c.retained.Truncate(t.Context(), retention.Step)
	sum, name := sha256.Sum256([]byte(body)), sha256.Sum256([]byte("test\x00k"))
	state, err := c.bus.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left := runs.IdempotencyRecord{Body: sum[:], Run: run.NewID(), Session: run.NewSessionID(), Last: state.Last}
	raw, err := json.Marshal(left)
	if err == nil {
		_, err = c.bus.Bucket(subject.Idempotency).Create(t.Context(), hex.EncodeToString(name[:]), raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a := submit(t, c, body, "k"); a.RunID != left.Run || a.SessionID != left.Session {
		t.Errorf("got %+v, want %+v", a, left)
	}
	active(t, c, left.Run, "is queued", isQueued)
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
