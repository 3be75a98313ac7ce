package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// A key outlives its run where more than RUN_KEEP runs have ended since: the run must not be done twice.
func TestAKeyWhoseRunIsHistoryBeginsNothing(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{Keep: 1})
	r := runner("one", echo("a"))
	register(t, c, r)
	const body = `{"agent_name":"a"}`
	first := submit(t, c, body, "k")
	finish(t, c, claim(t, c, first.RunID, r))
	finish(t, c, claim(t, c, submit(t, c, body, "").RunID, r))
	c.truncate(t.Context())
	again := submit(t, c, body, "k")
	if err := c.caughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, there := c.Journal.Active(first.RunID); there || again.RunID != first.RunID {
		t.Errorf("got %s again after %s; it is begun anew: %t", again.RunID, first.RunID, there)
	}
}

// A coordinator died between key and run: the repeat stores the run, also where history has been truncated.
func TestAKeyWithoutARunStoresIt(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{Keep: 1})
	r := runner("one", echo("a"))
	register(t, c, r)
	const body = `{"agent_name":"a"}`
	for range 3 {
		finish(t, c, claim(t, c, submit(t, c, body, "").RunID, r))
	}
	c.truncate(t.Context())
	sum, name := sha256.Sum256([]byte(body)), sha256.Sum256([]byte("test\x00k"))
	left := once{Body: sum[:], Run: run.NewID(), Session: run.NewSessionID(), At: time.Now().UTC()}
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
