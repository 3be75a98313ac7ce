package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ao/nats/natstest"
	"ao/scripts/try"

	"github.com/nats-io/nats.go"
)

// rotLoadTime is the duration of the load before bits are flipped.
const rotLoadTime = 5 * time.Second

// rotten is what one round of mode rot did, and what was seen.
type rotten struct {
	Server  string   `json:"server"`
	Ended   string   `json:"ended"`   // how the server ended
	Flipped []string `json:"flipped"` // streams, with where
	Lost    int      `json:"runs_lost"`
	Damaged int      `json:"runs_damaged"` // that failed with history_damaged
	Changed int      `json:"ends_changed"`
	Ledger  string   `json:"ledger"`
}

func (r rotten) String() string {
	return fmt.Sprintf("%s after %s, bits flipped in %s: %d runs lost, %d failed with history_damaged, %d ends "+
		"changed; ledger: %s", r.Server, r.Ended, strings.Join(r.Flipped, ", "), r.Lost, r.Damaged, r.Changed, r.Ledger)
}

// runRot runs mode rot: one bit in some streams of one server is flipped, again and again.
func (j *verifier) runRot(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(j.s.seed, 2))
	for i := range max(1, int(j.s.length/(20*time.Second))) {
		r, err := j.rotNATS(ctx, rng, i)
		j.r.Rotten = append(j.r.Rotten, r)
		j.s.logf("%s", r)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	if err := j.restartAndCompare(ctx); err != nil {
		return err
	}
	j.checkLeftovers(ctx)
	return nil
}

// rotNATS ends a server after some load, flips bits in its files, starts it again and verifies.
func (j *verifier) rotNATS(ctx context.Context, rng *rand.Rand, round int) (r rotten, err error) {
	defer try.Catch(&err)
	loadCtx, endLoad := context.WithTimeout(ctx, rotLoadTime)
	defer endLoad()
	hardCtx, endHard := context.WithTimeout(ctx, 3*time.Minute)
	defer endHard()
	l := &load{tracker: j.b, s: j.s, loadCtx: loadCtx, hardCtx: hardCtx, round: round}
	l.run()
	i := rng.IntN(len(j.s.nats))
	p := j.s.nats[i]
	r.Server, r.Ended = p.name, "kill -9"
	if rng.IntN(2) == 0 {
		r.Ended = "SIGTERM"
		if late := p.stop(60 * time.Second); late != nil {
			j.b.addViolation([]string{p.name}, "%v", late)
		}
	} else {
		p.kill()
	}
	r.Flipped = try.Must(j.flip(rng, i))
	try.Check(p.start())
	try.Check(j.recover(ctx, i, &r))
	try.Check(j.empty(i, r.Flipped))
	try.Check(j.s.up(ctx))
	j.settle(ctx)
	damaged := j.checkRotLedger(ctx, &r) // it may be who finds the damage, and then the history is read again
	for _, at := range j.s.urls {        // a damage that the ledger has found holds starts for a lease
		try.Check(waitWithin(ctx, time.Minute, at+" is ready again", func() bool { return j.s.ready(ctx, at) }))
	}
	j.settle(ctx)
	before := j.runs
	j.runs = nil
	try.Check(j.readRuns(ctx))
	j.checkRotRuns(&r, before, damaged)
	var t tear
	try.Check(j.countRepeatedStarts(&t))
	if t.StartedTwice > 0 {
		j.b.addViolation(nil, "after rot: %d attempts started twice", t.StartedTwice)
	}
	return r, j.checkServing(ctx, hardCtx)
}

// flip flips one bit in RUNS, in some of the other streams, or in both.
func (j *verifier) flip(rng *rand.Rand, server int) (flipped []string, err error) {
	dir := j.s.path("nats", fmt.Sprint(server+1))
	streams, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "msgs", "1.blk"))
	if err != nil {
		return nil, err
	}
	slices.Sort(streams)
	runs := rng.IntN(3) > 0
	for _, file := range streams {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		hit, at := rng.IntN(3) == 0, rng.Float64()
		if name == "KV_secrets" && len(j.s.nats) == 1 { // then no coordinator starts, which is as it should be
			continue
		}
		if name == "RUNS" && runs || name != "RUNS" && hit {
			if err := natstest.FlipBit(dir, name, at); err == nil { // else it is empty
				flipped = append(flipped, fmt.Sprintf("%s at %.2f", name, at))
			}
		}
	}
	return flipped, nil
}

