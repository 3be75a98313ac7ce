package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// growthParts returns the parts that measure our costs as one dimension grows.
func (b *bench) growthParts(parts []string, sizes map[string]string) (todo []func(context.Context) error, err error) {
	all := map[string]func(context.Context, []int){"queued": b.queued, "queues": b.queues, "workers": b.workers,
		"payload": b.payload, "history": b.history}
	for _, part := range parts {
		measure, ok := all[part]
		if !ok {
			return nil, fmt.Errorf("-parts %q: there are queued, queues, workers, payload, history", part)
		}
		list, err := parseInts(sizes[part])
		if err != nil {
			return nil, fmt.Errorf("-parts %s: %w", part, err)
		}
		todo = append(todo, func(ctx context.Context) (err error) {
			defer caught(&err)
			measure(ctx, list)
			return nil
		})
	}
	return todo, nil
}

// memoryLimit limits each of our processes. By default garbage may grow to four times the live heap, which with a
// million waiting runs could exceed the machine's memory.
const memoryLimit = "6GiB"

// launchGrowth starts our system for such a part.
func (b *bench) launchGrowth(ctx context.Context, fsync string, p plan) *system {
	p.name, p.every = "ours", fsync
	p.env = append(p.env, "GOMEMLIMIT="+memoryLimit)
	p.slots = cmp.Or(p.slots, b.slots)
	return must(launchOurs(ctx, b, p))
}

// singleCaller measures one caller that waits for each run: p50 and p99.
func (b *bench) singleCaller(ctx context.Context, s *system) string {
	end := time.Now().Add(b.length)
	took := timed(func(int) bool { return time.Now().Before(end) }, func() {
		check(s.answer(ctx, job(time.Now(), b.text)))
	})
	s.takeDelays()
	return took
}

// listed measures a list of 50 runs: p50 and p99.
func (s *system) listed(ctx context.Context, filter string) string {
	return timed(upTo(20), func() { must(get(ctx, http.DefaultClient, s.at.base+"/runs?limit=50"+filter)) })
}

// timed measures calls while more reports true of their number: p50 and p99.
func timed(more func(n int) bool, once func()) string {
	var took []time.Duration
	for more(len(took)) {
		begin := time.Now()
		once()
		took = append(took, time.Since(begin))
	}
	return formatQuantiles(took)
}

func upTo(most int) func(int) bool { return func(n int) bool { return n < most } }

func (b *bench) tableHead(title, how string, columns ...string) {
	fmt.Fprintf(b.out, "### %s\n\n%s\n\n| %s |\n|%s\n", title, how, strings.Join(columns, " | "),
		strings.Repeat("---|", len(columns)))
}

func (b *bench) tableRow(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	fmt.Fprintf(b.out, "| %s |\n", strings.Join(text, " | "))
}

func formatInt(n int) string { return strconv.Itoa(n) }

func formatRate(f float64) string { return fmt.Sprintf("%.0f", f) }

func mib(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

func memory(procs []*proc, name string) int64 {
	for _, p := range procs {
		if p.name == name {
			return residentMemory(p.cmd.Process.Pid)
		}
	}
	return 0
}

// heap returns the coordinator's live heap in bytes.
func (s *system) heap(ctx context.Context) int64 {
	return must(strconv.ParseInt(must(get(ctx, http.DefaultClient, "http://"+s.at.debug+"/heap")), 10, 64))
}

// restart restarts the coordinator and returns the times for shutdown and until it was ready.
func (b *bench) restart(ctx context.Context, s *system) (ended, ready time.Duration) {
	for _, closes := range s.closes {
		closes() // a shutdown waits for idle connections
	}
	for i, p := range s.procs {
		if p.name != "coordinator" {
			continue
		}
		begin := time.Now()
		p.end()
		ended = time.Since(begin)
		s.procs = append(s.procs[:i], s.procs[i+1:]...)
		break
	}
	begin := time.Now()
	must(b.coordinator(s))
	s.waitReady(ctx)
	return ended, time.Since(begin)
}

// waitReady waits until the coordinator is ready.
func (s *system) waitReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	check(poll(ctx, 2*time.Millisecond, func() (bool, error) {
		_, err := get(ctx, http.DefaultClient, s.at.base+"/ready")
		return err == nil, nil
	}))
}

