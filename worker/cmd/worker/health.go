package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"ao/shared/config"
	"ao/worker/serve"
)

// health is 'worker health', a container's health check: it exits with 1 and the reason if the worker is unhealthy.
func health() {
	var file string
	err := config.Parse(config.Program{Name: "worker health"}, nil, os.LookupEnv, config.HealthFile.To(&file))
	if err == nil {
		err = serve.Health(file, time.Now())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", strings.TrimSpace(err.Error()))
		os.Exit(1)
	}
	fmt.Println("every runner's heartbeats are answered")
	os.Exit(0)
}
