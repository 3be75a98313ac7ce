// Command ao is the command line of Agent Orchestrator with the whole system in it, for 'ao up' and 'ao worker'.
// scripts/up builds it, and releases have it. The images of separate coordinators have coordinator/cmd/ao, which is
// 25 MB smaller.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ao/coordinator/cmd/ao/command"
	"ao/scripts/allinone/up"
	"ao/worker/process"
)

func main() {
	process.AsGuard()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(command.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, command.Servers{
		"up":     func(args []string) { setArgs(args); up.Embedded(); up.Main("ao up") },
		"worker": func(args []string) { setArgs(args); up.Worker("ao worker") },
	}))
}

// setArgs makes args the arguments of this process.
func setArgs(args []string) { os.Args = append([]string{os.Args[0]}, args...) }
