package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"ao/nats/bus"
	"ao/shared/config"
	"ao/shared/metric"
	"ao/worker/process"
)

// Main is the main function of a program of this name: a worker until SIGTERM or Ctrl-C. Then running runs may finish
// within the grace period. A second signal ends the grace period, a third one the process. prepare may complete the
// settings; nil: they are complete. own are settings of the program's own, which prepare may use.
func Main(name string, prepare func(*Config) error, own ...config.Bound) {
	fail := func(err error) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	process.Private()
	if err := process.Guard(); err != nil {
		fail(err)
	}
	config.TuneGC()
	var c Config
	var natsURL, level, format string
	var login bus.Login
	var ports metric.Endpoints
	settings := slices.Concat(c.Settings(), own, ports.Settings())
	config.Load(config.Program{Name: name,
		About: "The worker of the agent orchestrator: takes runs from NATS and executes them."},
		append(settings, config.NATSURL.To(&natsURL), config.NATSCreds.To(&login.Creds), config.NATSCA.To(&login.CA),
			config.NATSCert.To(&login.Cert), config.NATSKey.To(&login.Key),
			config.MaxPayload.To(&c.MaxPayload), config.LogLevel.To(&level), config.LogFormat.To(&format))...)
	c.Log = config.Logger(os.Stderr, level, format)
	c.SecretFiles = login.SecretFiles()
	if ports.Metrics != "" { // only if they are served
		c.Metrics = metric.New("worker")
	}
	if prepare != nil {
		if err := prepare(&c); err != nil {
			fail(err)
		}
	}
	if err := work(c, ports, natsURL, login); err != nil {
		fail(err)
	}
}

func work(c Config, ports metric.Endpoints, natsURL string, login bus.Login) error {
	if natsURL == config.Embed {
		return errors.New(`AO_NATS_URL: "embed" runs NATS inside the coordinator or allinone; a worker needs an ` +
			`address, for example AO_NATS_URL=nats://127.0.0.1:4222`)
	}
	profiles, err := c.Read()
	if err != nil {
		return err
	}
	logged, err := login.Options()
	if err != nil {
		return err
	}
	shut, err := ports.Listen(context.Background(), c.Metrics, c.Log)
	if err != nil {
		return err
	}
	defer shut()
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	hurry := make(chan struct{})
	c.StopNow = hurry
	go func() {
		c.Log.Info("shutting down", "signal", (<-signals).String())
		stop()
		<-signals
		close(hurry)
		signal.Stop(signals) // the third one ends the process
	}()
	nc, err := bus.Connect(ctx, natsURL, "worker", c.Log, logged...)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer nc.Close()
	c.Bus, err = bus.Open(nc, bus.Config{Metrics: c.Metrics, Log: c.Log, Confined: nc.AuthRequired()})
	if err != nil {
		return err
	}
	return Run(ctx, c, profiles)
}
