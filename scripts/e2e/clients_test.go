package e2e

import (
	"bytes"
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
	"strings"
	"sync"
	"testing"
)

var block = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)\n```")

// blocks returns the programs of a page in a language.
func blocks(t *testing.T, language string, page ...string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root(), "shared"}, page...)...))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			all = append(all, m[2])
		}
	}
	return all
}

// TestClientSnippets: the programs in shared/docs/clients.md and the clients' pages work as documented, also with
// temporary refusals and lost answers. They exit with 1 if a run fails or is refused.
func TestClientSnippets(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("text-stats", `echo '{"words":42}'`, "")
	s.agent("failing", `echo '{"status":"completed"}'; echo "it went wrong" >&2; exit 3`, "")
	s.worker()
	t.Run("sh", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "client.sh")
		if err := os.WriteFile(path, []byte(blocks(t, "sh", "docs", "clients.md")[0]), 0o644); err != nil {
			t.Fatal(err)
		}
		checkSnippet(t, s, []string{"sh", path})
	})
	for _, c := range clients {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			program := c.install(t)
			examples := blocks(t, c.language, "clients", c.language, "README.md")
			checkSnippet(t, s, program(t, examples[0]))
			args := program(t, examples[1])
			out, err := clientCommand(t, s, args).Output()
			if lines := strings.Split(string(out), "\n"); err != nil || !strings.HasPrefix(lines[0], "run_start ") ||
				!strings.HasPrefix(lines[len(lines)-2], "run_completed ") {
				t.Errorf("the second example: %v, it printed %s", err, out)
			}
		})
	}
}

// checkSnippet runs a program that starts text-stats, also with another agent in its place.
func checkSnippet(t *testing.T, s *stack, args []string) {
	t.Helper()
	for _, agent := range []string{"text-stats", "failing", "nobody"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			d := newFaultyProxy(t, s.url, agent)
			c := clientCommand(t, s, args)
			var out, errs bytes.Buffer
			c.Dir, c.Stdout, c.Stderr = t.TempDir(), &out, &errs
			c.Env = append(c.Env, "AO_URL="+d.url)
			if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			d.checkClient(t, agent, c.ProcessState.ExitCode(), out.String(), errs.String())
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

// runCommand runs a command that must succeed.
func runCommand(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}