// queued measures waiting runs while the only slot is occupied.
func (b *bench) queued(ctx context.Context, lengths []int) {
	p := plan{slots: 1, hold: true, env: []string{"AO_BENCH_AO_MAX_PENDING=2000000000"}}
	p.before = func(s *system) error {
		s.at.env = append(s.at.env, "AO_BENCH_DATA="+filepath.Join(s.dir, "coordinator"))
		return nil
	}
	s := b.launchGrowth(ctx, "2m", p)
	defer s.close()
	b.tableHead("Runs that wait",
		"Sync every 2 min, so that the queue is filled in reasonable time. The drain is a second worker with "+
			formatInt(b.slots)+" slots that joins for "+b.length.String()+
			"; the restart is the coordinator's, after a clean end. GOMEMLIMIT="+memoryLimit+".",
		"waiting", "filled at, runs/s", "accepting one: p50 / p99", "list of 50: p50 / p99", "drained at, runs/s",
		"coordinator's heap", "NATS's memory", "restart: end + start")
	for begun, have := time.Now(), 0; len(lengths) > 0; lengths = lengths[1:] {
		b.logf("queued: %d", lengths[0])
		n, took, err := b.submit(ctx, s.accept, b.producers, lengths[0]-have,
			max(b.fill-time.Since(begun), time.Second))
		check(err)
		have += n
		name := formatInt(have)
		if have < lengths[0] {
			name += " (of " + formatInt(lengths[0]) + ", -fill " + b.fill.String() + " was over)"
		}
		accept := timed(upTo(200), func() { check(s.accept(ctx, job(time.Now(), b.text))) })
		have += 200
		list, heap, nats := s.listed(ctx, "&status=pending"), s.heap(ctx), memory(s.procs, "nats")
		rate, drained := b.drain(ctx, s, have-1)
		have -= drained
		ended, ready := b.restart(ctx, s)
		b.tableRow(name, formatRate(float64(n)/took.Seconds()), accept, list, formatRate(rate), mib(heap), mib(nats),
			ms(ended)+" + "+ms(ready))
		if name != formatInt(lengths[0]) {
			break
		}
	}
	fmt.Fprintln(b.out)
}

// drain lets another worker take runs for a while and returns the rate and the number.
func (b *bench) drain(ctx context.Context, s *system, most int) (float64, int) {
	check(s.addWorker(ctx, "worker-2", "AO_BENCH_SLOTS="+formatInt(b.slots)))
	workers := s.workers()
	w := workers[len(workers)-1]
	begin := time.Now()
	wait, cancel := context.WithTimeout(ctx, b.length)
	defer cancel()
	err := poll(wait, time.Millisecond, func() (bool, error) { return w.tally.started() >= most, nil })
	n, took := w.tally.started(), time.Since(begin)
	s.removeWorker(w, (*proc).end)
	if !errors.Is(err, context.DeadlineExceeded) {
		check(err)
	}
	check(ctx.Err())
	return float64(n) / took.Seconds(), w.tally.started()
}

// queues measures runs with different demands and one worker that matches all of them.
func (b *bench) queues(ctx context.Context, counts []int) {
	b.tableHead("Queues", "Runs demand one of so many sets of tags in turn; one worker has them all. fsync "+b.fsync+
		".", "queues", "accepted/s", "completed/s", "CPU per run", "one caller who waits: p50 / p99")
	for _, n := range counts {
		b.logf("queues: %d", n)
		tags := []string{} // a worker may have 64: two of 16 and 16 give 256 queues
		for i := range 16 {
			tags = append(tags, "a"+formatInt(i), "b"+formatInt(i))
		}
		s := b.launchGrowth(ctx, b.fsync, plan{env: []string{"AO_BENCH_TAGS=" + strings.Join(tags, ",")}})
		var turn atomic.Int64
		c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
		s.closes = append(s.closes, c.CloseIdleConnections)
		demand := func() string {
			i := int(turn.Add(1)) % max(n, 1)
			return `,"additional_demands":{"tags":["a` + formatInt(i%16) + `","b` + formatInt(i/16%16) + `"]}`
		}
		s.accept = func(ctx context.Context, job []byte) error { return post(ctx, c, s.at.base, demand(), job) }
		s.answer = func(ctx context.Context, job []byte) error {
			return post(ctx, c, s.at.base, `,"mode":"sync"`+demand(), job)
		}
		r, alone, _ := b.burstAndSingle(ctx, s)
		b.tableRow(n, formatRate(r.accepted), formatRate(r.completed), r.cpuPerJob(), alone)
	}
	fmt.Fprintln(b.out)
}

// burstAndSingle warms a system up, measures a burst and a single waiting caller, and ends the system. memory is that
// of its workers.
func (b *bench) burstAndSingle(ctx context.Context, s *system) (r burst, alone string, memory int64) {
	defer s.close()
	check(b.warm(ctx, s))
	r = must(b.measureBurst(ctx, s))
	alone = b.singleCaller(ctx, s)
	_, held := usage(s.procs)
	return r, alone, held["workers"]
}

