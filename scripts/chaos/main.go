// Command chaos is the fault test: two coordinators, three workers and one NATS server or a cluster of three, as processes,
// under a mixed load, while they are killed, paused and restarted at random. Then it judges, from what the clients were
// answered and what the executors wrote down, whether anything was lost or done twice.
//
//	go run ./scripts/chaos -seed 7 -for 2m -nats 3
//	go run ./scripts/chaos -mode torn            # NATS loses its last records with a crash
//
// What it does and what is judged stands in shared/docs/reliability.md. The exit code is 1 when anything is wrong; then the
// folder with all logs is kept.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// options are how a run is asked for.
type options struct {
	seed       uint64
	length     time.Duration
	nats       int // servers
	mode       string
	race       bool
	requireAll bool
	fsync      string
	level      string
	json       bool
	keep       bool
	out        io.Writer
}

func main() {
	if config := os.Getenv(envNATS); config != "" {
		if err := serveNATS(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	o := options{out: os.Stderr}
	flag.Uint64Var(&o.seed, "seed", 0, "of everything that is random; 0: a random one")
	flag.DurationVar(&o.length, "for", 2*time.Minute, "how long faults and load go on")
	flag.IntVar(&o.nats, "nats", 1, "NATS servers: 1, or a cluster of 3")
	flag.StringVar(&o.mode, "mode", "faults", "faults; or torn: the end of NATS's newest file is cut off")
	flag.BoolVar(&o.race, "race", false, "build the programs with the race detector")
	flag.BoolVar(&o.requireAll, "require-callbacks", true, "fail where this version takes no sessions, callbacks or further attempts, instead of leaving them out")
	flag.StringVar(&o.fsync, "fsync", "2m", "AO_NATS_SYNC of the servers; a killed process loses nothing either way")
	flag.StringVar(&o.level, "log", "info", "log level of the programs")
	flag.BoolVar(&o.json, "json", false, "print the result as JSON on stdout")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the logs in any case")
	flag.Parse()
	if o.nats != 1 && o.nats != 3 || o.mode != "faults" && o.mode != "torn" || o.mode == "torn" && o.nats != 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "chaos: use -nats 1 or -nats 3, and -mode faults, or -mode torn with one NATS server")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := o.run(ctx)
	if o.json {
		raw, _ := json.MarshalIndent(r, "", "  ")
		fmt.Println(string(raw))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !r.OK {
		os.Exit(1)
	}
}

var printMu sync.Mutex

// logf prints a line for who looks on.
func (o options) logf(format string, args ...any) {
	printMu.Lock()
	defer printMu.Unlock()
	fmt.Fprintf(o.out, format+"\n", args...)
}

// run is a whole run: it brings the stack up, breaks it, and judges. Whatever comes, all its processes are gone when it
// returns, and so is the folder when all was well.
func (o options) run(ctx context.Context) (r report, err error) {
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	o.logf("chaos: -seed %d -for %s -nats %d -mode %s", o.seed, o.length, o.nats, o.mode)
	r = report{Seed: o.seed, Mode: o.mode, NATS: o.nats, Race: o.race}
	s, err := newStack(ctx, o)
	if err != nil {
		return r, err
	}
	defer func() {
		s.killAll()
		if s.keep = s.keep || !r.OK && ctx.Err() == nil || len(r.Wrong) > 0; s.keep {
			o.logf("logs and data are kept in %s", s.dir)
		}
		s.remove()
	}()
	begin := time.Now()
	if err := s.up(ctx); err != nil {
		return r, fmt.Errorf("start: %w", err)
	}
	o.logf("up after %s; it breaks for %s", time.Since(begin).Round(100*time.Millisecond), o.length)
	j := &verifier{s: s, b: &tracker{}, r: &r, torn: map[string]bool{}}
	if o.mode == "torn" {
		err = j.runTorn(ctx)
	} else {
		err = j.runFaults(ctx)
	}
	r.Duration = time.Since(begin).Round(time.Second).String()
	if ctx.Err() != nil {
		j.b.wrong, err = nil, errors.New("interrupted") // what did not end then is no finding
	}
	r.OK = err == nil && len(j.b.wrong) == 0
	j.print()
	return r, err
}
