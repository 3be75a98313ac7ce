package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
)

// deployed is a file of scripts/deploy.
func deployed(name string) string { return filepath.Join(root(), "scripts", "deploy", name) }

// TestBackupsAreKeptAndRestored: the backup script of the timers keeps the newest files, and the restore drill proves
// one beside the running deployment.
func TestBackupsAreKeptAndRestored(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("echo", `echo '{}'`, "")
	s.worker()
	id := s.run(`{"agent_name":"echo"}`)
	s.ended(id)
	programs := t.TempDir()
	runCommand(t, root(), "go", "build", "-o", filepath.Join(programs, "nats-server"),
		"github.com/nats-io/nats-server/v2")
	script := func(env []string, name string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), deployed(name), args...)
		c.Env = append(append(os.Environ(), "PATH="+bin+":"+programs+":"+os.Getenv("PATH")), append(s.env, env...)...)
		c.Dir = t.TempDir()
		out, err := c.CombinedOutput()
		return string(out), err
	}
	folder := t.TempDir()
	for _, name := range []string{"ao-20250101T000000Z.backup", "ao-20250102T000000Z.backup", "other.backup"} {
		writeFile(t, filepath.Join(folder, name), "old")
	}
	if out, err := script([]string{"KEEP=2"}, "backup/ao-backup", folder); err != nil {
		t.Fatalf("ao-backup: %v %s", err, out)
	}
	kept, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(kept) != 3 || filepath.Base(kept[0]) != "ao-20250102T000000Z.backup" ||
		filepath.Base(kept[2]) != "other.backup" {
		t.Fatalf("it kept %v %v; want the newest two and what is not its own", kept, err)
	}
	if info, err := os.Stat(kept[1]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v", info.Mode(), err)
	}

	ports := func() []string {
		port := func() string { return natstest.FreeAddr(t)[len("127.0.0.1:"):] }
		return []string{"NATS_PORT=" + port(), "HTTP_PORT=" + port()}
	}
	if out, err := script(ports(), "backup/restore-drill", kept[1]); err != nil || !strings.Contains(out, "passed") {
		t.Errorf("restore-drill: %v %s", err, out)
	}
	whole, err := os.ReadFile(kept[1])
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(folder, "half")
	writeFile(t, half, string(whole[:len(whole)/2]))
	if out, err := script(ports(), "backup/restore-drill", half); err == nil {
		t.Errorf("a file that was cut passes the drill: %s", out)
	}

	if onCluster {
		return // one server may be away
	}
	s.nats.Kill()
	if out, err := script([]string{"KEEP=1"}, "backup/ao-backup", folder); err == nil {
		t.Errorf("a backup without NATS succeeds: %s", out)
	}
	if still, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(still) != 4 {
		t.Errorf("a failed backup left %v %v", still, err)
	}
}

// TestNginxPassesStreams: the example of a reverse proxy serves TLS, passes events on at once, and passes over a
// coordinator that is down.
func TestNginxPassesStreams(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath(filepath.Join(root(), "bin", "nginx"))
	if err != nil {
		program, err = exec.LookPath("nginx")
	}
	if err != nil {
		t.Skip("SKIPPED: there is no nginx here (scripts/get-nginx)")
	}
	s := up(t)
	s.agent("gate", gate, "")
	s.worker()
	other := s.another()
	dir, addr := t.TempDir(), natstest.FreeAddr(t)
	if _, errs, code := s.exec("ao", "", nil, "init", "--dir", dir, "--tls", "--host", "127.0.0.1"); code != 0 {
		t.Fatal(errs)
	}
	example, err := os.ReadFile(deployed("proxy/nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]string{
		{"10.0.0.11:8765", s.url[len("http://"):]},
		{"10.0.0.12:8765", other.url[len("http://"):]},
		{"listen 443 ssl", "listen " + addr + " ssl"},
		{"/etc/nginx/tls/ao.crt", dir + "/coordinator/http.crt"},
		{"/etc/nginx/tls/ao.key", dir + "/coordinator/http.key"},
	} {
		if !strings.Contains(string(example), r[0]) {
			t.Fatalf("the example has no %s", r[0])
		}
		example = []byte(strings.Replace(string(example), r[0], r[1], 1))
	}
	config := filepath.Join(dir, "nginx.conf")
	writeFile(t, config, "daemon off;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"+
		"client_body_temp_path "+dir+"/body;\nproxy_temp_path "+dir+"/proxy;\nfastcgi_temp_path "+dir+"/f;\n"+
		"uwsgi_temp_path "+dir+"/u;\nscgi_temp_path "+dir+"/s;\n"+string(example)+"}\n")
	runCommand(t, dir, program, "-t", "-q", "-c", config)
	ctx, cancel := context.WithCancel(context.Background())
	nginx := exec.CommandContext(ctx, program, "-c", config)
	nginx.Cancel = func() error { return nginx.Process.Signal(os.Interrupt) }
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = nginx.Wait() })

	ca, err := os.ReadFile(filepath.Join(dir, "client", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	https := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	ask := func(path string) (*http.Response, error) { return https.Get("https://" + addr + path) }
	s.until("the proxy serves", func() bool {
		res, err := ask("/ready")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == 200
	})
	id := s.run(`{"agent_name":"gate","parameters":{"name":"nginx"}}`)
	s.waitGate("nginx")
	res, err := ask("/sse/sessions?session_id=" + s.get("/runs/"+id).at("session_id"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	opened := false
	for lines.Scan() {
		if lines.Text() == "event: init" && !opened { // it arrives while the stream is open
			opened = true
			s.write("open-nginx", "")
		}
		if strings.Contains(lines.Text(), `"event_type":"run_completed"`) {
			break
		}
	}
	if !opened || lines.Err() != nil {
		t.Errorf("the stream ended before its event: %v", lines.Err())
	}
	other.coordinator.kill()
	for range 6 {
		res, err := ask("/runs/" + id)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("with one coordinator down: %v %v", res, err)
		}
		res.Body.Close()
	}
}
