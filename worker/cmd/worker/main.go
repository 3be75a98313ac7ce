// The worker: it runs each of its profiles as a runner, all on one NATS connection, until SIGTERM or Ctrl-C; then it lets what
// runs finish within the grace. A second signal ends the grace, a third one the process.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ao/nats/bus"
	"ao/shared/setting"
	"ao/worker"
	"ao/worker/process"
	"ao/worker/profile"

	"golang.org/x/sync/errgroup"
)

type settings struct {
	natsURL, profilesDir, projectDir, host string
	profiles, tags                         []string
	onlyTags                               bool
	grace                                  time.Duration
	maxPayload                             int64
	level, format                          string
}

func main() {
	if err := process.Guard(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	var s settings
	setting.Load(setting.Program{Name: "worker", About: "The worker of the agent orchestrator: takes runs from NATS and executes them."},
		setting.Profiles.To(&s.profiles), setting.ProfilesDir.To(&s.profilesDir), setting.NATSURL.To(&s.natsURL),
		setting.ProjectDir.To(&s.projectDir), setting.Hostname.To(&s.host), setting.Tags.To(&s.tags), setting.RequireMatchingTags.To(&s.onlyTags),
		setting.DrainGrace.To(&s.grace), setting.MaxPayload.To(&s.maxPayload), setting.LogLevel.To(&s.level), setting.LogFormat.To(&s.format))
	log := setting.Logger(os.Stderr, s.level, s.format)
	if err := work(s, log); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func work(s settings, log *slog.Logger) error {
	if s.natsURL == setting.Embed {
		return errors.New(`AO_NATS_URL: "embed" runs NATS inside the coordinator or allinone; a worker needs an address, for example AO_NATS_URL=nats://127.0.0.1:4222`)
	}
	profiles, err := read(s)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	hurry := make(chan struct{})
	go func() {
		log.Info("told to end", "signal", (<-signals).String())
		stop()
		<-signals
		close(hurry)
		signal.Stop(signals) // the third one ends the process
	}()

	nc, err := bus.Connect(ctx, s.natsURL, "worker", log)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer nc.Close()
	b, err := bus.Open(nc, bus.Config{Log: log})
	if err != nil {
		return err
	}
	var workers []*worker.Worker
	for _, p := range profiles {
		w, err := worker.New(worker.Config{
			Bus: b, Profile: p, Host: s.host, ProjectDir: s.projectDir, Tags: s.tags, RequireMatchingTags: s.onlyTags,
			Grace: graceOf(s.grace), MaxPayload: s.maxPayload, Log: log,
		})
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	go func() {
		<-hurry
		for _, w := range workers {
			w.StopNow()
		}
	}()
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range workers {
		g.Go(func() error { return w.Run(ctx) })
	}
	return g.Wait()
}

// graceOf: a worker's zero grace is its default; none at all is asked for by a negative one.
func graceOf(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// read reads the profiles to run.
func read(s settings) ([]profile.Profile, error) {
	if len(s.profiles) == 0 {
		return nil, errors.New("no profile to run: this version has no default one; name it, for example worker -x procedural, or AO_PROFILES=procedural")
	}
	if s.profilesDir == "" {
		return nil, errors.New("AO_PROFILES_DIR is not set: where do the profiles lie? for example AO_PROFILES_DIR=worker/profiles")
	}
	var all []profile.Profile
	for _, name := range s.profiles {
		p, err := profile.Read(s.profilesDir, name)
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
