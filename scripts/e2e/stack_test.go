package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
)

var bin string // folder of the programs

// mains are the packages of the programs.
var mains = []string{"./coordinator/cmd/coordinator", "./coordinator/cmd/ao", "./worker/cmd/worker",
	"./worker/cmd/ao-procedural-exec", "./scripts/allinone"}

// parallelStories is the default of -parallel. It exceeds the number of CPUs, because stories mostly wait for other
// processes.
const parallelStories = 6

func TestMain(m *testing.M) {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.parallel") }) {
		// such a flag there is
		_ = flag.Set("test.parallel", strconv.Itoa(max(parallelStories, runtime.GOMAXPROCS(0))))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "ao-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin = dir
		args := append([]string{"build", "-buildvcs=false", "-ldflags", "-w " + linkerFlags(builtAs, builtOf)},
			buildFlags...)
		build := exec.Command("go", append(append(args, "-o", dir), mains...)...)
		build.Dir = root()
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// buildProgram builds a program as the others are built, so that what they share is compiled once.
func buildProgram(t *testing.T, dir, main string) {
	t.Helper()
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-w"}, buildFlags...)
	runCommand(t, root(), "go", append(args, "-o", dir+string(filepath.Separator), main)...)
}

// root returns the project's folder.
func root() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

// program is a process of one of our programs.
type program struct {
	t    testing.TB
	name string
	args []string
	env  []string
	dir  string
	disk *natstest.Disk // nil: this machine's

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	log  lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts the process; it ends with the test. Its log is shown if the test fails.
func (p *program) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = exec.Command(filepath.Join(bin, p.name), p.args...)
	if p.disk != nil {
		p.cmd = p.disk.Command(filepath.Join(bin, p.name), p.args...)
	}
	p.cmd.Env, p.cmd.Dir = append(os.Environ(), p.env...), p.dir
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, done := p.cmd, make(chan struct{})
	p.done = done
	go func() { cmd.Wait(); close(done) }()
}

func (p *program) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd.Process.Signal(s)
}

// kill sends SIGKILL, as a crash.
func (p *program) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop sends SIGTERM, as an operator would.
func (p *program) stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.kill()
	}
}

// restartsOfLeases returns how often a coordinator has restarted all leases.
func (p *program) restartsOfLeases() int {
	return strings.Count(p.log.String(), "leases: listening anew")
}

func launch(t testing.TB, name, dir string, env []string, args ...string) *program {
	t.Helper()
	return launchOn(t, nil, name, dir, env, args...)
}

