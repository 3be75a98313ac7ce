// Command coordinator is the server: it takes runs over HTTP and NATS, decides, and answers.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ao/coordinator/serve"
	"ao/shared/config"
)

func main() {
	config.TuneGC()
	var cfg serve.Config
	var level, format string
	cfg.HTTP.Settings = config.Load(config.Program{
		Name: "coordinator",
		About: "The coordinator of Agent Orchestrator: accepts runs over HTTP and NATS, and follows them to their " +
			"end."},
		append(cfg.Settings(), config.LogLevel.To(&level), config.LogFormat.To(&format))...)
	cfg.Log = config.Logger(os.Stderr, level, format)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve.Run(ctx, cfg); err != nil && ctx.Err() == nil {
		cfg.Log.Error("coordinator ended", "err", err)
		os.Exit(1)
	}
}
