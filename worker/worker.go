// Package worker takes runs, begins each at most once, supervises its executor and says the last word about it.
//
// The way of a run here: a lane hands its queue message to a free slot (lanes.go, slots.go, take.go); what is large about it
// is fetched and the claim is appended (payload.go, claim.go); an executor does it under a time limit (execute.go, host.go); its
// outcome is appended, again and again until it stands or is refused (records.go, lastword.go). Meanwhile beats name the attempts
// that are alive and learn which are not (attempts.go, beat.go, member.go), those that nobody answers for are fenced off (fence.go),
// and coordinators give commands (command.go). Beginning and end of the worker itself are in worker.go, register.go and leave.go.
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
	"ao/shared/trace"
	"ao/shared/version"
	"ao/worker/gateway"
	"ao/worker/process"
	"ao/worker/profile"
)

// Config is what a Worker is made of. Bus and Profile are required.
type Config struct {
	Bus                 *bus.Bus
	Profile             profile.Profile
	Host                string // default os.Hostname
	ProjectDir          string // default the working directory; where runs work unless they say otherwise
	Tags                []string
	RequireMatchingTags bool          // take only runs with a tag in common
	Grace               time.Duration // how long runs may go on when the worker is told to end; 0: default 30 s, negative: none
	MaxPayload          int64         // largest result in bytes, default 16 MiB
	APIURL              string        // where the orchestrator's HTTP API is; default what the coordinator says that answered last
	Secrets             []string      // files that its programs should not read; empty names count for nothing
	Trace               *trace.Tracer // makes spans; default none
	Log                 *slog.Logger  // default slog.Default()

	// Gateway is the door of the whole process, for the programs of its runs; default one of the worker's own, while Run runs.
	Gateway *gateway.Gateway

	// Executor, for benchmarks and tests, does the runs instead of the profile's; Agents are announced then.
	Executor Executor
	Agents   []agent.Blueprint

	Metrics *metric.Registry // default nil: nothing is counted

	// NotReady is called before Ready is closed, each time a registration fails, with the reason; default nothing.
	NotReady func(error)

	// RecordVersion is the newest version of records that is read and written, default run.Version. Tests of several
	// versions in one process raise it.
	RecordVersion int

	broken []agent.Bad // files of the profile that could not be used; readers are told of them
}

// Worker is one runner: a profile's executor with its slots, under one identity. It wires its parts, which do not know it: what
// a coordinator says is obeyed here, a delivery is brought to its end here.
type Worker struct {
	Config
	bus *bus.Bus
	log *slog.Logger

	me     member            // who it is to coordinators
	terms  terms             // what they said last
	pulse  pulse             // heartbeats
	serves map[string]string // its own agents' names and hashes
	ready  chan struct{}     // closed at the first registration
	joins  single            // further registrations
	end    ending

	lanes    lanes    // where runs come from
	slots    slots    // how many at once
	attempts attempts // those that are here
	bodies   *bodies  // what is too large for a record
	records  *records // what is appended of an attempt
	hosting  hosting  // how executors do them
	sessions kept     // the processes that the executor keeps

	counts counts
	meter  meter
	spans  spans
}

// complete fills in what is not said, and the executor and agents of the profile.
func (c *Config) complete() (err error) {
	if c.Bus == nil {
		return errors.New("worker: Bus is required")
	}
	if c.Host == "" {
		if c.Host, err = os.Hostname(); err != nil {
			return fmt.Errorf("hostname: %w; set AO_HOSTNAME", err)
		}
	}
	if c.ProjectDir, err = filepath.Abs(c.ProjectDir); err != nil {
		return fmt.Errorf("project folder: %w", err)
	}
	c.Grace = max(cmp.Or(c.Grace, 30*time.Second), 0)
	c.MaxPayload = cmp.Or(c.MaxPayload, 16<<20)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.RecordVersion = cmp.Or(c.RecordVersion, run.Version)
	if c.Executor == nil {
		c.Executor, c.Agents, c.broken, err = builtin(c.Profile, c.box(), c.MaxPayload, c.Log)
	}
	return err
}

// box is how the programs of runs are confined.
func (c *Config) box() *process.Confinement {
	box := c.Profile.Confinement()
	box.Secrets = slices.DeleteFunc(slices.Clone(c.Secrets), func(file string) bool { return file == "" })
	return box
}

// exposure has the runner tell which secret its programs can read, however they are confined.
func exposure(cfg Config, me *runnerapi.Runner, log *slog.Logger) {
	if exposes := cfg.box().Exposes(); exposes != "" && cfg.Profile.StartsPrograms() {
		me.Exposes = exposes
		log.Warn("programs of this profile can read a secret of the worker's; hide it from them (AO_HIDE), or give the profile a sandbox", "profile", cfg.Profile.Name, "file", exposes)
	}
}

func runnerOf(cfg Config) runnerapi.Runner {
	p := cfg.Profile
	return runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: cfg.Host, ProjectDir: cfg.ProjectDir, ExecutorProfile: p.Name, ExecutorType: p.Type},
		Version:  version.Of(), Instance: rand.Text(), Door: cfg.Bus.CredentialID(), Tags: append([]string{}, cfg.Tags...), RequireMatchingTags: cfg.RequireMatchingTags,
		MaxConcurrentRuns: cmp.Or(p.MaxConcurrentRuns, defaultSlots()), TimeoutSeconds: p.TimeoutSeconds, Models: p.AllowedModels(), Agents: cfg.Agents, Broken: cfg.broken[:min(len(cfg.broken), 100)],
	}
}

// ID is the runner's id.
func (w *Worker) ID() string { return w.me.id }

// Ready is closed when the worker has registered for the first time: from then on it takes runs.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Heard is when a coordinator last answered a heartbeat and knew the runner; the zero time before the first.
func (w *Worker) Heard() time.Time { return w.terms.heard() }

// Beat is the time between two heartbeats.
func (w *Worker) Beat() time.Duration { return w.terms.beat() }

// StopNow ends the grace of a worker that is told to end.
func (w *Worker) StopNow() { w.end.hurry() }

// Counts gives the counters.
func (w *Worker) Counts() Counts { return w.counts.now() }
