//go:build compose

package compose

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/disk"
	"ao/nats/subject"
	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// remembered: NATS starts on a new volume with memory mounted for batches, and logs only what is documented.
func remembered(t *testing.T, s *stack) {
	var logged []string
	for line := range strings.Lines(s.docker(t, "logs", "--no-color", "nats")) {
		if strings.Contains(line, "[WRN]") || strings.Contains(line, "[ERR]") {
			logged = append(logged, line)
		}
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "Missing stream metafile") {
		t.Errorf("NATS warns at its first start of %q", logged)
	}
	s.aside(t)
}

// aside checks that memory is mounted for batches, and that an open batch is not in the volume below.
func (s *stack) aside(t *testing.T) {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "-f", "{{json .HostConfig.Tmpfs}}",
		s.docker(t, "ps", "-q", "nats")).Output()
	var mounted map[string]string
	if err == nil {
		err = json.Unmarshal(out, &mounted)
	}
	if at := disk.Batches("/data", users.AccountCoordinators, subject.Runs); err != nil || mounted[at] == "" {
		t.Errorf("NATS has %v in memory, %v; want %s", mounted, err, at)
	}
	nc, err := s.coordinator(t)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	open := &nats.Msg{Subject: subject.Claimed("00", "open", "key"), Header: nats.Header{
		"Nats-Batch-Id": {nats.NewInbox()}, "Nats-Batch-Sequence": {"1"}}}
	if r, err := nc.RequestMsg(open, 5*time.Second); err != nil || len(r.Data) > 0 {
		t.Fatalf("NATS does not put a batch aside: %v, %+v", err, r)
	}
	volume := disk.Batches("/own/1", users.AccountCoordinators, subject.Runs)
	if left := s.docker(t, "run", "--rm", "-T", "--no-deps", "--entrypoint", "ls", "init", "-A", volume); left != "" {
		t.Errorf("the batch that is open lies on disk: %s", left)
	}
}

// coordinator connects to NATS as a coordinator.
func (s *stack) coordinator(t *testing.T) (*nats.Conn, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.nk")
	text := s.made(t, "coordinator/nats.nk")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		return nil, err
	}
	c, err := users.Read("coordinator", []byte(text))
	if err != nil {
		return nil, err
	}
	login, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, err
	}
	return nats.Connect(s.nats, login, nats.CustomInboxPrefix(c.InboxPrefix()))
}

// killed kills NATS while batches arrive, which also loses the batches in memory. Acknowledged records must survive.
func killed(t *testing.T, s *stack) {
	l := s.load(t)
	l.more("before NATS is killed")
	for range 3 {
		s.kill(t, "nats")
		s.docker(t, "start", "nats")
		l.more("after NATS was killed")
	}
	l.settle("three kills of NATS")
	s.aside(t)
	s.verify(t)
}

// kill kills a service's container.
func (s *stack) kill(t *testing.T, service string) {
	t.Helper()
	if out, err := exec.Command("docker", "kill", "-s", "KILL",
		s.docker(t, "ps", "-q", service)).CombinedOutput(); err != nil {
		t.Fatalf("docker kill: %v\n%s", err, out)
	}
}
