//go:build newcomer

package newcomer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
)

// callers start runs, each with a key that is repeated until it is answered. None may be refused for good.
type callers struct {
	r    *reader
	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]string // runs by key
}

// callersAtOnce is how many there are: each has one run in progress.
const callersAtOnce = 3

func (r *reader) callers() *callers {
	c := &callers{r: r, stop: make(chan struct{}), accepted: map[string]string{}}
	for who := range callersAtOnce {
		c.wg.Go(func() {
			pause := time.NewTicker(100 * time.Millisecond)
			defer pause.Stop()
			for n := 0; ; n++ {
				c.call(fmt.Sprintf("%d-%d", who, n))
				select {
				case <-c.stop:
					return
				case <-pause.C:
				}
			}
		})
	}
	return c
}

// call starts a run, or repeats the request for it.
func (c *callers) call(key string) {
	answered := natstest.Poll(3*time.Minute, func() bool {
		req, err := http.NewRequestWithContext(c.r.t.Context(), http.MethodPost, "http://"+c.r.http+"/runs",
			strings.NewReader(`{"agent_name":"hello"}`))
		if err != nil {
			c.r.t.Error(err)
			return true
		}
		req.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return c.r.t.Context().Err() != nil
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		var made struct {
			RunID string `json:"run_id"`
		}
		switch {
		case err != nil || res.StatusCode == 503:
			return false
		case res.StatusCode != 201 || json.Unmarshal(raw, &made) != nil:
			c.r.t.Errorf("run %s is refused for good: %s %s", key, res.Status, raw)
			return true
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepted[key] = made.RunID
		return true
	})
	if !answered {
		c.r.t.Errorf("run %s was not answered within three minutes", key)
	}
}

// runs returns what was accepted so far.
func (c *callers) runs() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for key, id := range c.accepted {
		all[key] = id
	}
	return all
}

// more waits until so many further runs are accepted.
func (c *callers) more(n int) {
	c.r.t.Helper()
	n += len(c.runs())
	natstest.Until(c.r.t, "more runs are accepted", func() bool { return len(c.runs()) >= n })
}

// end ends the callers. Each of their runs completes, but for the few that the backup caught in progress.
func (c *callers) end() {
	c.r.t.Helper()
	close(c.stop)
	c.wg.Wait()
	caught := 0
	for _, id := range c.runs() {
		end := c.r.get("/runs/"+id+"/wait?timeout_seconds=30", `"completed_at":"`, time.Minute)
		switch {
		case strings.Contains(end, `"status":"completed"`):
		case strings.Contains(end, `"its runner was restarted"`) && caught < callersAtOnce:
			caught++
		default:
			c.r.t.Errorf("run %s: %.2000s", id, end)
		}
	}
	c.r.run("ao verify", "", 30*time.Second)
}

// TestOperatingScriptsUp: a worker more, a backup and a restore, as operating.md says for scripts/up, while callers
// start runs. Nothing that was accepted before the backup is lost. What came later is done when it is asked for again.
func TestOperatingScriptsUp(t *testing.T) {
	r := newReader(t)
	r.exports = []string{"export PATH=$PWD/bin:$PATH", "export AO_PROFILES_DIR=$PWD/worker/profiles"}
	const page = "shared/docs/operating.md"
	backup := r.lines(page, "## Back up and restore")
	build, restore := -1, -1
	for i, line := range backup {
		switch {
		case strings.HasPrefix(line, "go build "):
			build = i
		case strings.HasPrefix(line, "bin/ao restore "):
			restore = i
		}
	}
	if build < 0 || restore != build+3 || len(backup) != build+6 {
		t.Fatalf("the lines for scripts/up are others now: %q", backup)
	}
	up := r.up(backup[build+5])
	all := r.callers()
	all.more(20)

	r.run("go build -o bin/ ./worker/cmd/worker", "", 0)
	server := "AO_NATS_URL=nats://" + r.nats + " "
	more := r.start(server + "AO_HOSTNAME=another AO_PROFILES=procedural bin/worker")
	r.get("/runners", `"hostname":"another"`, time.Minute)
	all.more(20)
	r.run(`curl -s localhost:8765/runs -d '{"agent_name":"hello","mode":"sync","additional_demands":`+
		`{"hostname":"another"}}'`, `"status":"completed"`, time.Minute)
	more.interrupt()
	all.more(20)

	file := filepath.Join(r.folder, "ao.backup")
	before := all.runs()
	r.run(server+"ao backup "+file, "RUNS", 0)
	i := slices.Index(backup, "ao runs --status pending --all")
	if i < 0 {
		t.Fatalf("no command lists what waits: %q", backup)
	}
	r.run(backup[i], "", 30*time.Second)
	all.more(20)
	up.interrupt()
	r.run(backup[build], "", 0)
	r.run(backup[build+1], "", 0)
	nats := r.start(backup[build+2])
	r.run(server+strings.Replace(backup[restore], "FILE", file, 1), "", 30*time.Second)
	nats.interrupt()
	look := r.start(backup[build+4])
	r.get("/ready", "", time.Minute)
	look.interrupt()
	r.up(backup[build+5])
	all.more(20)
	for key := range all.runs() {
		all.call(key)
	}
	for key, id := range before {
		if now := all.runs()[key]; now != id {
			t.Errorf("run %s was %s before the backup, and is %s after the restore", key, id, now)
		}
	}
	all.end()
}
