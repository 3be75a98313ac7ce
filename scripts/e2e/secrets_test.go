package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorReportsALoginThatProgramsRead: 'ao doctor' fails if a worker's programs can read its NATS credential or one
// beside it, and passes if the worker hides both.
func TestDoctorReportsALoginThatProgramsRead(t *testing.T) {
	t.Parallel()
	s, ring, address := upGuarded(t)
	s.agent("read", `cat "$2"`, "")
	s.write("tmp/x", "")
	login := filepath.Join(ring, "worker-test", "nats.nk")
	asked := `{"file":"` + login + `"}`
	doctor := func() string {
		t.Helper()
		out, errs, code := s.ao("doctor")
		if strings.Contains(out, "worker-secrets") != (code == 1) {
			t.Errorf("ao doctor: exit code %d\n%s%s", code, out, errs)
		}
		return out
	}

	open := s.runner("open-host", as(ring, address, "worker-test")...)
	s.online("open-host")
	s.has(s.sync("read", asked), 200, "completed", "# NATS user worker-test")
	s.contains(doctor(), "worker-secrets", login, "open-host", "AO_HIDE")
	s.contains(open.log.String(), "can read a secret file of the worker", login)
	open.stop()

	hiding := func(host, path string) *program {
		t.Helper()
		p := s.runner(host, append(as(ring, address, "worker-test"), "AO_HIDE="+path, "TMPDIR="+
			filepath.Join(s.dir, "tmp"))...)
		s.until("it hides, or says that this system cannot", func() bool {
			return strings.Contains(p.log.String(), "registered") || strings.Contains(p.log.String(),
				"Landlock is not available")
		})
		if strings.Contains(p.log.String(), "Landlock is not available") {
			t.Skip(p.log.String())
		}
		return p
	}
	half := hiding("half-host", filepath.Dir(login))
	s.online("half-host")
	s.contains(doctor(), "worker-secrets", filepath.Join(ring, "coordinator", "nats.nk"), "half-host")
	half.stop()

	hiding("closed-host", ring)
	s.online("closed-host")
	refused := s.sync("read", asked)
	s.has(refused, 200, "failed", "Permission denied")
	if out := doctor(); strings.Contains(refused.text, "# NATS user") || strings.Contains(out, login) {
		t.Errorf("hidden: %s\n%s", refused.text, out)
	}
}
