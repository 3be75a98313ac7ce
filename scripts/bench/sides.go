package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/serve"
	"ao/nats/bus"
	"ao/nats/embed"
	"ao/scripts/try"
	"ao/shared/agent"
	"ao/shared/config"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker"
	"ao/worker/process"
	"ao/worker/profile"

	"github.com/nats-io/nats.go/jetstream"
)

// roles are the roles of child processes.
var roles = map[string]func(context.Context){
	"nats": natsRole,
	"floor-coordinator": func(ctx context.Context) {
		floorCoordinator(ctx, os.Getenv("AO_BENCH_HTTP"), os.Getenv("AO_BENCH_NATS"))
	},
	"floor-worker": func(ctx context.Context) {
		floorWorker(ctx, os.Getenv("AO_BENCH_NATS"), slotCount())
	},
	"ours-coordinator": ourCoordinator,
	"ours-worker":      ourWorker,
	"one":              oneRole,
}

// slots is the number of slots on both sides.
const slots = 128

// natsRole runs one of the NATS servers listed in AO_BENCH_NATS; several form a cluster.
func natsRole(ctx context.Context) {
	go debug()
	all := strings.Split(strings.ReplaceAll(os.Getenv("AO_BENCH_NATS"), "nats://", ""), ",")
	i, _ := strconv.Atoi(os.Getenv("AO_BENCH_SERVER"))
	c := embed.Config{StoreDir: os.Getenv("AO_BENCH_DIR"), Listen: all[i], Sync: os.Getenv("AO_BENCH_SYNC"),
		Log: warnLogger()}
	if len(all) > 1 {
		c.StoreDir, c.Name = filepath.Join(c.StoreDir, "nats", strconv.Itoa(i)), "bench-"+strconv.Itoa(i)
		c.Routes = strings.Split(os.Getenv("AO_BENCH_ROUTES"), ",")
		c.ClusterListen = c.Routes[i]
	}
	s := try.Must(embed.Start(c))
	<-ctx.Done()
	s.Close()
}

func warnLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func ourCoordinator(ctx context.Context) {
	config.TuneGC()
	go debug()
	cfg := coordinatorConfig()
	try.Check(serve.Run(ctx, cfg))
}

// debug serves the live heap and profiles on a separate port.
func debug() {
	mux := http.DefaultServeMux
	mux.HandleFunc("/heap", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprint(w, m.HeapAlloc)
	})
	http.ListenAndServe(os.Getenv("AO_BENCH_DEBUG"), mux)
}

// noop is an in-process executor that does nothing.
type noop struct{}

func (noop) Run(context.Context, executor.Invocation, executor.Host) run.Outcome {
	code := 0
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Procedural, Data: json.RawMessage(`{}`),
		ExitCode: &code}}
}

func ourWorker(ctx context.Context) {
	try.Check(process.Guard())
	config.TuneGC()
	go debug()
	nc := try.Must(bus.Connect(ctx, os.Getenv("AO_BENCH_NATS"), "worker", warnLogger()))
	defer nc.Close()
	b := try.Must(bus.Open(nc, bus.Config{Log: warnLogger()}))
	try.Check(runWorker(ctx, b))
}

// oneRole runs NATS, coordinator and worker in one process, as scripts/up does.
func oneRole(ctx context.Context) {
	try.Check(process.Guard())
	config.TuneGC()
	go debug()
	cfg := coordinatorConfig()
	cfg.NATS = serve.NATSConfig{URL: config.Embed, Listen: strings.TrimPrefix(cfg.NATS.URL, "nats://"),
		Sync: os.Getenv("AO_BENCH_SYNC"), DataDir: os.Getenv("AO_BENCH_DIR"), Log: warnLogger()}
	cfg.Server = try.Must(serve.OpenNATS(cfg.NATS))
	defer cfg.Server.Close()
	nc := try.Must(cfg.Server.DialWorker(ctx, "worker", warnLogger()))
	defer nc.Close()
	ended := make(chan error, 1)
	cfg.Opened = func(own *bus.Bus) {
		go func() {
			b, err := bus.Open(nc, bus.Config{GroupWith: own, Disk: cfg.Server.Disk(), Log: warnLogger()})
			if err == nil {
				err = runWorker(ctx, b)
			}
			ended <- err
		}()
	}
	try.Check(errors.Join(serve.Run(ctx, cfg), <-ended))
}

