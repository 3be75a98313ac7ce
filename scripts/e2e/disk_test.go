package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
)

// smallStack runs everything in one process, or a coordinator with embedded NATS and a worker, on a small disk.
func smallStack(t *testing.T, program string) (*stack, *natstest.Disk) {
	t.Helper()
	d := natstest.SmallDisk(t, 256<<20)
	dir := t.TempDir()
	addr, nats := natstest.FreeAddr(t), natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "http://" + addr, agents: filepath.Join(dir, "agents")}
	s.write("profiles/test.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents","max_concurrent_runs":4}`)
	s.agent("quick", startNote+`echo '{"ok":true}'`, "")
	s.env = []string{"AO_NATS_URL=embed", "AO_NATS_LISTEN=" + nats, "AO_HTTP_ADDR=" + addr, "AO_DATA_DIR=" +
		filepath.Join(d.Dir, "data"), "AO_URL=" + s.url,
		"AO_PROFILES_DIR=" + filepath.Join(dir, "profiles"), "AO_PROFILES=test", "RUN_LEASE=10s"}
	s.coordinator = launchOn(t, d, program, dir, s.env)
	s.ready()
	if program != "allinone" {
		launch(t, "worker", dir, append(s.env, "AO_NATS_URL=nats://"+nats, "AO_DATA_DIR="+filepath.Join(dir, "worker")))
	}
	s.until("a worker is online", func() bool { return s.get("/runners").at("runners.0.status") == "online" })
	return s, d
}

// acceptsRuns posts a run with a large input.
func acceptsRuns(s *stack, n int) reply {
	body := fmt.Sprintf(`{"agent_name":"quick","parameters":{"x":%q}}`, strings.Repeat("x", 16<<10))
	return s.post("/runs", body, "Idempotency-Key", fmt.Sprint("disk-", n))
}

// A full disk under embedded NATS: every endpoint reports it soon, accepted runs end, and with free space everything
// continues by itself.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"allinone", "coordinator"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			s, d := smallStack(t, program)
			var ids []string
			n := 0
			fill := func() {
				d.Fill()
				s.until("a run is refused for the disk", func() bool {
					n++
					began := time.Now()
					r := acceptsRuns(s, n)
					if took := time.Since(began); took > 5*time.Second { // two where nobody else needs this machine
						t.Errorf("%d after %v: %s", r.code, took, r.text)
					}
					if r.code == 201 {
						ids = append(ids, r.at("run_id"))
					}
					return r.code == 503 && strings.Contains(r.at("message"), "disk") &&
						r.header.Get("Retry-After") != ""
				})
			}
			for n < 5 {
				n++
				ids = append(ids, acceptsRuns(s, n).at("run_id"))
			}
			s.verify(ids)
			fill()
			s.until("it is not ready, for the disk", func() bool {
				r := s.get("/ready")
				return r.code == 503 && strings.Contains(r.text, "disk")
			})
			began := time.Now()
			s.has(acceptsRuns(s, 0), 503, "disk")
			if took := time.Since(began); took > time.Second {
				t.Errorf("when it is known, a run is refused after %v", took)
			}
			s.has(s.get("/runs/"+ids[0]), 200, "completed")
			s.contains(s.get("/metrics").text, `ao_nats_storage_failing{connection="ao-coordinator"} 1`, "ao_ready 0",
				"ao_nats_disk_free_bytes")
			out, errs, code := s.ao("doctor")
			if code == 0 {
				t.Errorf("doctor reports no failure: %s %s", out, errs)
			}
			s.contains(out, "nats-storage", "free space")
			d.Free()
			s.until("it is ready again", func() bool { return s.get("/ready").code == 200 })
			s.until("a run is taken again", func() bool {
				r := acceptsRuns(s, 0)
				if r.code == 201 {
					ids = append(ids, r.at("run_id"))
				}
				return r.code == 201
			})
			if statuses := s.verify(ids); statuses["completed"] == 0 {
				t.Errorf("statuses %v", statuses)
			}
			s.contains(s.get("/metrics").text, `ao_nats_storage_failing{connection="ao-coordinator"} 0`, "ao_ready 1")
			if out, errs, code := s.ao("verify"); code != 0 {
				t.Errorf("verify: %d %s %s", code, out, errs)
			}
			fill()
			began = time.Now()
			s.coordinator.signal(syscall.SIGINT)
			select {
			case <-s.coordinator.done:
			case <-time.After(30 * time.Second):
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it ended %v after Ctrl-C", took)
			}
			d.Free()
		})
	}
}
