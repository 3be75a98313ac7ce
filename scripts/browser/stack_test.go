package browser

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"

	"github.com/chromedp/chromedp"
)

var (
	bin      string          // the folder of the programs
	chromium context.Context // the browser; each test has a profile of its own in it
)

func TestMain(m *testing.M) {
	if os.Getenv("AO_BROWSER") != "required" {
		fmt.Println("browser: SKIPPED here; scripts/browser/run runs the tests of the dashboard in Chromium")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ao-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "./scripts/allinone",
		"./coordinator/cmd/coordinator", "./coordinator/cmd/ao", "./worker/cmd/worker",
		"./worker/cmd/ao-procedural-exec", "./worker/cmd/ao-test-exec")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1400, 1000))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	var end context.CancelFunc
	chromium, end = chromedp.NewContext(alloc)
	defer end()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "browser: Chromium does not start:", err)
		return 1
	}
	defer shared.end()
	return m.Run()
}

// stack is a coordinator, a worker and NATS in one process.
type stack struct {
	url     string
	agents  string   // the folder of the agents' files
	env     []string // of its process
	program string   // "": allinone
	cmd     *exec.Cmd
	token   string // what its caller shows; "": nothing
	log     bytes.Buffer
	once    sync.Once
}

var shared stack

// sharedStack returns the stack shared by tests, which use their own names for agents.
func sharedStack(t *testing.T) *stack {
	t.Helper()
	shared.once.Do(func() { shared.start(t) })
	if shared.cmd == nil {
		t.Fatal("the stack does not run")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the stack's log ends:\n%s", tail(shared.log.String(), 3000))
		}
	})
	return &shared
}

// ownStack starts a stack for one test.
func ownStack(t *testing.T, env ...string) *stack {
	t.Helper()
	var s stack
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Logf("the stack's log ends:\n%s", tail(s.log.String(), 3000))
		}
	})
	s.start(t, env...)
	return &s
}

// start creates folders and an address for the stack and launches it.
func (s *stack) start(t *testing.T, env ...string) {
	t.Helper()
	data, err := os.MkdirTemp(bin, "data")
	if err != nil {
		t.Fatal(err)
	}
	s.agents = filepath.Join(data, "agents")
	if err := os.CopyFS(s.agents, os.DirFS("../../worker/agents/autonomous")); err != nil {
		t.Fatal(err)
	}
	profiles, err := filepath.Abs("../../worker/profiles")
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	s.url = "http://" + addr
	s.env = append(os.Environ(), "AO_HTTP_ADDR="+addr, "AO_NATS_URL=embed", "AO_NATS_LISTEN=none", "AO_DATA_DIR="+
		data, "AO_PROFILES_DIR="+profiles,
		"AO_PROFILES=procedural,test", "AGENT_ORCHESTRATOR_AGENTS_DIR="+s.agents, "AO_AGENTS_WRITABLE=true",
		"AO_DRAIN_GRACE=1", "PATH="+bin+":"+os.Getenv("PATH"))
	s.env = append(s.env, env...)
	s.launch(t)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// launch starts the process, also after a kill, and waits until it takes runs.
func (s *stack) launch(t *testing.T) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, cmp.Or(s.program, "allinone")))
	cmd.Env = s.env
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	eventually(t, "the stack is ready", func() bool { return s.status("/ready") == http.StatusOK })
}

func (s *stack) end() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

func (s *stack) status(path string) int {
	res, err := http.Get(s.url + path)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// call sends a request and returns the answer's body; the status must be want.
func (s *stack) call(t *testing.T, method, path, body string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != want {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, res.StatusCode, want, b)
	}
	return string(b)
}

// member returns a member of a JSON object as raw JSON.
func member(t *testing.T, doc, name string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(doc), &all); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	return string(all[name])
}

// eventually polls until ok, for at most half a minute.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !natstest.Poll(30*time.Second, ok) {
		t.Fatalf("not within 30 s: %s", what)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