// runWorker runs a worker on a bus.
func runWorker(ctx context.Context, b *bus.Bus) error {
	cfg := worker.Config{
		Bus: b, Log: warnLogger(), ProjectDir: projectDir(),
		Profile: profile.Profile{Name: "bench", Type: run.Procedural, Command: "ao-procedural-exec",
			MaxConcurrentRuns: slotCount()},
	}
	report := newReporter()
	if os.Getenv("AO_BENCH_KIND") == "spawn" {
		dir := filepath.Join(os.Getenv("AO_BENCH_DIR"), "agents")
		if err := writeScripts(dir); err != nil {
			return err
		}
		cfg.Profile.AgentsDir, cfg.Profile.MaxConcurrentRuns = dir, spawnSlots
	} else {
		cfg.Executor = noop{}
		if report != nil {
			cfg.Executor = reportingNoop{report, os.Getenv("AO_BENCH_HOLD") != ""}
		}
		cfg.Agents = []agent.Blueprint{{Name: "noop", Type: run.Procedural, Command: "noop", Status: agent.Active}}
	}
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-w.Ready():
			report.ready()
		case <-ctx.Done():
		}
	}()
	return w.Run(ctx)
}

// spawnSlots limits the programs that run at once, on both sides.
const spawnSlots = 16

// programs are the programs of part spawn: true and shell scripts.
var programs = map[string]string{
	"true":   "",
	"hello":  `echo '{"hello":"world"}'`,
	"report": `ls -l /etc | awk '{n++; s+=$5} END {printf "{\"files\":%d,\"bytes\":%d}\n", n, s}'`,
}

func writeScripts(dir string) error {
	for name, script := range programs {
		command := name
		if script != "" {
			command = "./" + name
		}
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "agent.json"), []byte(`{"name":"`+name+`","command":"`+command+
			`"}`), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// program returns the path that spawnLoop runs.
func (s *side) program(name string) string {
	if programs[name] == "" {
		return name
	}
	return filepath.Join(s.dir, "agents", name, name)
}

// side is one running pipeline.
type side struct {
	url   string
	debug map[string]string // by process: its debug address
	dir   string
	procs []*proc // NATS (each server), coordinator, worker
}

// layout describes the processes of a side.
type layout struct {
	name    string // "floor" or "ours"
	program string // this program built from another commit; empty: this one
	fsync   string // AO_NATS_SYNC
	kind    string // "spawn": runs start programs
	servers int    // NATS servers; 0: one
	one     bool   // all in one process, as scripts/up does
}

func (l layout) roles() []string {
	if l.one {
		return []string{"one"}
	}
	return append(slices.Repeat([]string{"nats"}, max(l.servers, 1)), l.name+"-coordinator", l.name+"-worker")
}

func launch(ctx context.Context, l layout) *side {
	dir := try.Must(os.MkdirTemp("", "ao-bench-"))
	s, ok := &side{dir: dir, debug: map[string]string{}}, false
	defer func() {
		if !ok {
			s.end()
		}
	}()
	http := freePort()
	s.url = "http://" + http + "/runs"
	var nats, routes []string
	for range max(l.servers, 1) {
		nats, routes = append(nats, "nats://"+freePort()), append(routes, freePort())
	}
	env := []string{"AO_BENCH_DIR=" + dir, "AO_BENCH_HTTP=" + http, "AO_BENCH_NATS=" + strings.Join(nats, ","),
		"AO_BENCH_SYNC=" + l.fsync, "AO_BENCH_KIND=" + l.kind}
	if l.servers > 1 {
		env = append(env, "AO_BENCH_ROUTES="+strings.Join(routes, ","), "AO_BENCH_AO_NATS_REPLICAS="+
			strconv.Itoa(l.servers))
	}
	for i, role := range l.roles() {
		own := role[strings.LastIndexByte(role, '-')+1:]
		s.debug[own] = freePort()
		s.procs = append(s.procs, start(l.program, role, append(env, "AO_BENCH_DEBUG="+s.debug[own],
			"AO_BENCH_SERVER="+strconv.Itoa(i))...))
		if i == len(nats)-1 && role == "nats" {
			waitDialable(ctx, nats)
		}
	}
	probe := body["async"]
	if l.kind == "spawn" {
		probe = []byte(`{"agent_name":"true","parameters":{}}`)
	}
	c := client(1)
	wait, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for err := errors.New("not asked"); err != nil; time.Sleep(20 * time.Millisecond) {
		err = post(c, s.url, probe)
		if err != nil && wait.Err() != nil {
			try.Failf("%s does not take runs: %w", l.name, err)
		}
	}
	ok = true
	return s
}

// waitDialable waits until each server accepts connections and JetStream works; a cluster needs a leader first.
func waitDialable(ctx context.Context, all []string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, address := range all {
		nc := try.Must(bus.Connect(ctx, address, "probe", warnLogger()))
		defer nc.Close()
		js, err := jetstream.New(nc)
		for asked := errors.New("not asked"); err == nil && asked != nil; err = ctx.Err() {
			once, done := context.WithTimeout(ctx, time.Second)
			_, asked = js.AccountInfo(once)
			done()
			time.Sleep(20 * time.Millisecond)
		}
		try.Check(err)
	}
}

func (s *side) end() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		s.procs[i].end()
	}
	os.RemoveAll(s.dir)
}

