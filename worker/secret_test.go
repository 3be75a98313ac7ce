package worker

import (
	"testing"

	"ao/nats/natstest"
	"ao/shared/runnerapi"
)

// TestProcessSecret: registration, heartbeats, replies and deregistration carry a secret of this process.
func TestProcessSecret(t *testing.T) {
	t.Parallel()
	var secrets []string
	for range 2 {
		b := natstest.Bus(t) // each its own: the first process may say farewell twice, and late
		s := newFakeCoordinator(t, b)
		w := start(t, b, untilCanceled)
		reply := s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandPing})
		natstest.Until(t, "it is heard", func() (ok bool) { s.with(func() { ok = len(s.heartbeats) > 0 }); return ok })
		w.end(t)
		s.with(func() {
			r, err := s.registrations[0].HashSecret()
			if err != nil {
				t.Fatal(err)
			}
			if s.registrations[0].SecretHash != "" || r.SecretHash == "" || len(s.farewells) == 0 {
				t.Fatalf("%+v, %d farewells", s.registrations[0], len(s.farewells))
			}
			for _, secret := range []string{reply.Secret, s.heartbeats[0].Secret, s.farewells[0].Secret} {
				if !r.IsProcess(w.client.Instance, secret) {
					t.Errorf("%q is not the secret it registered with", secret)
				}
			}
			secrets = append(secrets, s.registrations[0].Secret)
		})
	}
	if secrets[0] == secrets[1] {
		t.Error("two processes have one secret")
	}
}