// launchOn launches a program on a small disk.
func launchOn(t testing.TB, disk *natstest.Disk, name, dir string, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, name: name, args: args, env: env, dir: dir, disk: disk}
	p.start()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("--- %s %s\n%s", name, strings.Join(args, " "), tail(p.log.String(), 6000))
		}
		if strings.Contains(p.log.String(), "DATA RACE") {
			t.Errorf("%s raced:\n%s", name, tail(p.log.String(), 6000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// stack is a deployment: NATS, a coordinator, and workers as the story needs them.
type stack struct {
	t           testing.TB
	dir         string            // the project_dir of its workers
	nats        *natstest.Process // the server, or the first one of a cluster
	allServers  servers           // NATS as a whole
	coordinator *program
	version     string // of its coordinator, as a prefix of the program's name
	token       string // what its caller shows; "": nothing
	url         string
	env         []string
	agents      string // folder of the workers' agents
	profiles    string
	workers     int
}

// up starts NATS and a coordinator with short timeouts and waits until it is ready.
func up(t testing.TB, env ...string) *stack {
	t.Helper()
	if onCluster {
		return upOnCluster(t, env...)
	}
	p := natstest.Proc(t)
	s := upOn(t, p.URL(), env...)
	s.nats, s.allServers = p, p
	return s
}

// upOn is up with an existing NATS.
func upOn(t testing.TB, nats string, env ...string) *stack {
	t.Helper()
	s := prepare(t, nats, env...)
	s.coordinator = launch(t, "coordinator", s.dir, s.env)
	s.ready()
	return s
}

// prepare is upOn without starting the coordinator.
func prepare(t testing.TB, nats string, env ...string) *stack {
	t.Helper()
	dir := t.TempDir()
	s := &stack{t: t, dir: dir, agents: filepath.Join(dir, "agents"), profiles: filepath.Join(dir, "profiles")}
	addr := natstest.FreeAddr(t)
	s.url = "http://" + addr
	s.env = append([]string{"AO_NATS_URL=" + nats, "AO_HTTP_ADDR=" + addr, "AO_DATA_DIR=" + filepath.Join(dir, "data"),
		"RUN_LEASE=2s", "AO_LOG_LEVEL=debug",
		"AGENT_ORCHESTRATOR_AGENTS_DIR=" + filepath.Join(dir, "own"), "AO_PROFILES_DIR=" + s.profiles, "AO_URL=" +
			s.url}, env...)
	for _, d := range []string{s.agents, s.profiles, filepath.Join(dir, "own")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("profiles/test.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents","max_concurrent_runs":8}`)
	return s
}

// write writes an executable file of the deployment atomically, because programs poll such files.
func (s *stack) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	beside := path + ".part" // no program takes that for a file of its own
	err := os.WriteFile(beside, []byte(text), 0o755)
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// agent defines a procedural agent: a shell script and, optionally, members of its agent.json.
func (s *stack) agent(name, script, more string) {
	s.t.Helper()
	if more != "" {
		more = "," + more
	}
	s.write("agents/"+name+"/agent.json", fmt.Sprintf(`{"name":%q,"description":"of a story","command":"./run"%s}`,
		name, more))
	s.write("agents/"+name+"/run", "#!/bin/sh\n"+script+"\n")
}

// worker starts a worker with the stack's profile and more environment, and waits until its runner is online.
func (s *stack) worker(more ...string) *program {
	s.t.Helper()
	s.workers++
	host := fmt.Sprintf("host-%d", s.workers)
	env := append(append([]string{}, s.env...), "AO_HOSTNAME="+host, "AO_PROFILES=test")
	p := launch(s.t, "worker", s.dir, append(env, more...))
	s.until("worker "+host+" is online", func() bool {
		return strings.Contains(s.get("/runners").text, `"hostname":"`+host+`"`)
	})
	return p
}

func (s *stack) ready() {
	s.t.Helper()
	s.until("the coordinator is ready", func() bool { return s.get("/ready").code == 200 })
}

// leaseMargin returns how much later a lease may end because the coordinator has restarted leases since then. Each
// restart adds a lease and a stall, at most three times.
func (s *stack) leaseMargin(heard int, lease time.Duration) time.Duration {
	return time.Duration(min(s.coordinator.restartsOfLeases()-heard, 3)) * (lease + 3*time.Second)
}

// until polls until ok, for at most two minutes: a loaded machine is slow, and only a failure waits that long.
func (s *stack) until(what string, ok func() bool) {
	s.t.Helper()
	s.within(2*time.Minute+3*maxStall(), what, ok)
}

// within polls until ok, for at most limit.
func (s *stack) within(limit time.Duration, what string, ok func() bool) {
	s.t.Helper()
	if !natstest.Poll(limit, ok) {
		s.t.Fatalf("not within %v: %s", limit, what)
	}
}

// reply is an HTTP answer.
type reply struct {
	code   int
	header http.Header
	text   string
	err    error
}

// at returns a member of the JSON answer by its path ("result.result_data.x", "runs.0.run_id") as a string; "" if
// missing.
func (r reply) at(path string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(r.text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return ""
	}
	for _, name := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(at) {
				return ""
			}
			v = at[i]
		default:
			return ""
		}
	}
	switch at := v.(type) {
	case nil:
		return ""
	case string:
		return at
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

var client = &http.Client{Timeout: 60 * time.Second}

// do sends a request and repeats it while NATS has no leader. It also repeats safe requests whose answer took a
// second: then the coordinator had waited for the writes of the others until a timeout.
func (s *stack) do(method, path, body string, header ...string) reply {
	if s.isRolling() && method == "POST" && path == "/runs" && !slices.Contains(header, "Idempotency-Key") {
		header = append(slices.Clone(header), "Idempotency-Key", rand.Text())
	}
	ask := func() reply { return s.retryUnavailable(func() reply { return s.once(method, path, body, header...) }) }
	began := time.Now()
	r := ask()
	stops, waits := strings.HasSuffix(path, "/stop"), strings.Contains(path, "/wait") && r.code/100 == 2
	if time.Since(began) > 900*time.Millisecond && r.err == nil &&
		(method == "GET" && !waits || path == "/runs/validate" || stops) {
		r = ask()
	}
	return r
}

// once sends one request.
func (s *stack) once(method, path, body string, header ...string) reply {
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	r, err := client.Do(req)
	if err != nil {
		return reply{err: err, text: err.Error()}
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return reply{r.StatusCode, r.Header, string(text), err}
}

func (s *stack) get(path string) reply { return s.do("GET", path, "") }

func (s *stack) post(path, body string, header ...string) reply {
	return s.do("POST", path, body, header...)
}

// createRun starts a run as a client should: with one key, at one coordinator after the other, until it is answered.
// It returns "" and reports an error if there was no answer. It is safe for concurrent use.
func createRun(t testing.TB, key, body string, doors ...*stack) string {
	try, id := 0, ""
	answered := natstest.Poll(time.Minute, func() bool {
		r := doors[try%len(doors)].once("POST", "/runs", body, "Idempotency-Key", key)
		try++
		switch {
		case r.code == 201:
			id = r.at("run_id")
			return true
		case r.err == nil && r.code != 503:
			t.Errorf("POST /runs %s: got %d %s, want 201", body, r.code, r.text)
			return true
		case r.err == nil && r.header.Get("Retry-After") == "":
			t.Errorf("POST /runs %s: got 503 without Retry-After: %s", body, r.text)
		}
		return false
	})
	if !answered {
		t.Errorf("POST /runs %s with the key %s was not answered within a minute", body, key)
	}
	return id
}

// run starts a run and returns its id.
func (s *stack) run(body string) string {
	s.t.Helper()
	r := s.post("/runs", body)
	if r.code != 201 {
		s.t.Fatalf("POST /runs %s: %d %s", body, r.code, r.text)
	}
	return r.at("run_id")
}

// ended waits until a run has ended and returns it.
func (s *stack) ended(id string) reply {
	s.t.Helper()
	var r reply
	s.until("run "+id+" has ended", func() bool {
		r = s.get("/runs/" + id)
		switch r.at("status") {
		case "completed", "failed", "stopped":
			return true
		}
		return false
	})
	return r
}

// status waits until a run has a status.
func (s *stack) status(id, want string) {
	s.t.Helper()
	s.until("run "+id+" is "+want, func() bool { return s.get("/runs/"+id).at("status") == want })
}

// ao runs the command line and returns its output and exit code.
func (s *stack) ao(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	return s.exec("ao", "", nil, args...)
}
