package natstest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
)

// envConfig turns a test binary into a server with that configuration, in JSON. No TestMain is needed: importing
// this package is enough. envProgram is a program to start instead; scripts/test builds one.
const (
	envConfig  = "AO_NATSTEST_CONFIG"
	envProgram = "AO_NATSTEST_PROGRAM"
)

func init() {
	text := os.Getenv(envConfig)
	if text == "" {
		return
	}
	var c embed.Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := embed.Start(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin) // ends with the test in any case
	s.Close()
	os.Exit(0)
}

// Process is a NATS server process, always on the same port and store.
type Process struct {
	t      testing.TB
	c      embed.Config
	disk   *Disk // nil: this machine's
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	waited chan struct{}
}

// Proc starts a server process that ends with the test. Writes are not synced to disk unless asked for, which
// makes no difference for a killed process.
func Proc(t testing.TB, opts ...Option) *Process {
	t.Helper()
	p := process(t, opts)
	t.Cleanup(p.Stop)
	p.Start()
	return p
}

// process is one that has not been started.
func process(t testing.TB, opts []Option) *Process {
	t.Helper()
	p := &Process{t: t, c: embed.Config{StoreDir: t.TempDir(), Listen: FreeAddr(t), Sync: "2m"}}
	for _, o := range opts {
		o(&p.c)
	}
	return p
}

// URL returns the server's address, also while it is not running.
func (p *Process) URL() string { return "nats://" + p.c.Listen }

// ProcOn is Proc with its files on a small disk, unless an option sets another folder. It sees the disk in any case.
func ProcOn(t testing.TB, d *Disk, opts ...Option) *Process {
	t.Helper()
	p := process(t, append([]Option{StoreDir(filepath.Join(d.Dir, "nats"))}, opts...))
	p.disk = d
	t.Cleanup(p.Stop)
	p.Start()
	return p
}

// Start starts the server again, after Kill or Stop, and waits until it accepts connections.
func (p *Process) Start() {
	p.t.Helper()
	p.launch()
	p.wait("takes connections", jetStreamReady)
}

// jetStreamReady reports whether JetStream answers a request that in a cluster needs the leader.
func jetStreamReady(js nats.JetStreamContext) bool {
	_, err := js.AccountInfo()
	return err == nil
}

// launch starts the process without waiting.
func (p *Process) launch() {
	p.t.Helper()
	program := cmp.Or(os.Getenv(envProgram), os.Args[0])
	cmd := exec.Command(program)
	if p.disk != nil {
		cmd = p.disk.Command(program)
	}
	text, err := strictjson.Encode(p.c)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), envConfig+"="+string(text))
	cmd.Stderr = p.t.Output()
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	waited := make(chan struct{})
	p.cmd, p.stdin, p.waited = cmd, stdin, waited
	go func() {
		defer close(waited)
		cmd.Wait()
	}()
}

// wait waits until the process is ready.
func (p *Process) wait(what string, ok func(nats.JetStreamContext) bool) {
	p.t.Helper()
	Until(p.t, "the NATS process "+what, func() bool {
		select {
		case <-p.waited:
			p.t.Fatal("the NATS process ended at its start")
		default:
		}
		nc, err := nats.Connect(p.URL(), nats.Timeout(time.Second))
		if err != nil {
			return false
		}
		defer nc.Close()
		js, err := nc.JetStream(nats.MaxWait(time.Second))
		return err == nil && ok(js)
	})
}

// Limit limits the bytes that the server stores, from its next start on.
func (p *Process) Limit(bytes int64) { p.c.MaxStore = bytes }

// Kill ends the server with SIGKILL.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.waited
}

// Stop ends the server cleanly. It may be called when the server is not running.
func (p *Process) Stop() {
	if p.cmd == nil {
		return
	}
	p.Resume()
	p.stdin.Close()
	select {
	case <-p.waited:
	case <-time.After(20 * time.Second):
		p.Kill()
	}
}

// Pause stops the process without ending it, and returns when all its threads are stopped. Resume continues it.
func (p *Process) Pause() {
	p.cmd.Process.Signal(syscall.SIGSTOP)
	stopped := func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid)) // empty without /proc
		for _, file := range threads {
			stat, err := os.ReadFile(file)
			if _, state, ok := bytes.Cut(stat, []byte(") ")); err == nil && ok && state[0] != 'T' {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(10 * time.Second); !stopped() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
}

// Memory returns a line of the process's /proc/PID/status in KiB, such as VmRSS or VmHWM.
func (p *Process) Memory(line string) (kib int) {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("\n"+line+":"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	return kib
}

// Resume continues a paused process.
func (p *Process) Resume() { p.cmd.Process.Signal(syscall.SIGCONT) }

// Conn returns a connection to the server with our options; it ends with the test.
func (p *Process) Conn(t testing.TB) *nats.Conn {
	t.Helper()
	return connect(t, p.URL())
}

// Bus returns a bus on its own connection, after Setup.
func (p *Process) Bus(t testing.TB) *bus.Bus {
	t.Helper()
	return setUp(t, p.Conn(t), bus.Config{})
}
