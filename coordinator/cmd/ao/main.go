// Command ao is the command line of Agent Orchestrator: it starts runs, follows them and shows the coordinator's
// state, all over HTTP. `ao help` lists its commands.
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
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(command.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, nil))
}
