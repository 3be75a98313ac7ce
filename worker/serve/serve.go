// Package serve runs the profiles of a worker process, each as a runner, on one NATS connection. It is used by
// cmd/worker and by the all-in-one process.
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

// Config configures a worker process.
type Config struct {
	Bus *bus.Bus // required

	ProfilesDir, ProjectDir, Host string
	Profiles, Tags                []string
	OnlyTags                      bool          // take only runs with a tag in common
	Grace                         time.Duration // how long runs may continue after a shutdown request
	MaxPayload                    int64         // largest result, in bytes
	EventBytes                    int64         // bytes of events of a run in a minute
	Hide                          []string      // files and folders that no program may read (process.Hide)
	// files of this process that programs should not read, such as its NATS login; empty names are ignored
	SecretFiles []string
	HealthFile  string       // written while healthy; default none
	APIURL      string       // URL of the HTTP API; default: what a coordinator names
	CA          string       // file of additional certificate authorities for it
	Log         *slog.Logger // default slog.Default()

	Metrics *metric.Registry // nil: no metrics

	StopNow <-chan struct{} // closed: the grace period is over
	Ready   func()          // called once every profile's runner has registered; may be nil

	// NotReady is called with the reason each time a profile's registration fails before Ready. Calls may be
	// concurrent. May be nil.
	NotReady func(profile string, why error)
}

// Settings returns the settings that a worker reads.
func (c *Config) Settings() []config.Bound {
	return []config.Bound{
		config.Profiles.To(&c.Profiles), config.ProfilesDir.To(&c.ProfilesDir),
		config.ProjectDir.To(&c.ProjectDir), config.Hostname.To(&c.Host), config.Tags.To(&c.Tags),
		config.RequireMatchingTags.To(&c.OnlyTags),
		config.DrainGrace.To(&c.Grace), config.Hide.To(&c.Hide), config.HealthFile.To(&c.HealthFile),
		config.EventBytes.To(&c.EventBytes), config.APIURL.To(&c.APIURL), config.CA.To(&c.CA),
	}
}

// Read reads the profiles and hides files from their programs, before anything is connected or started.
func (c Config) Read() ([]profile.Profile, error) {
	if err := process.Hide(c.Hide, cmp.Or(c.ProjectDir, ".")); err != nil {
		return nil, fmt.Errorf("AO_HIDE: %w", err)
	}
	return c.profiles()
}

func (c Config) profiles() ([]profile.Profile, error) {
	if len(c.Profiles) == 0 { // the default autonomous profile
		p, err := profile.Default(c.ProfilesDir)
		return []profile.Profile{p}, err
	}
	if c.ProfilesDir == "" {
		return nil,
			errors.New("AO_PROFILES_DIR is not set; set it to the folder of the profiles, for example " +
				"AO_PROFILES_DIR=worker/profiles")
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

// Run runs the profiles until ctx ends, then lets runs finish within the grace period.
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
	programs := c.Metrics.Gauge("ao_worker_processes",
		"Executor programs that this process runs now, without their child processes.")
	defer c.Metrics.AtScrape(func(s *metric.Scrape) { s.Set(programs, float64(process.Running())) })()
	g, ctx := errgroup.WithContext(ctx)
	var all []*worker.Worker
	for _, p := range profiles {
		w, err := c.newWorker(p, door, spans)
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
		alive, dead := context.WithCancel(context.WithoutCancel(ctx)) // draining is healthy
		stopped := make(chan struct{})
		go func() { defer close(stopped); writeHealth(alive, c.HealthFile, all, c.Log) }()
		defer func() { dead(); <-stopped }()
	}
	return g.Wait()
}

func (c Config) newWorker(p profile.Profile, door *gateway.Gateway, spans *trace.Tracer) (*worker.Worker, error) {
	var notReady func(error)
	if c.NotReady != nil {
		notReady = func(err error) { c.NotReady(p.Name, err) }
	}
	return worker.New(worker.Config{
		Bus: c.Bus, Profile: p, Host: c.Host, ProjectDir: c.ProjectDir, Tags: c.Tags, RequireMatchingTags: c.OnlyTags,
		Grace:      cmp.Or(c.Grace, -1), // zero is the worker's default
		MaxPayload: c.MaxPayload, EventBytes: c.EventBytes, APIURL: c.APIURL, SecretFiles: c.SecretFiles, Gateway: door,
		Trace:   spans,
		Metrics: c.Metrics, Log: c.Log, NotReady: notReady,
	})
}

// run runs a runner; StopNow ends its grace period.
func (c Config) run(ctx context.Context, w *worker.Worker) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-c.StopNow:
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