func (r burst) cpuPerJob() string {
	sum := r.cpu["servers"] + r.cpu["workers"] + r.cpu["producers"]
	return fmt.Sprintf("%d µs: %d + %d + %d", sum.Microseconds(), r.cpu["servers"].Microseconds(),
		r.cpu["workers"].Microseconds(), r.cpu["producers"].Microseconds())
}

// workers measures worker processes that share one queue.
func (b *bench) workers(ctx context.Context, counts []int) {
	b.tableHead("Workers", fmt.Sprintf("Processes on the same machine, which share %d slots. fsync %s.", b.slots,
		b.fsync),
		"worker processes", "accepted/s", "completed/s", "CPU per run", "one caller who waits: p50 / p99",
		"memory of all workers")
	for _, n := range counts {
		b.logf("workers: %d", n)
		r, alone, memory := b.burstAndSingle(ctx, b.launchGrowth(ctx, b.fsync, plan{contender: contender{workers: n}}))
		b.tableRow(n, formatRate(r.accepted), formatRate(r.completed), r.cpuPerJob(), alone, mib(memory))
	}
	fmt.Fprintln(b.out)
}

// payload measures parameters of different sizes; more than 256 KiB goes to the object store.
func (b *bench) payload(ctx context.Context, sizes []int) {
	b.tableHead("Size of the parameters", "fsync "+b.fsync+". The results are `{}`.", "bytes", "accepted/s",
		"completed/s", "MiB/s", "CPU per run", "one caller who waits: p50 / p99")
	for _, n := range sizes {
		b.logf("payload: %d", n)
		sized := *b
		sized.text = n
		sized.jobs = max(min(b.jobs, 512<<20/max(n, 1)), 1) // at most half a GiB
		r, alone, _ := sized.burstAndSingle(ctx, sized.launchGrowth(ctx, b.fsync, plan{}))
		b.tableRow(n, formatRate(r.accepted), formatRate(r.completed),
			fmt.Sprintf("%.1f", r.completed*float64(n)/(1<<20)), r.cpuPerJob(), alone)
	}
	fmt.Fprintln(b.out)
}

// history measures ended runs that the coordinator keeps.
func (b *bench) history(ctx context.Context, lengths []int) {
	b.tableHead("Ended runs in the history", "fsync "+b.fsync+". The history is written before the coordinator's "+
		"first start, which reads all of it; later ones begin from its snapshot. GOMEMLIMIT="+memoryLimit+".",
		"ended runs", "first start", "one caller who waits: p50 / p99", "list of 50: p50 / p99", "coordinator's heap",
		"NATS's memory", "on disk", "restart: end + start", "restart after kill -9")
	for _, n := range lengths {
		b.logf("history: %d", n)
		b.tableRow(b.historyRow(ctx, n)...)
	}
	fmt.Fprintln(b.out)
}

func (b *bench) historyRow(ctx context.Context, n int) []any {
	var begin time.Time
	p := plan{idle: true, before: func(s *system) error {
		s.at.env = append(s.at.env, "AO_BENCH_DATA="+filepath.Join(s.dir, "coordinator"))
		defer func() { begin = time.Now() }()
		if n == 0 {
			return nil
		}
		w, err := start(child{name: "history", path: b.program, env: append(s.at.env[:len(s.at.env):len(s.at.env)],
			"AO_BENCH_ROLE=history", "AO_BENCH_HISTORY="+formatInt(n)), log: s.logFile("history")})
		if err != nil {
			return err
		}
		select {
		case <-w.done:
			return w.state
		case <-ctx.Done():
			w.kill()
			return ctx.Err()
		}
	}}
	s := b.launchGrowth(ctx, b.fsync, p)
	defer s.close()
	s.waitReady(ctx)
	first := time.Since(begin)
	check(s.addWorker(ctx, "worker-1"))
	check(b.warm(ctx, s))
	alone, list, heap := b.singleCaller(ctx, s), s.listed(ctx, ""), s.heap(ctx)
	nats, disk := memory(s.procs, "nats"), diskUsage(s.dir)
	ended, ready := b.restart(ctx, s)
	for _, p := range s.procs {
		if p.name == "coordinator" {
			p.kill()
		}
	}
	_, after := b.restart(ctx, s)
	return []any{n, ms(first), alone, list, mib(heap), mib(nats), mib(disk), ms(ended) + " + " + ms(ready), ms(after)}
}
