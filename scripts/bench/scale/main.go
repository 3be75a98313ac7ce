// Command scale simulates larger deployments: the path of a run through coordinators, streams and workers, with the
// costs measured by scripts/bench. shared/docs/scale.md has its tables.
//
//	go run ./scripts/bench/scale               the ladder of deployments
//	go run ./scripts/bench/scale -streams 4 -coordinators 4 -own -rate 20000   one deployment
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// ladder lists growing deployments, each with enough callers to saturate it.
var ladder = []struct {
	name string
	plan plan
}{
	{"one machine of 2 cores, one server", plan{Streams: 1, Coordinators: 1, Workers: 1, Slots: 512, Cores: 2,
		One: true, Commit: "always", Callers: 512}},
	{"each program on a machine of 8 cores, one server", plan{Streams: 1, Coordinators: 1, Workers: 4, Slots: 256,
		Cores: 8, Commit: "always", Callers: 2048}},
	{"NATS cluster of three, 2 coordinators", plan{Streams: 1, Coordinators: 2, Workers: 8, Slots: 256, Cores: 8,
		Commit: "cluster", Callers: 2048}},
	{"the same, 8 coordinators that all project everything", plan{Streams: 1, Coordinators: 8, Workers: 16, Slots: 256,
		Cores: 8, Commit: "cluster", Callers: 4096}},
	{"4 streams on 4 clusters, 8 coordinators that all project everything", plan{Streams: 4, Coordinators: 8,
		Workers: 32, Slots: 256, Cores: 8, Commit: "cluster", Callers: 8192}},
	{"4 streams, 4 coordinators that project their own partitions", plan{Streams: 4, Coordinators: 4, Workers: 32,
		Slots: 256, Cores: 8, Own: true, Commit: "cluster", Callers: 8192}},
	{"16 streams, 16 coordinators that project their own partitions", plan{Streams: 16, Coordinators: 16, Workers: 128,
		Slots: 256, Cores: 8, Own: true, Commit: "cluster", Callers: 32768}},
	{"the same with skewed sessions (Zipf 1.1)", plan{Streams: 16, Coordinators: 16, Workers: 128, Slots: 256, Cores: 8,
		Own: true, Commit: "cluster", Callers: 32768, Skew: 1.1}},
}

func main() {
	var p plan
	flag.IntVar(&p.Streams, "streams", 0, "streams that share the 64 partitions (1 to 64); 0: the whole ladder")
	flag.IntVar(&p.Coordinators, "coordinators", 1, "coordinators")
	flag.IntVar(&p.Workers, "workers", 1, "workers")
	flag.IntVar(&p.Slots, "slots", 256, "slots of each worker")
	flag.IntVar(&p.Cores, "cores", 2, "CPUs of each machine")
	flag.BoolVar(&p.One, "one", false, "everything on one machine")
	flag.BoolVar(&p.Own, "own", false, "each coordinator projects only its own partitions")
	flag.StringVar(&p.Commit, "commit", "always", "always, default (one server), or cluster (three, with fsync)")
	flag.IntVar(&p.Callers, "callers", 0, "callers that wait for each result; 0: use -rate")
	flag.Float64Var(&p.Rate, "rate", 1000, "runs per second")
	flag.Float64Var(&p.Exec, "exec", 0, "mean execution time in milliseconds")
	flag.Float64Var(&p.Skew, "skew", 0, "Zipf exponent of the turns per session, above 1; 0: all alike")
	flag.IntVar(&p.Sessions, "sessions", 100000, "open sessions")
	flag.Float64Var(&p.Seconds, "seconds", 5, "simulated seconds; the first quarter is not measured")
	flag.Uint64Var(&p.Seed, "seed", 1, "seed of the random numbers")
	flag.Parse()
	if p.Streams == 0 {
		fmt.Println(head)
		for _, step := range ladder {
			step.plan.Sessions, step.plan.Seconds, step.plan.Seed = p.Sessions, p.Seconds, p.Seed
			fmt.Println(line(step.name, step.plan, simulate(step.plan)))
		}
		return
	}
	if err := p.check(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	}
	fmt.Println(head)
	fmt.Println(line("as asked", p, simulate(p)))
}

// check validates a plan.
func (p plan) check() error {
	switch {
	case p.Streams < 1 || p.Streams > 64:
		return fmt.Errorf("-streams %d: 1 to 64, there are 64 partitions", p.Streams)
	case p.Coordinators < 1 || p.Workers < 1 || p.Slots < 1 || p.Cores < 1 || p.Sessions < 2:
		return fmt.Errorf("-coordinators, -workers, -slots and -cores must be at least 1, -sessions 2")
	case p.Own && p.Coordinators > p.Streams:
		return fmt.Errorf("-own: %d coordinators for %d streams; some would have no stream", p.Coordinators, p.Streams)
	case commits[p.Commit] == nil:
		return fmt.Errorf("-commit %q: always, default or cluster", p.Commit)
	case p.Callers == 0 && p.Rate <= 0 || p.Seconds <= 0 || p.Exec < 0 || p.Skew < 0 || p.Skew > 0 && p.Skew <= 1:
		return fmt.Errorf("-rate and -seconds must be above 0, -exec at least 0, -skew 0 or above 1")
	}
	return nil
}

const head = "| deployment | runs/s | a day | p50, p99 | busiest: NATS, coordinator, its projection, worker | " +
	"commits | records a commit | busiest stream / mean |\n|---|---|---|---|---|---|---|---|"

func line(name string, p plan, r result) string {
	percent := func(all ...float64) string {
		var words []string
		for _, v := range all {
			words = append(words, fmt.Sprintf("%.0f %%", v*100))
		}
		return strings.Join(words, ", ")
	}
	if p.Callers == 0 && r.Behind > int(p.Rate/2) {
		name += fmt.Sprintf(" (falls behind: %d not answered)", r.Behind)
	}
	return fmt.Sprintf("| %s | %.0f | %.0f M | %.1f, %.1f ms | %s | %s | %.0f | %.2f |", name, r.Rate, r.Rate*86400/1e6,
		r.P50, r.P99, percent(r.NATS, r.Coordinator, r.Projection, r.Worker), percent(r.Disk), r.Batch, r.Imbalance)
}
