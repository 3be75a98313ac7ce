package serve_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"ao/coordinator/ledger"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// TestALostTailOfTheSyncInterval: with AO_NATS_SYNC, NATS may lose what it took within that time. That is logged. What
// is older is a damage.
func TestALostTailOfTheSyncInterval(t *testing.T) {
	t.Parallel()
	for sync, tolerated := range map[string]bool{"10m": true, "1s": false} {
		t.Run(sync, func(t *testing.T) {
			t.Parallel()
			r, log := fill(t, 80), &logBuffer{}
			r.stop()
			synced := func(c *serve.Config) {
				r.on(c)
				c.NATS.DataDir, c.NATS.Sync, c.Log = t.TempDir(), sync, slog.New(slog.NewTextHandler(log, nil))
				r.dir = c.NATS.DataDir
			}
			s := start(t, synced)
			s.work(r.starts.do, echo("tool"))
			for range 20 {
				s.post("/runs", `{"agent_name":"tool","mode":"sync"}`).want(200)
			}
			natstest.Until(t, "the mark has the last record, and knows when it is synced", func() bool {
				state, err := s.bus.State(t.Context())
				var m struct{ Sequence, Durable uint64 }
				raw, _ := os.ReadFile(r.dir + "/highwater.json")
				return err == nil && json.Unmarshal(raw, &m) == nil && m.Sequence == state.Last &&
					(m.Durable == state.Last) != tolerated
			})
			r.p.Kill()
			r.p.FlipBit(subject.Runs, 0.98)
			r.p.Start()
			want := "NATS lost records that it had not synced yet (AO_NATS_SYNC)"
			if !tolerated {
				want = "THE HISTORY IS DAMAGED"
			}
			natstest.Until(t, "the log has: "+want, func() bool { return log.has(want) })
			s.ledgerAs("the ledger answers", func(l ledger.Report) bool {
				if tolerated && len(l.Damages) > 0 {
					t.Errorf("what was not synced is a damage: %+v", l.Damages)
				}
				return tolerated || resolved(l)
			})
			natstest.Until(t, "the coordinator is ready", func() bool { return s.get("/ready").status == 200 })
			s.post("/runs", `{"agent_name":"tool","mode":"sync"}`).want(200)
		})
	}
}
