package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var block = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)\n```")

// TestClientSnippets: the programs in shared/docs/clients.md work as documented, also with temporary refusals and
// lost answers. They exit with 1 if a run fails or is refused.
func TestClientSnippets(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(), "shared", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		if programs[m[1]] == "" { // the first of a language is the whole program
			programs[m[1]] = m[2]
		}
	}
	s := up(t)
	s.agent("text-stats", `echo '{"words":42}'`, "")
	s.agent("failing", `echo '{"status":"completed"}'; echo "it went wrong" >&2; exit 3`, "")
	s.worker()
	for _, tt := range []struct {
		language, file string
		ready          func(*testing.T, string) []string // gives the command that runs a file
	}{
		{"sh", "client.sh", interpreted("sh")},
		{"python", "client.py", interpreted("python3")},
		{"typescript", "client.ts", typescript},
		{"go", "client.go", compiled},
	} {
		t.Run(tt.language, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(path, []byte(programs[tt.language]), 0o644); err != nil {
				t.Fatal(err)
			}
			args := tt.ready(t, path)
			for _, agent := range []string{"text-stats", "failing", "nobody"} {
				t.Run(agent, func(t *testing.T) {
					t.Parallel()
					d := newFaultyProxy(t, s.url, agent)
					c := exec.Command(args[0], args[1:]...)
					var out, errs bytes.Buffer
					c.Dir, c.Env, c.Stdout, c.Stderr = t.TempDir(), append(os.Environ(), "AO_URL="+d.url), &out, &errs
					if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
						t.Fatal(err)
					}
					d.checkClient(t, agent, c.ProcessState.ExitCode(), out.String(), errs.String())
				})
			}
		})
	}
}

// faultyProxy is a proxy in front of a coordinator that replaces the agent in requests. For text-stats it answers
// each request with 429 and 503 first, then loses an answer, and then forwards the request.
type faultyProxy struct {
	url string

	mu   sync.Mutex
	seen map[string]int // requests by method, path and Idempotency-Key
	runs map[string]bool
}

func newFaultyProxy(t *testing.T, to, agent string) *faultyProxy {
	const asked = "text-stats"
	rough := agent == asked
	d := &faultyProxy{seen: map[string]int{}, runs: map[string]bool{}}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		what := r.Method + " " + r.URL.Path + " " + r.Header.Get("Idempotency-Key")
		d.seen[what]++
		n := d.seen[what]
		d.mu.Unlock()
		if refusals := []int{429, 503}; rough && n <= len(refusals) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(refusals[n-1])
			_, _ = io.WriteString(w, `{"error":"unavailable","message":"Come again"}`)
			return
		}
		body, _ := io.ReadAll(r.Body) // a client that goes away is judged by what it does
		status, answer := d.forward(t, to, r, strings.ReplaceAll(string(body), asked, agent))
		if rough && n == 3 {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.(*net.TCPConn).SetLinger(0) // the client sees a reset
				_ = c.Close()
			}
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	}))
	t.Cleanup(door.Close)
	d.url = door.URL
	return d
}

// forward forwards a request to the coordinator and records the run of the answer.
func (d *faultyProxy) forward(t *testing.T, to string, r *http.Request, body string) (int, []byte) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 500, nil
	}
	req.Header = r.Header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 500, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	var run struct {
		ID string `json:"run_id"`
	}
	if err == nil && json.Unmarshal(answer, &run) == nil && run.ID != "" {
		d.mu.Lock()
		d.runs[run.ID] = true
		d.mu.Unlock()
	}
	return res.StatusCode, answer
}

// checkClient checks a client's requests, output and exit code.
func (d *faultyProxy) checkClient(t *testing.T, agent string, code int, out, errs string) {
	t.Helper()
	var answer struct {
		Words  int
		Result struct {
			Data struct{ Words int } `json:"result_data"`
		}
	}
	switch agent {
	case "text-stats":
		if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 || answer.Words+
			answer.Result.Data.Words != 42 {
			t.Errorf("exit code %d, %v: it printed %s%s", code, err, out, errs)
		}
		if len(d.seen) != 2 || len(d.runs) != 1 {
			t.Errorf("it asked %v for runs %v; want one run, under one key", d.seen, d.runs)
		}
	case "failing":
		if code != 1 || !strings.Contains(out+errs, "it went wrong") {
			t.Errorf("a run that failed: exit code %d, %s%s", code, out, errs)
		}
	default:
		if code != 1 || !strings.Contains(out+errs, "nobody") || len(d.seen) != 1 {
			t.Errorf("an agent that is not there: exit code %d, asked %v, %s%s", code, d.seen, out, errs)
		}
	}
}

// interpreted runs a file with an interpreter, if it is installed.
func interpreted(program string) func(*testing.T, string) []string {
	return func(t *testing.T, path string) []string {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s here", program)
		}
		return []string{program, path}
	}
}

// compiled builds a Go program, because 'go run' changes the exit code.
func compiled(t *testing.T, path string) []string {
	program := strings.TrimSuffix(path, ".go")
	runCommand(t, filepath.Dir(path), "go", "build", "-o", program, path)
	return []string{program}
}

// typescript compiles to JavaScript, or lets a new Node strip the types if there is no compiler.
func typescript(t *testing.T, path string) []string {
	version, err := exec.Command("node", "--version").Output()
	if err != nil {
		t.Skip("there is no node here")
	}
	tsc, err := compiler()
	if err != nil {
		major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
		if n, _ := strconv.Atoi(major); n < 23 {
			t.Skipf("SKIPPED: there is no tsc (%v), and node %s runs no TypeScript", err, version)
		}
		t.Logf("TYPES ARE NOT CHECKED: there is no tsc (%v)", err)
		return []string{"node", path}
	}
	runCommand(t, filepath.Dir(path), tsc, "--strict", "--target", "es2022", "--module", "es2022", filepath.Base(path))
	program := strings.TrimSuffix(path, ".ts") + ".mjs"
	if err := os.Rename(strings.TrimSuffix(path, ".ts")+".js", program); err != nil {
		t.Fatal(err)
	}
	return []string{"node", program}
}

// compiler is the installed TypeScript compiler, or one that npm installs once into the user's cache.
var compiler = sync.OnceValues(func() (string, error) {
	if tsc, err := exec.LookPath("tsc"); err == nil {
		return tsc, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	const fetched = "typescript@5.9.3"
	kept := filepath.Join(cache, "ao-e2e", fetched)
	tsc := filepath.Join(kept, "node_modules", ".bin", "tsc")
	if _, err := os.Stat(tsc); err == nil {
		return tsc, nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(kept), "fetching-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit",
		"--no-fund", fetched).CombinedOutput(); err != nil {
		return "", errors.New("npm cannot fetch it: " + strings.TrimSpace(string(out)) + err.Error())
	}
	if err := os.Rename(dir, kept); err != nil { // another test process was quicker
		_, err = os.Stat(tsc)
		return tsc, err
	}
	return tsc, nil
})

// runCommand runs a command that must succeed.
func runCommand(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}
