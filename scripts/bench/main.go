// Command bench compares the system with its floor in alternating rounds: floor, ours, floor, ours, … with the same
// durable writes and fsync setting. Every part is a separate process, so that CPU time can be measured per part.
//
//	go run ./scripts/bench                # everything, about five minutes
//	go run ./scripts/bench -only replay -history 1000000
//	go run ./scripts/bench -only sync,spawn -seconds 5 -rounds 3
//	scripts/bench/against 073a48e -only sync,async -rounds 7 # also compared with another commit
//
// All traffic stays on 127.0.0.1. Data is in a temporary folder, which is removed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ao/scripts/try"
	"ao/worker/process"
)

func main() {
	// A worker starts this program again as its guard, without a role. It must not start another measurement.
	if os.Getenv("AGENT_ORCHESTRATOR_GUARD") != "" {
		if err := process.Guard(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
	if role := os.Getenv("AO_BENCH_ROLE"); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := try.Run(func() { roles[role](ctx) }); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	var b bench
	seconds := flag.Float64("seconds", 4, "duration of a closed-loop round, in seconds")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds per side; the median is printed")
	only := flag.String("only", "sync,async,spawn,heap", "parts to run, comma-separated")
	syncs := flag.String("fsync", "2m,always", "AO_NATS_SYNC values to measure, comma-separated")
	flag.IntVar(&b.burst, "burst", 6000, "runs of an asynchronous round")
	flag.IntVar(&b.kept, "kept", 50000, "ended runs for the heap figure")
	flag.IntVar(&b.prompt, "prompt", 0,
		"bytes of random prose in each run's parameters for the heap figure; 0: the same 600 bytes in all")
	flag.IntVar(&b.history, "history", 300_000, "ended runs in the history of part replay")
	flag.StringVar(&b.profile, "profile", "", "folder for CPU profiles of our processes, at the last concurrency of "+
		"part sync and in the last round of part async")
	clients := flag.String("clients", "1,16,128", "concurrencies of part sync, comma-separated")
	flag.StringVar(&b.before, "before", "",
		"this program built from another commit, to compare in parts sync and async (scripts/bench/against builds it)")
	flag.IntVar(&b.servers, "servers", 1, "NATS servers of floor and ours: 1, or 3 for a cluster with three replicas")
	flag.BoolVar(&b.one, "one", false, "run NATS, coordinator and worker of ours in one process, as scripts/up does")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b.length = time.Duration(*seconds * float64(time.Second))
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
				continue // independent of fsync
			}
			if err := try.Run(func() { b.part(ctx, part, fsync) }); err != nil {
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
	prompt  int
	history int
	profile string
	before  string
	servers int
	one     bool
	clients []int
}

func (b bench) part(ctx context.Context, part, fsync string) {
	parts := map[string]func(context.Context, string){"sync": b.sync, "async": b.async, "spawn": b.spawn,
		"heap": b.heap, "replay": b.replay}
	f, ok := parts[part]
	if !ok {
		try.Failf("no part %q; use sync, async, spawn, heap, replay", part)
	}
	fmt.Printf("\n== %s, fsync %s\n", part, fsync)
	f(ctx, fsync)
}

var body = map[string][]byte{
	"sync":  []byte(`{"agent_name":"noop","parameters":{"text":"` + strings.Repeat("x", 600) + `"},"mode":"sync"}`),
	"async": []byte(`{"agent_name":"noop","parameters":{"text":"` + strings.Repeat("x", 600) + `"}}`),
}

// contender is a side in a comparison.
type contender struct {
	name string
	*side
	loads []load
	used  [][]time.Duration
}

// launchAll starts all sides of a comparison.
func launchAll(ctx context.Context, names []string, all []layout) (list []*contender, end func()) {
	end = func() {
		for _, e := range list {
			e.end()
		}
	}
	ok := false
	defer func() {
		if !ok {
			end()
		}
	}()
	for i, l := range all {
		list = append(list, &contender{name: names[i], side: launch(ctx, l)})
	}
	ok = true
	return list, end
}

// turn returns the order of a round: forward and backward alternating, so that no contender always follows the same
// one.
func turn(all []*contender, round int) []*contender {
	order := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// ours returns the layout of the current system.
func (b bench) ours(fsync string) layout {
	return layout{name: "ours", fsync: fsync, servers: b.servers, one: b.one}
}

// sync measures latency and throughput of waiting callers.
func (b bench) sync(ctx context.Context, fsync string) {
	names, sides := []string{"floor"}, []layout{{name: "floor", fsync: fsync, servers: b.servers}}
	if b.before != "" {
		names, sides = append(names, "before"), append(sides, layout{name: "ours", program: b.before, fsync: fsync})
	}
	all, end := launchAll(ctx, append(names, "ours"), append(sides, b.ours(fsync)))
	defer end()
	floor, ours := all[0], all[len(all)-1]
	for i, clients := range b.clients {
		for _, e := range all {
			closedLoop(ctx, e.url, body["sync"], clients, time.Second) // warm-up
			e.loads, e.used = nil, nil
		}
		for round := range b.rounds {
			for _, e := range turn(all, round) {
				if e == ours && i == len(b.clients)-1 {
					e.profile(b.profile, b.length)
				}
				l, used := e.measure(func() load { return closedLoop(ctx, e.url, body["sync"], clients, b.length) })
				e.loads, e.used = append(e.loads, l), append(e.used, used)
			}
		}
		f := median(floor.loads)
		for _, e := range all {
			m := median(e.loads)
			fmt.Printf("×%-4d %-6s %s  cpu/run %s", clients, e.name, m, perRun(e.side, e.used, e.loads))
			if e != floor {
				fmt.Printf("   throughput ×%.2f  p50 ×%.2f", m.perSecond/f.perSecond, float64(m.p50)/float64(f.p50))
			}
			if m.errors > 0 {
				fmt.Printf("   ERRORS: %d", m.errors)
			}
			fmt.Println()
		}
	}
}

// async measures how fast runs are accepted and completed without waiting callers. Another commit is also measured
// without fsync.
func (b bench) async(ctx context.Context, fsync string) {
	names, sides := []string{"ours"}, []layout{b.ours(fsync)}
	if b.before != "" {
		names, sides = append(names, "before"), append(sides, layout{name: "ours", program: b.before, fsync: fsync})
		if fsync != "2m" {
			names, sides = append(names, "before without fsync"),
				append(sides, layout{name: "ours", program: b.before, fsync: "2m"})
		}
	}
	all, end := launchAll(ctx, names, sides)
	defer end()
	completed := map[*contender][]load{}
	for round := range b.rounds + 1 {
		for _, e := range turn(all, round) {
			start, n := time.Now(), b.burst
			if round == b.rounds && e == all[0] {
				e.profile(b.profile, b.length)
			}
			l, used := e.measure(func() load {
				l := burst(ctx, e.url, body["async"], 64, n)
				e.waitDrained(ctx)
				return l
			})
			if round == 0 { // warm-up
				continue
			}
			took := time.Since(start).Seconds()
			e.loads, e.used = append(e.loads, l), append(e.used, used)
			completed[e] = append(completed[e], load{perSecond: float64(n) / took, seconds: took})
		}
	}
	for _, e := range all {
		fmt.Printf("%-20s accepted %s   completed %7.0f/s (from the first request to the last end)   cpu/run "+
			"%s   errors %d\n",
			e.name, median(e.loads), median(completed[e]).perSecond, perRun(e.side, e.used, completed[e]),
			median(e.loads).errors)
	}
}

// spawn compares runs of a real program with a plain loop that spawns it. The programs are true, a shell script of one
// line, and one that does a little work.
func (b bench) spawn(ctx context.Context, fsync string) {
	ours := launch(ctx, layout{name: "ours", fsync: fsync, kind: "spawn"})
	defer ours.end()
	for _, name := range []string{"true", "hello", "report"} {
		for _, clients := range []int{16, 64} {
			body := []byte(`{"agent_name":"` + name + `","parameters":{},"mode":"sync"}`)
			closedLoop(ctx, ours.url, body, clients, time.Second)
			spawnLoop(ctx, ours.program(name), spawnSlots, time.Second)
			var o, f []load
			var oc [][]time.Duration
			for range b.rounds {
				f = append(f, spawnLoop(ctx, ours.program(name), spawnSlots, b.length))
				l, c := ours.measure(func() load { return closedLoop(ctx, ours.url, body, clients, b.length) })
				o, oc = append(o, l), append(oc, c)
			}
			fmt.Printf("%-7s bare loop ×%d  %s\n        ours, %2d callers %s  cpu/run %s   ×%.2f\n", name, spawnSlots,
				median(f), clients, median(o), perRun(ours, oc, o), median(o).perSecond/median(f).perSecond)
		}
	}
}

// heap measures the coordinator's memory per ended run.
func (b bench) heap(ctx context.Context, fsync string) {
	ours := launch(ctx, layout{name: "ours", fsync: fsync})
	defer ours.end()
	burst(ctx, ours.url, body["async"], 64, 2000)
	ours.waitDrained(ctx)
	before := ours.heap()
	if l := b.createRuns(ctx, ours.url); l.errors > 0 {
		try.Failf("%d runs were refused", l.errors)
	}
	ours.waitDrained(ctx)
	after := ours.heap()
	fmt.Printf("heap of the coordinator: %d bytes per ended run kept (%d runs, %.1f MiB more)\n",
		(after-before)/int64(b.kept), b.kept, float64(after-before)/(1<<20))
}

// createRuns creates the runs for heap.
func (b bench) createRuns(ctx context.Context, url string) load {
	if b.prompt == 0 {
		return burst(ctx, url, body["async"], 64, b.kept)
	}
	var left atomic.Int64
	left.Store(int64(b.kept))
	c := client(64)
	defer c.CloseIdleConnections()
	return runLoops(ctx, 64, func() bool { return left.Add(-1) >= 0 }, func() error {
		return post(c, url, []byte(`{"agent_name":"noop","parameters":{"prompt":"`+prose(b.prompt)+`"}}`))
	})
}

const vocabulary = "the report must list every open finding of last week with its owner and a date please check " +
	"the sources first " +
	"then compare prices for three vendors summarise what changed since the review and say which tests fail and why"

// prose returns random words and numbers. They compress worse than real prose.
func prose(size int) string {
	words := strings.Fields(vocabulary)
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%s %x ", words[rand.IntN(len(words))], rand.IntN(1<<12))
	}
	return b.String()[:size]
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
