// Command bench measures the system beside its floor, in one paired run: floor, ours, floor, ours, … with the same
// durable writes and the same fsync setting, each process on its own so that its CPU time can be told apart.
//
//	go run ./scripts/bench                # everything, about five minutes
//	go run ./scripts/bench -only replay -history 1000000
//	go run ./scripts/bench -only sync,spawn -seconds 5 -rounds 3
//
// All traffic stays on 127.0.0.1; data lies in a temporary folder that is removed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ao/worker/process"
)

func main() {
	// A worker starts this program a second time as its guard, with no role: without this it would measure all by itself,
	// beside what is being measured.
	if os.Getenv("AGENT_ORCHESTRATOR_GUARD") != "" {
		if err := process.Guard(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
	if role := os.Getenv("AO_BENCH_ROLE"); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := roles[role](ctx); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	seconds := flag.Float64("seconds", 4, "length of a closed-loop round, in seconds")
	rounds := flag.Int("rounds", 3, "rounds of each side; medians are shown")
	only := flag.String("only", "sync,async,spawn,heap", "which parts, a comma list")
	syncs := flag.String("fsync", "2m,always", "AO_NATS_SYNC settings to measure, a comma list")
	burstN := flag.Int("burst", 6000, "runs of an asynchronous round")
	kept := flag.Int("kept", 50000, "ended runs for the heap figure")
	history := flag.Int("history", 300_000, "ended runs in the history of part replay, which is run only where it is named")
	profile := flag.String("profile", "", "folder for CPU profiles of our three processes at the last concurrency of part sync")
	clients := flag.String("clients", "1,16,128", "concurrencies of part sync, a comma list")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := bench{length: time.Duration(*seconds * float64(time.Second)), rounds: *rounds, burst: *burstN, kept: *kept, history: *history, profile: *profile}
	for _, c := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "bench: -clients %q: use numbers such as 1,16,128\n", *clients)
			os.Exit(2)
		}
		b.clients = append(b.clients, n)
	}
	for _, part := range strings.Split(*only, ",") {
		for _, fsync := range strings.Split(*syncs, ",") {
			if (part == "spawn" || part == "heap" || part == "replay") && fsync != strings.Split(*syncs, ",")[0] {
				continue // said once
			}
			if err := b.part(ctx, part, fsync); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
		}
	}
}

type bench struct {
	length  time.Duration
	rounds  int
	burst   int
	kept    int
	history int
	profile string
	clients []int
}

func (b bench) part(ctx context.Context, part, fsync string) error {
	parts := map[string]func(context.Context, string) error{"sync": b.sync, "async": b.async, "spawn": b.spawn, "heap": b.heap, "replay": b.replay}
	f, ok := parts[part]
	if !ok {
		return fmt.Errorf("no part %q; there are sync, async, spawn, heap, replay", part)
	}
	fmt.Printf("\n== %s, fsync %s\n", part, fsync)
	return f(ctx, fsync)
}

var body = map[string][]byte{
	"sync":  []byte(`{"agent_name":"noop","parameters":{"text":"` + strings.Repeat("x", 600) + `"},"mode":"sync"}`),
	"async": []byte(`{"agent_name":"noop","parameters":{"text":"` + strings.Repeat("x", 600) + `"}}`),
}

// sync is the latency and throughput of waiting callers.
func (b bench) sync(ctx context.Context, fsync string) error {
	floor, err := launch(ctx, "floor", fsync, "")
	if err != nil {
		return err
	}
	defer floor.end()
	ours, err := launch(ctx, "ours", fsync, "")
	if err != nil {
		return err
	}
	defer ours.end()
	for i, clients := range b.clients {
		var f, o []load
		var fc, oc [][]time.Duration
		closed(ctx, floor.url, body["sync"], clients, time.Second) // warm
		closed(ctx, ours.url, body["sync"], clients, time.Second)
		for range b.rounds {
			l, c := floor.measure(func() load { return closed(ctx, floor.url, body["sync"], clients, b.length) })
			f, fc = append(f, l), append(fc, c)
			if i == len(b.clients)-1 {
				ours.profile(b.profile, b.length)
			}
			l, c = ours.measure(func() load { return closed(ctx, ours.url, body["sync"], clients, b.length) })
			o, oc = append(o, l), append(oc, c)
		}
		fm, om := median(f), median(o)
		fmt.Printf("×%-4d floor %s  cpu/run %s\n", clients, fm, perRun(floor, fc, f))
		fmt.Printf("      ours  %s  cpu/run %s   throughput ×%.2f  p50 ×%.2f\n", om, perRun(ours, oc, o), om.perSecond/fm.perSecond, float64(om.p50)/float64(fm.p50))
		if n := om.errors + fm.errors; n > 0 {
			fmt.Printf("      ERRORS: floor %d, ours %d\n", fm.errors, om.errors)
		}
	}
	return nil
}

