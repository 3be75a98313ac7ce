package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestMain turns the test binary into the worker, and into its guard.
func TestMain(m *testing.M) {
	if os.Getenv("AO_TEST_WORKER") != "" || os.Getenv("AGENT_ORCHESTRATOR_GUARD") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// workerProcess is a worker process.
type workerProcess struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *workerProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *workerProcess) logged(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.out.String(), text)
}

// start starts a worker with these arguments and only these variables.
func start(t *testing.T, env []string, args ...string) *workerProcess {
	t.Helper()
	p := &workerProcess{cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append([]string{"AO_TEST_WORKER=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = p, p, t.TempDir()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if t.Failed() {
			t.Log(p.out.String())
		}
	})
	return p
}

// waitExit waits for the worker's end and returns its exit code.
func (p *workerProcess) waitExit(t *testing.T) int {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); p.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the worker does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// profiles returns a folder with a profile and its agents: one works, the command of the other is missing.
func profiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/procedural.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"agents"}`)
	write(t, dir+"/typo.json", `{"type":"procedural","comand":"x"}`)
	write(t, dir+"/model.json", `{"type":"autonomous","command":"sh","lifecycle":"eternal"}`)
	write(t, dir+"/nofolder.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"nowhere"}`)
	write(t, dir+"/agents/wait/agent.json", `{"name":"wait","command":"./wait.sh"}`)
	write(t,
		dir+"/agents/wait/wait.sh", "#!/bin/sh\nwhile [ ! -e \"$2\" ]; do sleep 0.1; done\necho '{\"waited\":true}'\n")
	write(t, dir+"/agents/gone/agent.json", `{"name":"gone","command":"./gone.sh"}`)
	return dir
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := profiles(t)
	away := "AO_NATS_URL=nats://" + natstest.FreeAddr(t)
	for _, tt := range []struct {
		name string
		env  []string
		args string
		code int
		want string
	}{
		{"help", nil, "--help", 0, "AO_DRAIN_GRACE"},
		{"unknown flag", nil, "--frobnicate", 2, "unknown flag -frobnicate"},
		{"a bad value", []string{"AO_DRAIN_GRACE=soon"}, "", 2, `AO_DRAIN_GRACE: "soon" is not a duration`},
		{"no profile: the default one", []string{away}, "", 0, "waiting for NATS: start one with"},
		{"no folder of profiles", nil, "-x procedural", 1, "AO_PROFILES_DIR is not set"},
		{"a folder that is not there", []string{"AO_PROFILES_DIR=/no/such"}, "-x procedural", 2,
			`AO_PROFILES_DIR: "/no/such" cannot be used`},
		{"unknown profile", []string{"AO_PROFILES_DIR=" + dir}, "-x procedura", 1,
			"the folder has the profiles model, nofolder, procedural, typo"},
		{"a profile with a typo", []string{"AO_PROFILES_DIR=" + dir}, "-x typo", 1, `"comand"`},
		{"a lifecycle that there is not", []string{"AO_PROFILES_DIR=" + dir}, "-x model", 1,
			"lifecycle must be oneshot or persistent"},
		{"one bad of two", []string{"AO_PROFILES_DIR=" + dir}, "-x procedural,typo", 1, `"comand"`},
		{"embed", []string{"AO_NATS_URL=embed", "AO_PROFILES_DIR=" + dir}, "-x procedural", 1,
			"a worker needs an address"},
		{"NATS that never comes", []string{away, "AO_PROFILES_DIR=" + dir}, "-x procedural", 0,
			"waiting for NATS: start one with"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, tt.env, strings.Fields(tt.args)...)
			if tt.code == 0 && tt.args != "--help" {
				natstest.Until(t, "it says so", func() bool { return p.logged(tt.want) })
				p.cmd.Process.Signal(syscall.SIGTERM)
			}
			if code := p.waitExit(t); code != tt.code || !p.logged(tt.want) {
				t.Errorf("exit code %d, want %d, and %q", code, tt.code, tt.want)
			}
		})
	}
}

