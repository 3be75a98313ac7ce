package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/coordinator/runs"
	"ao/coordinator/sessions"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/nats-io/nats.go"
)

// A young result may exist although a read does not find it. The parent is called back when the result can be read. A
// result that is still missing a minute later counts as none.
func TestAParentIsNotCalledBackTooSoonWithoutAResult(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	raw, err := json.Marshal(results("the whole answer").Result)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	// parentAndChild returns a parent that waits, and its child with a result whose payload nobody finds.
	parentAndChild := func(ended time.Time) (parent, child runs.Accepted) {
		parent = f.start("")
		f.ends(parent.RunID, results("ok"))
		child = f.child(parent.SessionID)
		a := f.claim(child.RunID)
		put(t, f.c.bus, subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), run.Ended{
			V: run.Version, SessionID: a.Spec.SessionID, RunnerID: f.r.ID(), Nonce: "n", Attempt: 1,
			Status: run.Completed, At: ended,
			Body: &run.Payload{Name: child.RunID + ".out", Parts: 1, Size: int64(len(raw)),
				SHA256: hex.EncodeToString(sum[:])},
		})
		return parent, child
	}
	old, _ := parentAndChild(time.Now().Add(-2 * record.ReplicaLag))
	if _, prompt := f.turn(old.SessionID); !strings.Contains(prompt, "(No result available)") {
		t.Errorf("long after the end:\n%s", prompt)
	}
	young, child := parentAndChild(time.Now())
	natstest.Until(t, "it was tried to tell the parent", func() bool {
		p := f.c.Telling.Pool
		_, busy := p.Busy()[young.SessionID]
		rests := !busy && !p.Go(t.Context(), young.SessionID, "", func(context.Context) error { return nil })
		return rests || f.call(child.RunID).Status == run.CallbackDelivered
	})
	if err := f.c.bus.PutPart(t.Context(), child.RunID+".out", 0, raw); err != nil {
		t.Fatal(err)
	}
	if _, prompt := f.turn(young.SessionID); !strings.Contains(prompt, "the whole answer") {
		t.Errorf("the result could be found later; got\n%s", prompt)
	}
}

// A coordinator whose projection is behind does not abandon an attempt that it has not read yet. One that has read all
// abandons whatever does not belong to the run.
func TestHeartbeatOfAnUnreadAttempt(t *testing.T) {
	a, b, slow := pair(t)
	r := runner("one", echo("tool"))
	answers(t, a.bus, r)
	register(t, a, r)
	id := submit(t, a, `{"agent_name":"tool","parameters":{"prompt":"x"},"max_attempts":2}`, "").RunID
	first := claim(t, a, id, r)
	natstest.Until(t, "the other one has read the claim", func() bool {
		at, ok := b.History.Active(id)
		return ok && at.Claim != nil
	})

	slow.mu.Lock() // from here on it reads nothing
	put(t, a.bus, subject.Ended(subject.Partition(first.Spec.SessionID), id, first.Key), run.Ended{V: run.Version,
		SessionID: first.Spec.SessionID, Nonce: "n", Attempt: 1, Status: run.Failed, At: time.Now()})
	active(t, a, id, "is queued again", func(at state.Active) bool { return at.Attempt == 2 && isQueued(at) })
	second := claim(t, a, id, r)
	abandoned := func(key string) []string {
		return heartbeat(t, b, runnerapi.Heartbeat{RunnerID: r.ID(), Instance: r.Instance,
			Attempts: []runnerapi.Attempt{{RunID: id, Key: key}}}).Abandoned
	}
	if got := abandoned(second.Key); len(got) > 0 {
		t.Error("a running attempt was abandoned")
	}
	slow.mu.Unlock()
	natstest.Until(t, "an attempt that nobody claimed is abandoned",
		func() bool { return slices.Equal(abandoned("another"), []string{"another"}) })
	for key, want := range map[string][]string{first.Key: {first.Key}, second.Key: nil} {
		if got := abandoned(key); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A coordinator that cannot read on refuses nothing for good, and reports nothing as done, by what it read last.
func TestLaggingCoordinatorGivesNoFinalAnswer(t *testing.T) {
	a, b, slow := pair(t)
	f := newFixture(t, a)
	first := f.start("")
	f.ends(first.RunID, results("ok"))
	natstest.Until(t, "the other one has read the end", func() bool { return b.History.Ended(first.RunID) })

	slow.mu.Lock()
	id := submit(t, a, `{"session_id":"`+first.SessionID+`","prompt":"go on"}`, "").RunID
	at := f.claim(id)
	token := runnerapi.SessionToken(id, 1, at.Key)
	name, _ := runnerapi.StateName(runnerapi.StatePointer(id, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for what, ask := range map[string]func() error{
		"a session token": func() error { _, err := b.SessionOf(ctx, token); return err },
		"a state": func() error {
			_, err := b.WorkerAPI.Payloads.Put(ctx, runnerapi.PartRequest{RunID: id, Attempt: 1, Key: at.Key,
				Name: name, Body: []byte("x")})
			return err
		},
		"the stop of a session": func() error {
			_, err := b.StopSession(ctx, first.SessionID, sessions.Stop{})
			return err
		},
		"the deletion of a session": func() error { return b.DeleteSession(ctx, first.SessionID) },
	} {
		wg.Go(func() {
			if err := ask(); !errors.Is(err, context.DeadlineExceeded) && fault.KindOf(err) != fault.Unavailable {
				t.Errorf("%s: got %v", what, err)
			}
		})
	}
	wg.Wait()
	slow.mu.Unlock()
	natstest.Until(t, "the session is stopped",
		func() bool { _, err := b.StopSession(t.Context(), first.SessionID, sessions.Stop{}); return err == nil })
	if now, ok := b.History.Active(id); !ok || !now.Stopping {
		t.Errorf("its turn was not stopped: %+v", now)
	}
	if session, err := b.SessionOf(t.Context(), token); err != nil || session != first.SessionID {
		t.Errorf("got %s, %v", session, err)
	}
}

// pair is two coordinators, the second on a way to NATS of its own.
func pair(t *testing.T) (a, b *Coordinator, slow *link) {
	t.Helper()
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	a = start(t, natstest.Open(t, s), Config{})
	slow = &link{}
	nc, err := nats.Connect(s.URL(), append(bus.Options(t.Name(), natstest.Log(t)), nats.SetCustomDialer(slow))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	behind, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	return a, start(t, behind, Config{}), slow
}

// link is a way to NATS on which nothing comes while its lock is held.
type link struct{ mu sync.Mutex }

func (l *link) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return heldConn{c, l}, err
}

type heldConn struct {
	net.Conn
	*link
}

func (h heldConn) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	return n, err
}
