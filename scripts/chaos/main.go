// Command chaos is the fault test. It puts two coordinators, three workers, and NATS as one server or a cluster of
// three, under a mixed load. It kills, pauses and restarts them at random. Then it verifies from the clients' answers
// and the executors' log that nothing was lost or done twice.
//
//	go run ./scripts/chaos -seed 7 -for 2m -nats 3
//	go run ./scripts/chaos -mode torn            # NATS loses its last records with a crash
//	go run ./scripts/chaos -mode rot             # also disk, proxy
//
// shared/docs/reliability.md describes it. The exit code is 1 if there are violations; then the folder with all logs
// is kept.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are the flags of a run.
type options struct {
	seed               uint64
	length             time.Duration
	nats               int // servers
	mode, fsync, level string
	race, json, keep   bool
	out                io.Writer
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
	flag.Uint64Var(&o.seed, "seed", 0, "seed of all random numbers; 0: a random one")
	flag.DurationVar(&o.length, "for", 2*time.Minute, "duration of faults and load")
	flag.IntVar(&o.nats, "nats", 1, "NATS servers: 1, or a cluster of 3")
	flag.StringVar(&o.mode, "mode", "faults", aboutModes())
	flag.BoolVar(&o.race, "race", false, "build the programs with the race detector")

	flag.StringVar(&o.fsync, "fsync", "2m",
		"AO_NATS_SYNC of the servers; a killed process loses nothing with any value")
	flag.StringVar(&o.level, "log", "info", "log level of the programs")
	flag.BoolVar(&o.json, "json", false, "print the result as JSON on stdout")
	flag.BoolVar(&o.keep, "keep", false, "always keep the folder with the logs")
	flag.Parse()
	if m, ok := modes[o.mode]; !ok || o.nats != 1 && o.nats != m.servers || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "chaos: use -nats 1, or -nats 3 in modes faults, rot and proxy, and -mode",
			aboutModes())
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

// modes are what may happen to the stack.
var modes = map[string]struct {
	about   string
	servers int // of NATS, at most
	run     func(*verifier, context.Context) error
}{
	"faults": {"processes are killed, paused and restarted", 3, (*verifier).runFaults},
	"torn":   {"NATS crashes and loses its last records", 1, (*verifier).runTorn},
	"rot":    {"bits flip in the files of one server", 3, (*verifier).runRot},
	"disk":   {"the disk under NATS is full for a while", 1, (*verifier).runFaults},
	"proxy":  {"the network fails between programs and NATS, and between its servers", 3, (*verifier).runFaults},
}

// aboutModes explains all modes.
func aboutModes() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		all = append(all, name+": "+modes[name].about)
	}
	return strings.Join(all, "; ")
}

var printMu sync.Mutex

// logf prints a progress line.
func (o options) logf(format string, args ...any) {
	printMu.Lock()
	defer printMu.Unlock()
	fmt.Fprintf(o.out, format+"\n", args...)
}

// run starts the stack, injects faults and verifies. When it returns all processes have ended, and the folder is
// removed if there was no violation.
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
		s.keep = s.keep || !r.OK && ctx.Err() == nil || len(r.Wrong) > 0
		if s.keep {
			o.logf("logs and data kept in %s", s.dir)
		}
		s.remove()
	}()
	start := time.Now()
	if err := s.up(ctx); err != nil {
		return r, fmt.Errorf("start: %w", err)
	}
	o.logf("up after %s; injecting faults for %s", time.Since(start).Round(100*time.Millisecond), o.length)
	j := &verifier{s: s, b: &tracker{}, r: &r, torn: map[string]bool{}}
	err = modes[o.mode].run(j, ctx)
	r.Duration = time.Since(start).Round(time.Second).String()
	if ctx.Err() != nil {
		j.b.wrong, err = nil, errors.New("interrupted") // open runs are no violation then
	}
	r.OK = err == nil && len(j.b.wrong) == 0
	j.print()
	return r, err
}
