package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
)

// natsServer builds nats-server of a version, in a module of its own, and starts it. It returns the address.
func natsServer(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	module := "module natsserver\n\ngo 1.26.0\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	const path = "github.com/nats-io/nats-server/v2"
	for _, args := range [][]string{{"get", path + "@" + version}, {"build", "-o", "nats-server", path}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	addr := natstest.FreeAddr(t)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(dir, "nats-server"), "-a", host, "-p", port, "-js", "-sd", dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	natstest.Until(t, "nats-server "+version+" listens", func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "nats://" + addr
}

// TestNATSVersions backs up one nats-server and restores into another one, in both directions. One is of a version in
// AO_TEST_NATS (separated by spaces), which the test builds. The other is part of this project.
func TestNATSVersions(t *testing.T) {
	versions := strings.Fields(os.Getenv("AO_TEST_NATS"))
	if len(versions) == 0 {
		t.Skip("AO_TEST_NATS names no versions, such as v2.12.15; it builds each of them")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			older := natsServer(t, version)
			if err := bus.CheckServer(strings.TrimPrefix(version, "v")); err != nil {
				isRefused(t, older, err.Error())
				return
			}
			t.Run("into ours", func(t *testing.T) { moves(t, older, natstest.Proc(t).URL(), "") })
			t.Run("from ours", func(t *testing.T) {
				ours, refusal := natstest.Proc(t), ""
				if v := minor(ours.Conn(t).ConnectedServerVersion()); minor(version).Before(v) {
					refusal = "cannot read it; restore it with " + v.String() + " or newer"
				}
				moves(t, ours.URL(), natsServer(t, version), refusal)
			})
		})
	}
}

func minor(version string) bus.ServerVersion {
	v, _ := bus.ParseServerVersion(version)
	return v
}

// isRefused requires that a coordinator and a restore say why that NATS cannot be used.
func isRefused(t *testing.T, nats, why string) {
	t.Helper()
	ours := natstest.Proc(t).URL()
	s := upOn(t, ours)
	file := filepath.Join(s.dir, "all.backup")
	if _, errs, code := s.exec("ao", "", []string{"AO_NATS_URL=" + ours}, "backup", file); code != 0 {
		t.Fatalf("ao backup: exit code %d\n%s", code, errs)
	}
	on := []string{"AO_NATS_URL=" + nats, "AO_DATA_DIR=" + t.TempDir(), "AO_HTTP_ADDR=127.0.0.1:0"}
	for name, args := range map[string][]string{"ao": {"restore", file}, "coordinator": nil} {
		out, errs, code := s.exec(name, "", on, args...)
		if code != 1 || !strings.Contains(out+errs, why) {
			t.Errorf("%s: exit code %d, want 1 and %q\n%s%s", name, code, why, out, errs)
		}
	}
}

// moves runs a deployment on one NATS, restores a backup of it into another one, and runs it there. With a refusal
// the other NATS must refuse the backup with that text.
func moves(t *testing.T, from, to, refusal string) {
	t.Helper()
	s := upOn(t, from)
	agents := func(s *stack) {
		s.agent("quick", `echo '{"quick":true}'`, "")
		s.agent("large", `printf '{"large":"'; head -c 600000 /dev/zero | tr '\0' x; echo '"}'`, "")
	}
	agents(s)
	w := s.worker()
	ended := s.run(`{"agent_name":"quick"}`)
	s.status(ended, "completed")
	large := s.run(`{"agent_name":"large"}`)
	s.status(large, "completed")
	w.stop()
	waiting := s.run(`{"agent_name":"quick"}`)
	s.coordinator.stop()
	file := filepath.Join(s.dir, "all.backup")
	if _, errs, code := s.exec("ao", "", []string{"AO_NATS_URL=" + from}, "backup", file); code != 0 {
		t.Fatalf("ao backup: exit code %d\n%s", code, errs)
	}
	_, errs, code := s.exec("ao", "", []string{"AO_NATS_URL=" + to}, "restore", file)
	if refusal != "" {
		if code != 1 || !strings.Contains(errs, refusal) {
			t.Errorf("ao restore: exit code %d, want 1 and %q\n%s", code, refusal, errs)
		}
		return
	}
	if code != 0 {
		t.Fatalf("ao restore: exit code %d\n%s", code, errs)
	}
	r := upOn(t, to, "AO_DATA_DIR="+filepath.Join(s.dir, "data"))
	agents(r)
	if out, errs, code := r.ao("verify"); code != 0 {
		t.Errorf("ao verify: exit code %d\n%s%s", code, out, errs)
	}
	r.worker()
	for _, id := range []string{ended, large, waiting, r.run(`{"agent_name":"quick"}`)} {
		r.status(id, "completed")
	}
	if got := r.get("/runs/" + large + "/result").text; len(got) < 600_000 {
		t.Errorf("the large result has %d bytes: %.300s", len(got), got)
	}
	if out, errs, code := r.ao("verify"); code != 0 {
		t.Errorf("ao verify after more runs: exit code %d\n%s%s", code, out, errs)
	}
}