// recover waits for a server of a cluster. If it does not come, as where the sequence of a message is flipped, it gets
// the damaged streams from the others, as symptoms.md says.
func (j *verifier) recover(ctx context.Context, server int, r *rotten) (err error) {
	defer try.Catch(&err)
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = j.s.waitForNATS(within, server)
	if err == nil || ctx.Err() != nil || len(j.s.nats) == 1 {
		return err
	}
	p := j.s.nats[server]
	p.kill()
	for _, what := range r.Flipped {
		name, _, _ := strings.Cut(what, " ")
		streams := j.s.path("nats", fmt.Sprint(server+1), "jetstream", "*", "streams", name)
		for _, dir := range try.Must(filepath.Glob(streams)) {
			try.Check(os.RemoveAll(dir))
		}
	}
	r.Ended += ", did not start, and got these streams from the others"
	try.Check(p.start())
	return j.s.waitForNATS(ctx, server)
}

// empty removes what a single server has of damaged buckets, as coordinators want it that would not start otherwise.
func (j *verifier) empty(server int, flipped []string) (err error) {
	defer try.Catch(&err)
	if len(j.s.nats) > 1 {
		return nil
	}
	nc := try.Must(nats.Connect(j.s.natsURLs[server], nats.Timeout(5*time.Second)))
	defer nc.Close()
	js := try.Must(nc.JetStream())
	for _, what := range flipped {
		name, _, _ := strings.Cut(what, " ")
		if name == "KV_runners" || name == "KV_lanes" {
			try.Check(js.PurgeStream(name))
		}
	}
	return nil
}

// checkRotLedger requires both ledgers to say the same. Only a damage may be wrong, and what it explains once it is
// accepted.
func (j *verifier) checkRotLedger(ctx context.Context, r *rotten) (damaged bool) {
	all, ok := j.readLedgers(ctx)
	if !ok {
		return false
	}
	for _, l := range all {
		r.Ledger = "in order"
		for _, w := range l.Wrong {
			r.Ledger = fmt.Sprintf("%d wrong, first: %s", l.Count, cmp.Or(w.Message, w.Kind))
			damaged = damaged || w.Kind == "history_damaged"
		}
	}
	if damaged && len(j.s.nats) == 1 {
		request(ctx, j.s.urls[0], "POST", "/ledger/accept", nil, "", 20*time.Second)
		all, _ = j.readLedgers(ctx) // reports a failure itself
	}
	for _, l := range all {
		for _, w := range l.Wrong {
			j.b.addViolation([]string{w.Run}, "ledger after rot: %s: %s (%s)", w.Kind, w.Message, w.Run)
		}
	}
	return damaged
}

// checkRotRuns requires that runs are lost, or end otherwise, only if the ledger has a damage.
func (j *verifier) checkRotRuns(r *rotten, before map[string]runView, damaged bool) {
	for _, v := range j.runs {
		if v.Error != nil && v.Error.Code == "history_damaged" {
			r.Damaged++
		}
	}
	lost := func(id string, format string, args ...any) {
		if !damaged && !j.damaged {
			j.b.addViolation([]string{id}, format, args...)
		}
	}
	j.damaged = j.damaged || damaged
	for id, was := range before {
		if v, ok := j.runs[id]; ok && isFinal(was.Status) && v.outcome() != was.outcome() {
			r.Changed++
			lost(id, "run %s was %s and is %s, without a damage", id, was.outcome(), v.outcome())
		}
	}
	for _, e := range j.b.accepted() {
		v, ok := j.runs[e.run]
		switch {
		case !ok:
			r.Lost++
			lost(e.run, "LOST: run %s (%s) was accepted and is unknown, without a damage", e.run, e.kind)
		case !isFinal(v.Status):
			j.b.addViolation([]string{e.run}, "run %s (%s) is %s", e.run, e.kind, v.Status)
		case e.finalStatus != "" && e.finalStatus != v.Status:
			r.Changed++
			lost(e.run, "run %s (%s) was %s and is %s, without a damage", e.run, e.kind, e.finalStatus, v.Status)
		}
	}
}
