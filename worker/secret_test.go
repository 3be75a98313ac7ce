package worker

import (
	"testing"

	"ao/nats/natstest"
	"ao/shared/runnerapi"
)

// TestAProcessProvesItself: registration, heartbeats, replies and farewell carry a secret that no other process has.
func TestAProcessProvesItself(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newBoss(t, b)
	var secrets []string
	for range 2 {
		s.with(func() { s.joins, s.beats, s.byes = nil, nil, nil })
		w := start(t, b, untilCut)
		reply := s.tell(w.Worker, runnerapi.Command{Type: runnerapi.CommandPing})
		natstest.Until(t, "it is heard", func() (ok bool) { s.with(func() { ok = len(s.beats) > 0 }); return ok })
		w.end(t)
		s.with(func() {
			r, err := s.joins[0].Admitted()
			if err != nil {
				t.Fatal(err)
			}
			if s.joins[0].Proof != "" || r.Proof == "" || len(s.byes) == 0 {
				t.Fatalf("%+v, %d farewells", s.joins[0], len(s.byes))
			}
			for _, secret := range []string{reply.Secret, s.beats[0].Secret, s.byes[0].Secret} {
				if !r.IsProcess(w.me.Instance, secret) {
					t.Errorf("%q is not the secret it registered with", secret)
				}
			}
			secrets = append(secrets, s.joins[0].Secret)
		})
	}
	if secrets[0] == secrets[1] {
		t.Error("two processes have one secret")
	}
}
