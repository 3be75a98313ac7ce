package serve_test

import (
	"path/filepath"
	"testing"

	"ao/coordinator/projection/query"
	"ao/coordinator/serve"
)

// TestRestartFromACheckpoint: a clean end leaves one in the data folder; the next start continues from there, with what
// waits.
func TestRestartFromACheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(c *serve.Config) { c.NATS.DataDir = dir }
	s := start(t, keep)
	s.work(parrot, echo("tool"))
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":1}}`).want(200)
	s.submit(`{"agent_name":"plain","prompt":"it waits for a runner"}`)
	before := s.get("/runs").body
	s.stop()
	s.nats.Close()
	if all, err := filepath.Glob(filepath.Join(dir, "fold-*.snapshot")); err != nil || len(all) != 1 {
		t.Fatalf("there are %q %v", all, err)
	}
	s = start(t, keep)
	list := into[query.Page](s.get("/runs"), 200)
	if after := s.get("/runs").body; after != before || len(list.Runs) != 2 {
		t.Errorf("after the restart\n%s\nbefore\n%s", after, before)
	}
}
