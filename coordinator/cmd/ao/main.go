// Command ao is Agent Orchestrator for people at a terminal: it starts runs, follows them, and shows what a coordinator
// knows, over HTTP. `ao help` lists what it can do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ao/coordinator/cmd/ao/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	os.Exit(command.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
