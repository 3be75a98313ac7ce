//go:build compose

package compose

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// keys reads the credentials that the service init created.
func (s *stack) keys(t *testing.T) {
	t.Helper()
	s.token = s.made(t, "client/admin.token")
	file := s.made(t, "publisher/nats.nk")
	if err := os.WriteFile(s.creds, []byte(file+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := users.Read("publisher", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	s.inbox = c.InboxPrefix()
}

func (s *stack) made(t *testing.T, name string) string {
	t.Helper()
	return s.docker(t, "run", "--rm", "-T", "--no-deps", "--entrypoint", "cat", "init", "/keys/"+name)
}

// publisher connects to NATS as a publisher.
func (s *stack) publisher(t *testing.T) *nats.Conn {
	t.Helper()
	login, err := nats.NkeyOptionFromSeed(s.creds)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.nats, login, nats.CustomInboxPrefix(s.inbox))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// verify runs 'ao verify', which must find no violation.
func (s *stack) verify(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.ao, "verify")
	cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("ao verify: %v\n%s", err, out)
	}
}

func checkInitOnce(t *testing.T, s *stack) {
	const sums = "cd /keys && find . -type f | sort | xargs sha256sum"
	before := s.docker(t, "run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "init", "-c", sums)
	s.docker(t, "up", "-d", "--no-build")
	if after := s.docker(t, "run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "init", "-c",
		sums); before != after || before == "" {
		t.Errorf("the second 'up' changed what init made:\n%s\nwas\n%s", after, before)
	}
	for name, profile := range map[string]string{"procedural": "procedural.procedural", "test": "autonomous.test",
		"claude": "autonomous.claude-code", "llm": "autonomous.llm"} {
		if file := s.made(t, "worker-"+name+"/nats.nk"); !strings.Contains(file, "# profiles: "+profile+"\n") {
			t.Errorf("the credential of worker-%s is not confined to %s", name, profile)
		}
	}
	if out, err := s.try("run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "worker-procedural", "-c",
		"ls /keys/coordinator /keys/client /keys/nats"); err == nil {
		t.Errorf("a worker reads other programs' keys: %s", out)
	}
}

func checkUnauthenticated(t *testing.T, s *stack) {
	for _, token := range []string{"", "Bearer aot_nobody"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http+"/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("GET /runs with %q: %s, want 401", token, resp.Status)
		}
	}
	if nc, err := nats.Connect(s.nats); err == nil {
		nc.Close()
		t.Error("NATS lets in who shows nothing")
	}
	nc := s.publisher(t)
	for _, subject := range []string{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.PURGE.RUNS", "ao.fleet.register"} {
		if m, err := nc.Request(subject, nil, 500*time.Millisecond); err == nil {
			t.Errorf("a publisher is answered on %s: %s", subject, m.Data)
		}
	}
}

func checkConfined(t *testing.T, s *stack) {
	for _, service := range []string{"coordinator", "worker-procedural"} {
		if uid := s.docker(t, "exec", "-T", service, "id", "-u"); uid == "0" {
			t.Errorf("%s runs as root", service)
		}
		if out, err := s.try("exec", "-T", service, "sh", "-c", "touch /usr/local/bin/x /etc/x"); err == nil {
			t.Errorf("%s can write to its root file system: %s", service, out)
		}
	}
	s.until(t, time.Minute, "every container is as it should be", func() error {
		for _, id := range strings.Fields(s.docker(t, "ps", "-q")) {
			if err := checkContainer(id); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkContainer returns an error for an unsafe container.
func checkContainer(id string) error {
	out, err := exec.Command("docker", "inspect", id).Output()
	if err != nil {
		return err
	}
	var all []struct {
		Name   string
		Config struct{ User string }
		State  struct {
			Running bool
			Health  *struct{ Status string }
		}
		HostConfig struct {
			ReadonlyRootfs       bool
			Memory, NanoCpus     int64
			PidsLimit            *int64
			CapDrop, SecurityOpt []string
			RestartPolicy        struct{ Name string }
			PortBindings         map[string][]struct {
				HostIP string `json:"HostIp"`
			}
		}
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return err
	}
	for _, c := range all {
		h := c.HostConfig
		var wrong []string
		for what, bad := range map[string]bool{
			"a root file system that can be written": !h.ReadonlyRootfs,
			"root": c.Config.User == "" || c.Config.User == "0" ||
				c.Config.User == "root",
			"no limit of memory":    h.Memory == 0,
			"no limit of CPU":       h.NanoCpus == 0,
			"no limit of processes": h.PidsLimit == nil || *h.PidsLimit <= 0,
			"capabilities":          len(h.CapDrop) != 1 || h.CapDrop[0] != "ALL",
			"new privileges":        !strings.Contains(strings.Join(h.SecurityOpt, " "), "no-new-privileges"),
			"no health":             c.State.Running && c.State.Health != nil && c.State.Health.Status != "healthy",
		} {
			if bad {
				wrong = append(wrong, what)
			}
		}
		for port, at := range h.PortBindings {
			for _, b := range at {
				if b.HostIP != "127.0.0.1" {
					wrong = append(wrong, port+" open to "+b.HostIP)
				}
			}
		}
		if len(wrong) > 0 {
			return errors.New(c.Name + " has " + strings.Join(wrong, ", "))
		}
	}
	return nil
}