func TestNoAgentsFolder(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	p := start(t, []string{"AO_NATS_URL=" + s.URL(), "AO_PROFILES_DIR=" + profiles(t)}, "-x", "nofolder")
	if code := p.waitExit(t); code != 1 || !p.logged("agents_dir") {
		t.Errorf("exit code %d", code)
	}
}

func TestNoCoordinator(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	p := start(t, []string{"AO_NATS_URL=" + s.URL(), "AO_PROFILES_DIR=" + profiles(t)}, "-x", "procedural")
	natstest.Until(t, "it says what is missing", func() bool {
		return p.logged("waiting for a coordinator") && p.logged("gone.sh")
	})
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.waitExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSigterm: runs finish within the grace period; a second signal ends it, and the programs of the runs.
func TestSigterm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(p *workerProcess, flag string)
		want string
	}{
		{"finishes", func(_ *workerProcess, flag string) {
			os.WriteFile(flag, nil, 0o644)
		}, `completed {"waited":true}`},
		{"twice", func(p *workerProcess, _ string) {
			p.cmd.Process.Signal(syscall.SIGTERM)
		}, "failed runner_disconnected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
			b := natstest.Open(t, s)
			if err := b.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			const queue = "procedural._._"
			if err := b.EnsureTaskQueue(t.Context(), queue, 1); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(func() { cancel(); wg.Wait() })
			ended, agents := make(chan struct{}, 1), ""
			wg.Go(func() { // the coordinator's side
				b.Serve(ctx, subject.AllRunnerAPI, "", func(_ context.Context, subj string, body []byte) ([]byte,
					error) {
					var r runnerapi.Registration
					json.Unmarshal(body, &r)
					if subj == subject.RunnerAPI(runnerapi.OpDeregister) {
						ended <- struct{}{}
					} else {
						agents = fmt.Sprint(runnerapi.Names(runnerapi.AgentSet(r.Agents)))
					}
					return json.Marshal(runnerapi.Registered{RunnerID: r.ID(), HeartbeatInterval: 50 * time.Millisecond,
						TaskQueues: []string{queue}})
				})
			})
			wg.Go(func() {
				b.Serve(ctx, subject.AllHeartbeats, "", func(context.Context, string, []byte) ([]byte, error) {
					return json.Marshal(runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue}})
				})
			})

			flag := filepath.Join(t.TempDir(), "flag")
			q := run.Queued{V: 1, Attempt: 1, Key: "k", Spec: run.Spec{ID: run.NewID(), SessionID: run.NewSessionID(),
				Type: run.Start, Agent: "wait",
				AgentType: run.Procedural, Timeout: 60,
				Input: &run.Input{Parameters: json.RawMessage(fmt.Sprintf(`{"flag":%q}`, flag))}}}
			body, _ := json.Marshal(q)
			part := subject.Partition(q.SessionID)
			if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.Queued(part, queue, q.ID, 1),
				Body: body}); err != nil {
				t.Fatal(err)
			}
			p := start(t, []string{"AO_NATS_URL=" + s.URL(), "AO_PROFILES_DIR=" + profiles(t), "AO_PROFILES=procedural",
				"AO_DRAIN_GRACE=60"})
			natstest.Until(t, "the run begins", func() bool {
				_, err := b.Last(t.Context(), subject.Claimed(part, q.ID, "k"))
				return err == nil
			})
			p.cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			natstest.Until(t, "it says what it waits for", func() bool { return p.logged("waiting for runs to end") })
			tt.end(p, flag)
			if code := p.waitExit(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			m, err := b.Last(t.Context(), subject.Ended(part, q.ID, "k"))
			var e run.Ended
			if err != nil || json.Unmarshal(m.Body, &e) != nil {
				t.Fatalf("no end record: %v", err)
			}
			got := string(e.Status) + " "
			if e.Error != nil {
				got += e.Error.Code
			} else {
				got += string(e.Result.Data)
			}
			if got != tt.want || agents != "[wait]" {
				t.Errorf("got %s, want %s; agents %s", got, tt.want, agents)
			}
		})
	}
}