// measure runs a round and returns the CPU time of each process.
func (s *side) measure(f func() load) (load, []time.Duration) {
	before := make([]time.Duration, len(s.procs))
	for i, p := range s.procs {
		before[i] = p.cpu()
	}
	l := f()
	used := make([]time.Duration, len(s.procs))
	for i, p := range s.procs {
		used[i] = p.cpu() - before[i]
	}
	return l, used
}

// perRun formats the CPU time per run of each process, over all rounds.
func perRun(s *side, used [][]time.Duration, loads []load) string {
	var n float64
	for _, l := range loads {
		n += l.perSecond * l.seconds
	}
	var out []string
	for i, p := range s.procs {
		var all time.Duration
		for _, u := range used {
			all += u[i]
		}
		name := p.role[strings.LastIndexByte(p.role, '-')+1:]
		out = append(out, fmt.Sprintf("%s %dµs", name, int64(float64(all.Microseconds())/max(n, 1))))
	}
	return strings.Join(out, ", ")
}

// profile writes CPU profiles of the processes during a load.
func (s *side) profile(dir string, d time.Duration) {
	if dir == "" {
		return
	}
	for name, addr := range s.debug {
		go func() {
			r, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, int(d.Seconds())))
			if err != nil {
				return
			}
			defer r.Body.Close()
			raw, _ := io.ReadAll(r.Body)
			os.WriteFile(filepath.Join(dir, name+".pprof"), raw, 0o644)
		}()
	}
}

// waitDrained waits until no run is open.
func (s *side) waitDrained(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		r := try.Must(http.Get(s.url + "?status=pending,claimed,running,stopping&limit=1"))
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if strings.HasPrefix(string(text), `{"runs":[]`) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	try.Failf("runs are left: %w", ctx.Err())
}

func (s *side) heap() int64 {
	r := try.Must(http.Get("http://" + s.debug["coordinator"] + "/heap"))
	defer r.Body.Close()
	text := try.Must(io.ReadAll(r.Body))
	return try.Must(strconv.ParseInt(string(text), 10, 64))
}

// spawnLoop runs the program in loops with pipes for its output, and nothing else.
func spawnLoop(ctx context.Context, program string, loops int, d time.Duration) load {
	end := time.Now().Add(d)
	return runLoops(ctx, loops, func() bool { return time.Now().Before(end) }, func() error {
		var out, err strings.Builder
		cmd := exec.Command(program)
		cmd.Stdout, cmd.Stderr = &out, &err
		return cmd.Run()
	})
}
