// Command peers compares this system with others that do the same work: asynq on Redis and River on PostgreSQL. The
// floor of scripts/bench is beside them. It starts and stops all servers itself, on 127.0.0.1 in temporary folders, and
// prints Markdown tables.
//
//	scripts/bench/peers/run                    # no-op jobs beside the peers; recovery of a killed worker's job
//	scripts/bench/peers/run -systems ours,river -seconds 10 -rounds 3
//
// It is a separate module outside go.work, so that the product does not depend on its peers. Our system and the floor
// are roles of scripts/bench, which it builds and starts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role := os.Getenv("AO_PEERS_ROLE"); role != "" {
		if err := roles[role](ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "peers:", err)
		}
		stop()
		os.Exit(1)
	}
}

// bench holds the settings of a measurement.
type bench struct {
	out, log io.Writer
	dir      string // temporary folder
	program  string // scripts/bench, built

	rounds    int
	length    time.Duration // duration of a timed part of a round
	jobs      int           // most jobs of a burst
	producers int
	slots     int // concurrent jobs of all workers of a system together
	text      int // bytes in a job
	low       float64
	share     float64
	patience  time.Duration // how long to wait for a killed worker's job
}

func command(ctx context.Context, args []string, out, log io.Writer) (err error) {
	defer caught(&err)
	b := &bench{out: out, log: log, text: 600}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(log)
	seconds := flags.Float64("seconds", 3, "length of each measurement, in seconds")
	flags.IntVar(&b.rounds, "rounds", 2, "rounds; all systems take turns in each")
	flags.IntVar(&b.jobs, "jobs", 20000, "jobs that a round hands over as fast as it can, at most")
	flags.IntVar(&b.producers, "producers", 64, "producers that hand over jobs, each one after the other")
	flags.IntVar(&b.slots, "slots", 128,
		"jobs that the workers of a system do at once (River, tuned: 2000, as in its own benchmark)")
	flags.Float64Var(&b.low, "low", 50, "jobs a second at low load")
	flags.Float64Var(&b.share, "share", 0.7,
		"the higher load, as a share of what the system completed in the same round")
	flags.DurationVar(&b.patience, "patience", 180*time.Second, "how long a killed worker's job is waited for")
	only := flags.String("only", "jobs,recovery", "which parts, a comma list")
	systems := flags.String("systems", "", "which systems, a comma list of the beginnings of their names; default "+
		"all: floor,ours,asynq,river")
	flags.StringVar(&b.program, "program", "", "scripts/bench, built before; default: it is built")
	check(flags.Parse(args))
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; everything is a flag, see -help", flags.Arg(0))
	}
	b.length = time.Duration(*seconds * float64(time.Second))
	for name, n := range map[string]float64{"seconds": *seconds, "rounds": float64(b.rounds), "jobs": float64(b.jobs),
		"producers": float64(b.producers), "slots": float64(b.slots), "low": b.low, "share": b.share} {
		if n <= 0 {
			return fmt.Errorf("-%s must be more than 0", name)
		}
	}
	var todo []func(context.Context) error
	for _, part := range splitList(*only) {
		switch part {
		case "jobs":
			chosen := must(b.selectContenders(splitList(*systems)))
			todo = append(todo, func(ctx context.Context) error { return b.compare(ctx, chosen) })
		case "recovery":
			todo = append(todo, func(ctx context.Context) error { return b.recovery(ctx, splitList(*systems)) })
		default:
			return fmt.Errorf("-only %q: there are jobs and recovery", part)
		}
	}
	return b.runInTempDir(ctx, todo)
}

// runInTempDir builds scripts/bench and measures in a temporary folder.
func (b *bench) runInTempDir(ctx context.Context, todo []func(context.Context) error) (err error) {
	defer caught(&err)
	b.dir = must(os.MkdirTemp("", "ao-peers-"))
	defer os.RemoveAll(b.dir)
	if err := os.Chmod(b.dir, 0o711); err != nil { // PostgreSQL runs as another user if this is root
		return err
	}
	if b.program == "" {
		b.program = filepath.Join(b.dir, "bench")
		check(build(ctx, b.program))
	}
	fmt.Fprintf(b.out, "%s\n\n", b.machine())
	for _, measure := range todo { // a failure does not skip the rest
		if failed := measure(ctx); failed != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintf(b.out, "\nFAILED: %v\n\n", failed)
			err = errors.Join(err, failed)
		}
	}
	return err
}

// build builds scripts/bench.
func build(ctx context.Context, program string) error {
	root, err := scriptsDir()
	if err != nil {
		return err
	}
	return runCommand(ctx, root, "go", "build", "-o", program, "./bench")
}

// scriptsDir returns the folder of the module ao/scripts, found from the current folder.
func scriptsDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		for _, at := range []string{dir, filepath.Join(dir, "scripts")} {
			if _, err := os.Stat(filepath.Join(at, "bench", "sides.go")); err == nil {
				return at, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("start it inside the repository: it builds scripts/bench")
		}
	}
}

func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
