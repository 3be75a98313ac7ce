package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// totals are the results of a contender's rounds.
type totals struct {
	accepted, completed []float64
	answered            []float64 // if callers can wait for results
	cpu                 map[string][]time.Duration
	low, high           latencies
	wrong               error
}

// compare runs no-op jobs on all systems in turn: a b c a b c. Each is started for its turn, so that the others do
// not run and all have the same history.
func (b *bench) compare(ctx context.Context, all []contender) error {
	results := make([]totals, len(all))
	for round := range b.rounds {
		for i, c := range all {
			m := &results[i]
			if m.wrong != nil {
				continue
			}
			b.logf("round %d of %d: %s, %s", round+1, b.rounds, c.name, c.durable)
			if err := b.turn(ctx, c, m); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				m.wrong = err
				b.logf("%s: %v", c.name, err)
			}
		}
	}
	for _, fsync := range []bool{true, false} {
		b.table(all, results, fsync)
	}
	return nil
}

// turn runs one round of one contender.
func (b *bench) turn(ctx context.Context, c contender, m *totals) (err error) {
	defer caught(&err)
	s := must(c.launch(ctx, b, plan{contender: c, slots: b.slots}))
	defer s.close()
	check(b.warm(ctx, s))
	r := must(b.measureBurst(ctx, s))
	m.accepted, m.completed = append(m.accepted, r.accepted), append(m.completed, r.completed)
	if m.cpu == nil {
		m.cpu = map[string][]time.Duration{}
	}
	for kind, d := range r.cpu {
		m.cpu[kind] = append(m.cpu[kind], d)
	}
	loads := []struct {
		rate float64
		how  submitFunc
		into *latencies
	}{{b.low, s.accept, &m.low}, {b.share * r.completed, s.accept, &m.high}}
	if s.answer != nil {
		most := must(b.measureAnswered(ctx, s))
		m.answered = append(m.answered, most)
		loads = append(loads, loads[0], loads[1])
		loads[2].how, loads[3].how, loads[3].rate = s.answer, s.answer, b.share*most
	}
	for i, load := range loads {
		began, took, late, err := b.measurePaced(ctx, s, load.rate, load.how)
		check(err)
		if late > time.Second {
			b.logf("%s: at %.0f jobs/s the producer itself was %s late", c.name, load.rate, late)
		}
		if i < 2 {
			load.into.began = append(load.into.began, began...)
		} else {
			load.into.answered = append(load.into.answered, took...)
		}
	}
	return nil
}

func (b *bench) table(all []contender, results []totals, fsync bool) {
	title, empty := "Every accepted job is on disk before it is accepted (fsync)", true
	if !fsync {
		title = "Accepted before it is on disk for sure"
	}
	for _, c := range all {
		empty = empty && c.fsync != fsync
	}
	if empty {
		return
	}
	fmt.Fprintf(b.out, "### %s\n\n", title)
	fmt.Fprintf(b.out, "%d producers, %d jobs at once, jobs of %d bytes; %.0f jobs/s is the low load, %.0f %% of its "+
		"own completed/s (for those who wait: of its own answered/s, %d at once) the high one. Medians of %d rounds "+
		"of %s; latencies over all rounds, p50 / p99.\n\n",
		b.producers, b.slots, b.text, b.low, 100*b.share, b.slots, b.rounds, b.length)
	fmt.Fprintf(b.out, "| | settings beside the defaults | accepted/s | completed/s | answered/s | CPU per job: "+
		"servers + workers + producers | low load: until it begins | until the caller has the result | high load: "+
		"until it begins | until the caller has the result |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for i, c := range all {
		if c.fsync != fsync {
			continue
		}
		m := results[i]
		name, settings := c.name, c.settings
		if c.usual {
			name += " (its default)"
		}
		settings = cmp.Or(settings, "none")
		if !fsync {
			settings += "; on disk: " + c.durable
		}
		if m.wrong != nil {
			fmt.Fprintf(b.out, "| %s | %s | FAILED: %v | | | | | | | |\n", name, settings, m.wrong)
			continue
		}
		s, w, p := median(m.cpu["servers"]), median(m.cpu["workers"]), median(m.cpu["producers"])
		answered := "–"
		if len(m.answered) > 0 {
			answered = fmt.Sprintf("%.0f", median(m.answered))
		}
		fmt.Fprintf(b.out, "| %s | %s | %.0f | %.0f | %s | %d µs: %d + %d + %d | %s | %s | %s | %s |\n", name, settings,
			median(m.accepted), median(m.completed), answered,
			(s + w + p).Microseconds(), s.Microseconds(), w.Microseconds(), p.Microseconds(),
			formatQuantiles(m.low.began), formatQuantiles(m.low.answered), formatQuantiles(m.high.began),
			formatQuantiles(m.high.answered))
	}
	fmt.Fprintln(b.out)
}
