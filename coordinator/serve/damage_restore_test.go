package serve_test

import (
	"bytes"
	"sync"
	"testing"

	"ao/coordinator/ledger"
	"ao/coordinator/serve"
	"ao/nats/backup"
	"ao/nats/natstest"
)

// TestRestoresAreNoDamage: backups are made while two coordinators delete sessions, and restored into new servers. The
// coordinators keep their data folders. Nothing is missing, time after time.
func TestRestoresAreNoDamage(t *testing.T) {
	t.Parallel()
	rounds := natstest.Load(3, 50)
	r, second := fill(t, 8*rounds), t.TempDir()
	other := func(c *serve.Config) { r.on(c); c.NATS.DataDir = second }
	for round := range rounds {
		two := r.another(other)
		ids := r.sessions()
		var g sync.WaitGroup
		for i, s := range []*stack{r.stack, two} {
			g.Go(func() {
				for _, id := range ids[i*len(ids)/8 : (i+1)*len(ids)/8] {
					s.call("DELETE", "/sessions/"+id, "").want(204)
				}
			})
		}
		var file bytes.Buffer
		if err := backup.Write(t.Context(), r.p.Conn(t), &file, func(backup.Stream) {}); err != nil {
			t.Fatal(err)
		}
		g.Wait()
		two.stop()
		r.stop()
		r.p.Stop()
		r.p = natstest.Proc(t, natstest.SyncAlways)
		if err := backup.Restore(t.Context(), r.p.Conn(t), &file, 1, func(backup.Stream) {}); err != nil {
			t.Fatal(err)
		}
		r.stack = start(t, r.on)
		r.work(r.starts.do, echo("tool"))
		r.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
		r.ledgerAs("nothing is missing", func(l ledger.Report) bool {
			if len(l.Damages) > 0 {
				t.Fatalf("round %d: a restore is a damage: %+v", round+1, l.Damages)
			}
			return l.OK
		})
	}
	r.starts.wantOnce(t)
}
