// Package up runs the whole system in one process: NATS with JetStream, a coordinator and a worker. The parts are those
// of the separate programs and use the same subjects.
package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	coordinator "ao/coordinator/serve"
	"ao/nats/bus"
	"ao/shared/config"
	"ao/shared/metric"
	"ao/worker/process"
	"ao/worker/profile"
	worker "ao/worker/serve"
)

// Main is the main function of a program of this name.
func Main(name string) {
	fail := func(err error) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	process.Private()
	if err := process.Guard(); err != nil {
		fail(err)
	}
	config.TuneGC()
	var c coordinator.Config
	var w worker.Config
	var level, format string
	settings := append(c.Settings(), w.Settings()...)
	c.HTTP.Settings = config.Load(config.Program{
		Name: name, About: "Agent Orchestrator in one process: NATS, coordinator and worker."},
		append(settings, config.LogLevel.To(&level), config.LogFormat.To(&format))...)
	var started func()
	c.Log, started = quietStart(config.Logger(os.Stderr, level, format))
	w.Log, w.MaxPayload = c.Log, c.Coordinator.MaxPayload
	w.SecretFiles = c.NATS.Login.SecretFiles()
	c.Metrics = metric.New("allinone")
	w.Metrics = c.Metrics
	if embedded && w.ProfilesDir == "" {
		if err := useShipped(c.NATS.DataDir, &w); err != nil {
			fail(err)
		}
		if len(c.Coordinator.AgentsDirs) == 0 {
			c.Coordinator.AgentsSeed = filepath.Join(c.NATS.DataDir, "worker/agents/autonomous")
			c.Coordinator.AgentsWritable = true
		}
	}
	if err := run(c, w, started); err != nil {
		fail(err)
	}
}

// run starts NATS first and stops it last. The worker stops before the coordinator, so that every end record is
// processed. started is called once the user is welcomed, or the system ends.
func run(c coordinator.Config, w worker.Config, started func()) error {
	profiles, err := w.Read()
	if err != nil {
		return err
	}
	ctx, hurry := signals(c.Log)
	defer context.AfterFunc(ctx, started)()
	w.StopNow = hurry
	c.NATS.Log, c.NATS.Insecure = c.Log, c.InsecureListen
	server, err := coordinator.OpenNATS(c.NATS)
	if err != nil {
		return err
	}
	defer server.Close()
	nc, err := server.DialWorker(ctx, "worker", c.Log)
	if err != nil {
		return err
	}
	defer nc.Close()
	core, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	own, serving, ready := make(chan *bus.Bus, 1), make(chan struct{}), make(chan struct{})
	joining := newReadiness()
	w.Ready, w.NotReady = func() { joining.done(); close(ready) }, joining.registrationFailed
	c.AlsoReady = joining.err
	c.Server, c.Opened = server, func(b *bus.Bus) { own <- b }
	c.Serving = func(url string) {
		close(serving)
		go func() { // the suggested commands must work
			select {
			case <-ready:
			case <-time.After(5 * time.Second): // the log shows the reason
			case <-ctx.Done():
				return
			}
			started()
			printWelcome(url, server.URL(), c, example(profiles))
		}()
	}
	decided := make(chan error, 1)
	go func() { decided <- coordinator.Run(core, c) }()
	worked := make(chan error, 1)
	go func() {
		select {
		case <-serving: // earlier, the worker would find no coordinator
			var err error
			w.Bus, err = bus.Open(nc, bus.Config{GroupWith: <-own, Disk: server.Disk(), Metrics: c.Metrics, Log: c.Log,
				Confined: nc.AuthRequired()})
			if err == nil {
				err = worker.Run(ctx, w, profiles)
			}
			worked <- err
		case <-ctx.Done():
			worked <- nil
		}
	}()
	select {
	case err = <-decided: // start failed, or a fatal error
		return err
	case err = <-worked:
		joining.done()
	}
	if err == nil && ctx.Err() == nil {
		c.Log.Warn("the worker was drained and the coordinator continues; restart to get a worker again")
		select {
		case err = <-decided:
			return err
		case <-ctx.Done():
		}
	}
	stop()
	return errors.Join(err, <-decided)
}

// signals returns a context that ends at the first signal: no new runs. The second signal closes the channel: no more
// grace for running executors. The third ends the process.
func signals(log *slog.Logger) (context.Context, <-chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	hurry, got := make(chan struct{}), make(chan os.Signal, 3)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-got
		log.Info("shutting down; signal again to kill the programs that still run")
		stop()
		<-got
		close(hurry)
		signal.Stop(got)
	}()
	return ctx, hurry
}

// sample is an example for new users: arguments of ao, and members of a request.
type sample struct{ words, body string }

// example returns an example that works with these profiles: the shipped agent, if it is there.
func example(profiles []profile.Profile) sample {
	has := slices.ContainsFunc(profiles, func(p profile.Profile) bool {
		_, err := os.Stat(filepath.Join(p.AgentsDir, "hello", "agent.json"))
		return p.AgentsDir != "" && err == nil
	})
	if !has {
		return sample{words: "agents   # list the agents"}
	}
	return sample{"run hello --param name=you", `"agent_name":"hello","parameters":{"name":"you"}`}
}

// installed reports whether a program is on PATH.
func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// relativePath returns the path of a program beside this one, relative to the current folder; its name if there is
// none.
func relativePath(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return name
	}
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}

// printWelcome prints example commands, with addresses that are not the defaults and with the credentials they need.
func printWelcome(url, nats string, c coordinator.Config, try sample) {
	ao, at, header, first := relativePath("ao"), "", "", ""
	if url != "http://127.0.0.1:8765" {
		ao += " --url " + url
	}
	if nats != "nats://127.0.0.1:4222" {
		at = "-s " + nats + " "
	}
	if c.APITokens != "" {
		first, header = "  export AO_TOKEN=…   # a token of this coordinator\n", `-H "Authorization: Bearer $AO_TOKEN" `
	}
	if c.TLSCert != "" {
		first += "  export AO_CA=…      # the authority of its certificate\n"
		header += `--cacert "$AO_CA" `
	}
	fmt.Printf(`
Agent Orchestrator is up: %[1]s   (NATS: %[2]s)   Ctrl-C stops it. Try in another terminal:

%[4]s  %[3]s %[5]s
`, url, cmp.Or(nats, "in this process only"), ao, first, try.words)
	if try.body != "" {
		fmt.Printf("  curl -s %s%s/runs -d '{%s,\"mode\":\"sync\"}'\n", header, url, try.body)
	}
	switch {
	case try.body == "", nats == "": // no example, or NATS is not reachable
	case !installed("nats"):
	case c.NATS.Users != "" || c.NATS.Login.Creds != "":
		fmt.Println("  nats …              # see the publisher's command in the output of 'ao init'")
	default:
		fmt.Printf("  nats %srequest ao.api.runs.create '{%s}'\n", at, try.body)
	}
	in := ""
	if c.APITokens != "" {
		in = fmt.Sprintf("   (%s dashboard logs a browser in)", ao)
	}
	fmt.Printf("\nDashboard: %s/%s\n", url, in)
}
