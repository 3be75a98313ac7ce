// Package worker takes runs from task queues, claims each attempt at most once, supervises its executor and appends
// its end record.
//
// The path of a run:
//  1. A task queue delivers a queue message to a free slot (queues.go, slots.go, handle.go).
//  2. The worker fetches a large input and appends the claim (payload.go, claim.go).
//  3. An executor does the run under a time limit (execute.go, supervisor.go).
//  4. The worker appends the end record and retries until it is committed or refused (records.go, end.go).
//
// Meanwhile heartbeats name the live attempts and learn which of them are abandoned (attempts.go, heartbeat.go,
// client.go). The fence kills attempts that no coordinator has acknowledged (fence.go). Coordinators send commands
// (command.go). The worker's own start and shutdown are in worker.go, register.go, drain.go and shutdown.go.
package worker

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/share"
	"ao/shared/trace"
	"ao/shared/version"
	"ao/worker/gateway"
	"ao/worker/process"
	"ao/worker/profile"
	"ao/worker/program"
)

// Config configures a Worker. Bus and Profile are required.
type Config struct {
	Bus                 *bus.Bus
	Profile             profile.Profile
	Host                string // default os.Hostname
	ProjectDir          string // where runs work that name no folder; default the working directory
	Tags                []string
	RequireMatchingTags bool          // take only runs with a tag in common
	Grace               time.Duration // how long runs may continue after a shutdown request; 0: 30 s, negative: none
	MaxPayload          int64         // largest result, in bytes; default 16 MiB
	EventBytes          int64         // bytes of events of one run in a minute; default 16 MiB
	APIURL              string        // URL of the HTTP API; default: what the last answering coordinator names
	SecretFiles         []string      // files its programs should not read; empty names are ignored
	Trace               *trace.Tracer // makes spans; default none
	Log                 *slog.Logger  // default slog.Default()

	// Gateway serves the programs of all runs of this process. Default: one of the worker's own, while Run runs.
	Gateway *gateway.Gateway

	// Executor replaces the profile's executor, for benchmarks and tests. Agents are then registered as the worker's
	// own.
	Executor Executor
	Agents   []agent.Blueprint

	Metrics *metric.Registry // nil: no metrics

	// NotReady is called with the reason each time a registration fails before Ready is closed; default: none.
	NotReady func(error)

	// RecordVersion is the newest record version to read and write; default run.Version. Tests with several versions
	// in one process raise it.
	RecordVersion int

	// ReadAgentsEvery is how often changed agents of the profile are noticed; default 2 s.
	ReadAgentsEvery time.Duration

	definitions *definitions // of the profile's agents
}

// Worker is one runner: a profile's executor with its slots, under one identity. It connects its parts, which do not
// know it.
type Worker struct {
	Config
	bus *bus.Bus
	log *slog.Logger

	client        client // calls coordinators
	eventShare    *share.Rate
	remote        remoteSettings // the coordinators' latest settings
	heartbeats    heartbeater
	ready         chan struct{} // closed by the first registration
	registrations singleFlight  // re-registrations
	shutdown      shutdown

	rests      rests          // keeps it from runs that cannot work here
	queues     queues         // the task queues it takes from
	slots      slots          // limit concurrent runs
	attempts   attempts       // the attempts of this process
	payloads   *payloads      // inputs and results too large for a record
	records    *recordBuilder // builds the records of attempts
	supervisor supervisor     // runs executors
	sessions   *program.Pool  // processes that the executor keeps between turns

	counts counts
	meter  meter
	spans  spans
}

// setDefaults fills in defaults and makes the profile's executor and agents.
func (c *Config) setDefaults() (err error) {
	if c.Bus == nil {
		return errors.New("worker: Bus is required")
	}
	if c.Host == "" {
		c.Host, err = os.Hostname()
		if err != nil {
			return fmt.Errorf("hostname: %w; set AO_HOSTNAME", err)
		}
	}
	c.ProjectDir, err = filepath.Abs(c.ProjectDir)
	if err != nil {
		return fmt.Errorf("project folder: %w", err)
	}
	c.Grace = max(cmp.Or(c.Grace, 30*time.Second), 0)
	c.MaxPayload = cmp.Or(c.MaxPayload, 16<<20)
	c.EventBytes = cmp.Or(c.EventBytes, 16<<20)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.RecordVersion = cmp.Or(c.RecordVersion, run.Version)
	c.definitions = fixedDefinitions(c.Agents)
	if c.Executor == nil {
		c.Executor, c.definitions, err = newExecutor(c.Profile, c.confinement(), c.MaxPayload, c.Log)
	}
	return err
}

// confinement returns the confinement of the runs' programs.
func (c *Config) confinement() *process.Confinement {
	box := c.Profile.Confinement()
	box.SecretFiles = slices.DeleteFunc(slices.Clone(c.SecretFiles), func(file string) bool { return file == "" })
	return box
}

// reportExposedSecret sets the runner's Exposes to a secret file that its programs can read, and logs a warning.
func reportExposedSecret(cfg Config, me *runnerapi.Runner, log *slog.Logger) {
	if exposes := cfg.confinement().ExposedSecret(); exposes != "" && cfg.Profile.StartsPrograms() {
		me.ReadableSecret = exposes
		log.Warn("programs of this profile can read a secret file of the worker; hide it (AO_HIDE) or use a sandbox "+
			"in the profile", "profile", cfg.Profile.Name, "file", exposes)
	}
}

func newRunner(cfg Config) runnerapi.Runner {
	p := cfg.Profile
	return runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: cfg.Host, ProjectDir: cfg.ProjectDir, ExecutorProfile: p.Name,
			ExecutorType: p.Type},
		Version: version.Current(), Instance: rand.Text(), CredentialID: cfg.Bus.CredentialID(),
		Tags:                append([]string{}, cfg.Tags...),
		RequireMatchingTags: cfg.RequireMatchingTags,
		MaxConcurrentRuns:   cmp.Or(p.MaxConcurrentRuns, defaultSlots()), TimeoutSeconds: p.TimeoutSeconds,
		Models: p.AllowedModels(),
	}
}

// ID returns the runner's id.
func (w *Worker) ID() string { return w.client.id }

// Ready is closed after the first successful registration; from then on the worker takes runs.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// LastHeartbeat returns when a coordinator last accepted a heartbeat; the zero time before the first.
func (w *Worker) LastHeartbeat() time.Time { return w.remote.lastHeartbeat() }

// HeartbeatInterval returns the time between two heartbeats.
func (w *Worker) HeartbeatInterval() time.Duration { return w.remote.heartbeatInterval() }

// StopNow ends the grace period of a worker that shuts down.
func (w *Worker) StopNow() { w.shutdown.endGrace() }