// async is how fast runs are accepted, and completed, when nobody waits.
func (b bench) async(ctx context.Context, fsync string) error {
	ours, err := launch(ctx, "ours", fsync, "")
	if err != nil {
		return err
	}
	defer ours.end()
	burst(ctx, ours.url, body["async"], 64, 500)
	if err := ours.drained(ctx); err != nil {
		return err
	}
	var accepted, completed []load
	for range b.rounds {
		begin := time.Now()
		l := burst(ctx, ours.url, body["async"], 64, b.burst)
		if err := ours.drained(ctx); err != nil {
			return err
		}
		accepted = append(accepted, l)
		completed = append(completed, load{perSecond: float64(b.burst) / time.Since(begin).Seconds(), errors: l.errors})
	}
	fmt.Printf("accepted %s   completed %7.0f/s (from the first request to the last end)   errors %d\n", median(accepted), median(completed).perSecond, median(accepted).errors)
	return nil
}

// spawn is runs with a real subprocess beside a bare loop that spawns the same program: the cheapest there is, a shell
// script that says one thing, and one that does a little work.
func (b bench) spawn(ctx context.Context, fsync string) error {
	ours, err := launch(ctx, "ours", fsync, "spawn")
	if err != nil {
		return err
	}
	defer ours.end()
	for _, name := range []string{"true", "hello", "report"} {
		for _, clients := range []int{16, 64} {
			body := []byte(`{"agent_name":"` + name + `","parameters":{},"mode":"sync"}`)
			closed(ctx, ours.url, body, clients, time.Second)
			bare(ctx, ours.program(name), slotsOfSpawn, time.Second)
			var o, f []load
			var oc [][]time.Duration
			for range b.rounds {
				f = append(f, bare(ctx, ours.program(name), slotsOfSpawn, b.length))
				l, c := ours.measure(func() load { return closed(ctx, ours.url, body, clients, b.length) })
				o, oc = append(o, l), append(oc, c)
			}
			fmt.Printf("%-7s bare loop ×%d  %s\n        ours, %2d callers %s  cpu/run %s   ×%.2f\n", name, slotsOfSpawn, median(f), clients, median(o), perRun(ours, oc, o), median(o).perSecond/median(f).perSecond)
		}
	}
	return nil
}

// heap is what the coordinator keeps of an ended run.
func (b bench) heap(ctx context.Context, fsync string) error {
	ours, err := launch(ctx, "ours", fsync, "")
	if err != nil {
		return err
	}
	defer ours.end()
	burst(ctx, ours.url, body["async"], 64, 2000)
	if err := ours.drained(ctx); err != nil {
		return err
	}
	before, err := ours.heap()
	if err != nil {
		return err
	}
	burst(ctx, ours.url, body["async"], 64, b.kept)
	if err := ours.drained(ctx); err != nil {
		return err
	}
	after, err := ours.heap()
	if err != nil {
		return err
	}
	fmt.Printf("heap of the coordinator: %d bytes per ended run kept (%d runs, %.1f MiB more)\n", (after-before)/int64(b.kept), b.kept, float64(after-before)/(1<<20))
	return nil
}

func median(all []load) load {
	m := slices.SortedFunc(slices.Values(all), func(a, b load) int {
		if a.perSecond < b.perSecond {
			return -1
		}
		return 1
	})[len(all)/2]
	m.errors = 0
	for _, l := range all {
		m.errors += l.errors
	}
	return m
}
