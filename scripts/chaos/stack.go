package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ao/nats/natstest"
	"ao/scripts/try"
)

// The deployment: two coordinators, three workers with two profiles each, one NATS server or a cluster of three.
const (
	coordinators = 2
	workers      = 3
	lease        = 3 * time.Second
)

// envToken is a variable that executors inherit; it identifies their processes.
const envToken = "AO_CHAOS_TOKEN"

// stack holds all processes of a run and its folder.
type stack struct {
	options
	root  string // of the project
	dir   string
	token string

	nats, coordinators, workers []*process
	natsURLs, urls              []string
	natsAddresses               []string

	disk  *natstest.Disk // mode disk
	links []link         // mode proxy
	ends  []func()       // called when the stack is removed
}

// waitUntil polls, 50 ms apart, until ok or the end of ctx.
func waitUntil(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("timed out waiting: %s", what)
		case <-tick.C:
		}
	}
	return nil
}

// waitWithin is until with a limit of its own.
func waitWithin(ctx context.Context, d time.Duration, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return waitUntil(ctx, fmt.Sprintf("%s, within %s", what, d), ok)
}

// newStack builds the programs and writes all files; it starts nothing.
func newStack(ctx context.Context, o options) (_ *stack, err error) {
	defer try.Catch(&err)
	root := try.Must(projectRoot())
	dir := try.Must(os.MkdirTemp("", "ao-chaos-"))
	s := &stack{options: o, root: root, dir: dir, token: filepath.Base(dir)}
	err = errors.Join(s.build(ctx), s.writeFiles(), s.addNATS(o.nats))
	if err == nil && o.mode == "disk" {
		err = s.mountDisk()
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	common := []string{"AO_LOG_LEVEL=" + o.level}
	if o.mode == "torn" { // what is cut off was not synced
		common = append(common, "AO_NATS_SYNC=2m")
	}
	for i := range coordinators {
		name := fmt.Sprintf("coordinator-%d", i+1)
		nats := try.Must(s.natsFor(name))
		address := try.Must(natstest.Address())
		s.urls = append(s.urls, "http://"+address)
		s.coordinators = append(s.coordinators, s.program(name, "coordinator",
			append([]string{nats, "AO_DATA_DIR=" + s.path("data", name),
				"AO_HTTP_ADDR=" + address, "RUN_LEASE=" + lease.String(), "AO_NATS_REPLICAS=" + fmt.Sprint(o.nats),
				"AGENT_ORCHESTRATOR_AGENTS_DIR=" + s.path("own")}, common...)...))
	}

	for i := range workers {
		name := fmt.Sprintf("worker-%d", i+1)
		nats := try.Must(s.natsFor(name))
		s.workers = append(s.workers, s.program(name, "worker", append([]string{nats,
			"AO_HOSTNAME=" + name, "AO_PROFILES_DIR=" + s.path("profiles"), "AO_PROFILES=proc,talk",
			"AO_PROJECT_DIR=" + s.path("work"), "AO_DRAIN_GRACE=2", envToken + "=" + s.token}, common...)...))
	}
	return s, nil
}

// natsFor returns the setting with the addresses of NATS for a program: in mode proxy those of its proxies.
func (s *stack) natsFor(name string) (setting string, err error) {
	addresses := s.natsAddresses
	if s.mode == "proxy" {
		addresses, err = s.link(name, addresses...)
	}
	return "AO_NATS_URL=nats://" + strings.Join(addresses, ",nats://"), err
}

func (s *stack) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// projectRoot returns the folder with go.work: the current one or a parent.
func projectRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work here or in a parent folder; run this inside the project")
		}
	}
	return "", err
}

// build builds the programs, and this one for the NATS servers, which need no race detector.
func (s *stack) build(ctx context.Context) error {
	for _, b := range [][]string{{"./coordinator/cmd/coordinator", "./worker/cmd/worker"}, {"./scripts/chaos"}} {
		args := []string{"build", "-buildvcs=false", "-ldflags=-w", "-o", s.path("bin") + "/"}
		if s.race && len(b) > 1 {
			args = append(args, "-race")
		}
		cmd := exec.CommandContext(ctx, "go", append(args, b...)...)
		cmd.Dir = s.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the programs: %w\n%s", err, out)
		}
	}
	return nil
}

// program returns a process of the stack; it inherits no settings of another stack.
func (s *stack) program(name, file string, env ...string) *process {
	base := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc([]string{"AO_", "RUN_", "RUNNER_", "AGENT_"}, func(p string) bool {
			return strings.HasPrefix(v, p)
		})
	})
	return &process{name: name, path: s.path("bin", file), env: append(base, env...), dir: s.path("work"),
		log: s.path("logs", name+".log"), command: exec.Command}
}

func (s *stack) all() []*process { return slices.Concat(s.nats, s.coordinators, s.workers) }

// up starts everything and waits until it is ready.
func (s *stack) up(ctx context.Context) (err error) {
	defer try.Catch(&err)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	try.Check(s.startMissing())
	for i := range s.nats {
		try.Check(s.waitForNATS(ctx, i))
	}
	for _, url := range s.urls {
		ready := func() bool { return s.startMissing() == nil && s.ready(ctx, url) }
		try.Check(waitUntil(ctx, url+" is ready", ready))
	}
	return s.waitForRunners(ctx)
}

// startMissing starts the processes that do not run. Unexpected exits are reported at the end.
func (s *stack) startMissing() error {
	for _, p := range s.all() {
		p.signal(syscall.SIGCONT)
		if p.running() {
			continue
		}
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) ready(ctx context.Context, url string) bool {
	return request(ctx, url, "GET", "/ready", nil, "", 2*time.Second).code == http.StatusOK
}

// waitForRunners waits until all runners are online at both coordinators.
func (s *stack) waitForRunners(ctx context.Context) error {
	for _, url := range s.urls {
		if err := waitUntil(ctx, "all workers are online at "+url, func() bool {
			var list struct {
				Runners []struct {
					Status string `json:"status"`
				} `json:"runners"`
			}
			n := 0
			if request(ctx, url, "GET", "/runners", nil, "", 2*time.Second).decode(&list) == nil {
				for _, r := range list.Runners {
					if r.Status == "online" {
						n++
					}
				}
			}
			return n == 2*workers // each has two profiles
		}); err != nil {
			return err
		}
	}
	return nil
}

// shutDown stops everything in order, workers first, and reports what did not exit in time.
func (s *stack) shutDown() error {
	var mu sync.Mutex
	var errs []error
	for _, group := range [][]*process{s.workers, s.coordinators, s.nats} {
		var wg sync.WaitGroup
		for _, p := range group {
			wg.Go(func() {
				if err := p.stop(45 * time.Second); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		wg.Wait()
	}
	return errors.Join(errs...)
}

// killAll kills everything at once, including left processes of executors.
func (s *stack) killAll() {
	for _, p := range s.all() {
		p.kill()
	}
	for _, found := range processes(s.isExecutor) {
		first, _, _ := strings.Cut(found, " ")
		if pid, err := strconv.Atoi(first); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// remove removes the folder, unless it is kept.
func (s *stack) remove() {
	for _, end := range s.ends {
		end()
	}
	if !s.keep {
		os.RemoveAll(s.dir)
	}
}
