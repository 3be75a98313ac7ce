package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A container's health check: a worker with a coordinator is healthy; one without, or one that hangs, is not.
func TestWorkerHealthCheck(t *testing.T) {
	t.Parallel()
	s := up(t)
	env := []string{"AO_HEALTH_FILE=" + filepath.Join(s.dir, "health")}
	pace := time.NewTicker(200 * time.Millisecond) // each look is a process
	defer pace.Stop()
	well := func(want string) func() bool {
		return func() bool {
			<-pace.C
			out, errs, code := s.exec("worker", "", env, "health")
			if (code == 0) != (want == "") {
				return false
			}
			return strings.Contains(out+errs, want)
		}
	}
	if !well("no worker runs with this AO_HEALTH_FILE")() {
		t.Error("before there is a worker it is well")
	}
	s.agent("a", "echo 1", "")
	other := filepath.Join(s.dir, "other")
	if err := os.Symlink(other, filepath.Join(s.dir, "health")); err != nil { // as a run's program could
		t.Fatal(err)
	}
	w := s.worker(env...)
	s.until("the worker is well", well(""))
	if _, err := os.Stat(other); err == nil {
		t.Error("the worker wrote through a link")
	}
	s.coordinator.kill()
	s.within(time.Minute, "nobody answers it, and it says so", well("its heartbeats are not answered"))
	s.coordinator.start()
	s.ready()
	s.until("it is well again", well(""))
	w.signal(syscall.SIGSTOP)
	s.within(time.Minute, "it hangs, and that is seen", well("the worker hangs"))
	w.signal(syscall.SIGCONT)
	s.until("it is well once more", well(""))
	w.stop()
	if !well("no worker runs with this AO_HEALTH_FILE")() {
		t.Error("a worker that ended is well")
	}
}
