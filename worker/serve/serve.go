// Package serve runs the profiles of a worker process, each as a runner, on one NATS connection. The program worker is its
// main; one process that holds everything uses it too.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/shared/config"
	"ao/shared/metric"
	"ao/shared/trace"
	"ao/shared/trace/otlp"
	"ao/worker"
	"ao/worker/gateway"
	"ao/worker/process"
	"ao/worker/profile"

	"golang.org/x/sync/errgroup"
)

// Config is what a worker process needs to know.
type Config struct {
	Bus *bus.Bus // required

	ProfilesDir, ProjectDir, Host string
	Profiles, Tags                []string
	OnlyTags                      bool          // take only runs with a tag in common
	Grace                         time.Duration // how long runs may go on when the worker is told to end
	MaxPayload                    int64         // largest result, bytes
	Hide                          []string      // files and folders that no program may read; see process.Hide
	Secrets                       []string      // files of this process's own that programs should not read, such as its login at NATS; empty ones count for nothing
	HealthFile                    string        // written while all is well; default none
	APIURL                        string        // where the orchestrator's HTTP API is; default what a coordinator says
	CA                            string        // file of authorities whose certificates that may have, beside the system's
	Log                           *slog.Logger  // default slog.Default()

	Metrics *metric.Registry // default nil: nothing is counted

	Hurry <-chan struct{} // closed: the grace is over
	Ready func()          // called once, when every profile's runner has registered: from then on they take runs; default nothing

	// NotReady is called before Ready, each time a profile's registration fails, with the reason. Each profile calls it from a
	// goroutine of its own; default nothing.
	NotReady func(profile string, why error)
}

// Settings are the rows of the configuration that a worker reads.
func (c *Config) Settings() []config.Bound {
	return []config.Bound{
		config.Profiles.To(&c.Profiles), config.ProfilesDir.To(&c.ProfilesDir),
		config.ProjectDir.To(&c.ProjectDir), config.Hostname.To(&c.Host), config.Tags.To(&c.Tags), config.RequireMatchingTags.To(&c.OnlyTags),
		config.DrainGrace.To(&c.Grace), config.Hide.To(&c.Hide), config.HealthFile.To(&c.HealthFile), config.APIURL.To(&c.APIURL), config.CA.To(&c.CA),
	}
}

// Read reads the profiles to run, and hides what is to be hidden from their programs: what is wrong is told before anything is connected
// to, and before any program runs.
func (c Config) Read() ([]profile.Profile, error) {
	if err := process.Hide(c.Hide, cmp.Or(c.ProjectDir, ".")); err != nil {
		return nil, fmt.Errorf("AO_HIDE: %w", err)
	}
	return c.profiles()
}

func (c Config) profiles() ([]profile.Profile, error) {
	if len(c.Profiles) == 0 { // the default autonomous one (seed S003)
		p, err := profile.Default(c.ProfilesDir)
		return []profile.Profile{p}, err
	}
	if c.ProfilesDir == "" {
		return nil, errors.New("AO_PROFILES_DIR is not set: where do the profiles lie? for example AO_PROFILES_DIR=worker/profiles")
	}
	var all []profile.Profile
	for _, name := range c.Profiles {
		p, err := profile.Read(c.ProfilesDir, name)
		if err == nil {
			err = p.Runnable()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Run runs the profiles until ctx ends, then lets what runs finish within the grace.
func Run(ctx context.Context, c Config, profiles []profile.Profile) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	spans, flush, err := otlp.Open("ao-worker", c.Log)
	if err != nil {
		return err
	}
	defer flush()
	door, err := gateway.New(gateway.Config{MaxState: c.MaxPayload, CA: c.CA, Log: c.Log})
	if err != nil {
		return err
	}
	defer door.Close()
	programs := c.Metrics.Gauge("ao_worker_processes", "Executor programs that this process runs at this moment; what they have started is not among them.")
	defer c.Metrics.AtScrape(func(s *metric.Scrape) { s.Set(programs, float64(process.Running())) })()
	g, ctx := errgroup.WithContext(ctx)
	var all []*worker.Worker
	for _, p := range profiles {
		w, err := c.worker(p, door, spans)
		if err != nil {
			stop()
			return errors.Join(err, g.Wait())
		}
		all = append(all, w)
		g.Go(func() error { return c.run(ctx, w) })
	}
	if c.Ready != nil {
		go c.whenReady(ctx, all)
	}
	if c.HealthFile != "" {
		alive, dead := context.WithCancel(context.WithoutCancel(ctx)) // runs that may finish are no illness
		told := make(chan struct{})
		go func() { defer close(told); tell(alive, c.HealthFile, all, c.Log) }()
		defer func() { dead(); <-told }()
	}
	return g.Wait()
}

// worker makes the runner of a profile.
func (c Config) worker(p profile.Profile, door *gateway.Gateway, spans *trace.Tracer) (*worker.Worker, error) {
	var notReady func(error)
	if c.NotReady != nil {
		notReady = func(err error) { c.NotReady(p.Name, err) }
	}
	return worker.New(worker.Config{
		Bus: c.Bus, Profile: p, Host: c.Host, ProjectDir: c.ProjectDir, Tags: c.Tags, RequireMatchingTags: c.OnlyTags,
		Grace: graceOf(c.Grace), MaxPayload: c.MaxPayload, APIURL: c.APIURL, Secrets: c.Secrets, Gateway: door, Trace: spans, Metrics: c.Metrics, Log: c.Log,
		NotReady: notReady,
	})
}

// run is a runner's life. In a hurry it has no grace.
func (c Config) run(ctx context.Context, w *worker.Worker) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-c.Hurry:
			w.StopNow()
		case <-over:
		}
	}()
	return w.Run(ctx)
}

// whenReady calls Ready once every runner has registered.
func (c Config) whenReady(ctx context.Context, all []*worker.Worker) {
	for _, w := range all {
		select {
		case <-w.Ready():
		case <-ctx.Done():
			return
		}
	}
	c.Ready()
}

// graceOf: a worker's zero grace is its default; none at all is asked for by a negative one.
func graceOf(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
