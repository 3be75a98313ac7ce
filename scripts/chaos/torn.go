package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"

	"ao/scripts/try"
)

// tear is a crash of NATS that loses the last records of RUNS.
type tear struct {
	Coordinators string   `json:"coordinators"` // left running or restarted
	Cut          int64    `json:"bytes_cut"`
	Records      int      `json:"records_cut"` // whole ones
	Inside       bool     `json:"inside_a_batch"`
	Answered     int      `json:"runs_answered_before"`
	Lost         []string `json:"runs_lost"`        // accepted, and now unknown
	StartedTwice int      `json:"attempts_twice"`   // claims that were cut off
	Retaken      int      `json:"lost_and_retaken"` // by a repeated request, with the same ids
	ServedAfter  string   `json:"served_again_after"`
	LogLines     []string `json:"said"`
	Ledger       string   `json:"ledger"`
}

func (t tear) String() string {
	where := map[bool]string{true: ", inside a batch"}[t.Inside]
	return fmt.Sprintf("coordinators %s: %d bytes cut%s, %d whole records; of %d accepted runs %d lost, of which %d "+
		"were accepted again; "+
		"%d attempts started twice; serving again after %s; %d log lines; ledger: %s",
		t.Coordinators, t.Cut, where, t.Records, t.Answered, len(t.Lost), t.Retaken, t.StartedTwice, t.ServedAfter,
		len(t.LogLines), t.Ledger)
}

// tornLoadTime is the duration of the load before a crash.
const tornLoadTime = 6 * time.Second

// runTorn runs mode torn: crashes with the coordinators left running and with them restarted, alternating.
func (j *verifier) runTorn(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(j.s.seed, 1))
	lost := map[string]bool{}
	for i := range max(1, int(j.s.length/(30*time.Second))) {
		t, err := j.crashNATS(ctx, rng, i, lost)
		j.r.Torn = append(j.r.Torn, t)
		if err != nil {
			return fmt.Errorf("crash %d: %w", i+1, err)
		}
		j.s.logf("%s", t)
		for _, line := range t.LogLines {
			j.s.logf("    %.300s", line)
		}
	}
	if err := j.restartAndCompare(ctx); err != nil {
		return err
	}
	j.checkLeftovers(ctx)
	return nil
}

// crashNATS kills NATS under load, cuts the end of its newest file off, restarts it and verifies.
func (j *verifier) crashNATS(ctx context.Context, rng *rand.Rand, round int, lost map[string]bool) (t tear, err error) {
	defer try.Catch(&err)
	t.Coordinators = "left running"
	if round%2 == 1 {
		t.Coordinators = "restarted"
	}
	loadCtx, endLoad := context.WithTimeout(ctx, tornLoadTime)
	defer endLoad()
	hardCtx, endHard := context.WithTimeout(ctx, 3*time.Minute)
	defer endHard()
	l := &load{tracker: j.b, s: j.s, loadCtx: loadCtx, hardCtx: hardCtx, round: round, torn: true}
	var clients sync.WaitGroup
	clients.Go(l.run)
	defer clients.Wait()
	<-loadCtx.Done()
	j.s.nats[0].kill()
	killed := time.Now()
	if t.Coordinators == "restarted" {
		for _, p := range j.s.coordinators {
			p.kill()
		}
	}
	marks := j.logSizes()
	c, err := j.cut(rng, round/2%2 == 0) // two of four crashes, with and without restarted coordinators
	t.Cut, t.Records, t.Inside = c.bytes, c.records, c.inside
	if err != nil {
		return t, err
	}
	j.forgetEnds(round)
	before := time.Now()
	try.Check(j.s.nats[0].start())
	try.Check(j.s.waitForNATS(ctx, 0))
	try.Check(j.s.up(ctx))
	t.ServedAfter = time.Since(before).Round(100 * time.Millisecond).String()
	clients.Wait()
	settled := j.settle(ctx)
	j.runs = nil
	try.Check(j.readRuns(ctx))
	t.LogLines = j.lossLines(marks)
	// a restarted coordinator cannot know the lost records
	if len(t.LogLines) == 0 && t.Coordinators == "left running" {
		j.b.addViolation(nil, "crash %d: no log reports lost or repaired records", round+1)
	}
	settled = settled && j.checkMissing(ctx, &t, round, killed, lost)
	if !settled {
		return t, errors.New("runs hang; no further crash")
	}
	try.Check(j.checkServing(ctx, hardCtx))
	try.Check(j.countRepeatedStarts(&t))
	j.checkTornLedger(ctx, &t)
	return t, nil
}

// checkTornLedger requires both ledgers to find the same expected gaps and nothing else.
func (j *verifier) checkTornLedger(ctx context.Context, t *tear) {
	all, ok := j.readLedgers(ctx)
	if !ok {
		t.Ledger = j.r.Ledger
		return
	}
	var texts []string
	for _, l := range all {
		kinds := map[string]int{}
		for _, w := range l.Wrong {
			kinds[w.Kind]++
			if !j.isExpectedGap(w) {
				j.b.addViolation([]string{w.Run}, "ledger of a torn history: %s: %s (%s)", w.Kind, w.Message, w.Run)
			}
		}
		texts = append(texts, cmp.Or(formatCounts(kinds), "in order"))
	}
	t.Ledger = texts[0]
	if texts[0] != texts[1] {
		j.b.addViolation(nil, "the ledgers of a torn history differ: %s; %s", texts[0], texts[1])
	}
}

// forgetEnds clears the final statuses seen in this round: their records may have been cut off.
func (j *verifier) forgetEnds(round int) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	for _, e := range j.b.entries {
		if e.round == round {
			e.finalStatus = ""
		}
	}
}

// logSizes returns the sizes of all logs.
func (j *verifier) logSizes() map[string]int64 {
	at := map[string]int64{}
	for _, p := range j.s.all() {
		if info, err := os.Stat(p.log); err == nil {
			at[p.log] = info.Size()
		}
	}
	return at
}

// lossPattern matches log lines about lost or repaired records of the stream.
var lossPattern = regexp.MustCompile(`(?i)RUNS.*(truncat|corrupt|recover|rebuil|outdated|lost|bad|mismatch)|` +
	`RUNS.*past last stream sequence|lost records`)

// lossLines returns such lines since the given log sizes: of NATS, then of the coordinators.
func (j *verifier) lossLines(marks map[string]int64) (lines []string) {
	for _, p := range append(j.s.nats, j.s.coordinators...) {
		raw, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		n := 0
		for line := range bytes.Lines(raw[min(marks[p.log], int64(len(raw))):]) {
			if n < 3 && lossPattern.Match(line) {
				n++
				lines = append(lines, p.name+": "+string(bytes.TrimSpace(line)))
			}
		}
	}
	return lines
}

// checkMissing finds accepted runs that are unknown now. Only runs of this round may be lost, and only if they were
// accepted before the crash. Repeating its request must bring a lost run back with the same ids.
func (j *verifier) checkMissing(ctx context.Context, t *tear, round int, killed time.Time, lost map[string]bool) (
	settled bool) {
	var missing []*trackedRun
	for _, e := range j.b.accepted() {
		v, known := j.runs[e.run]
		recent, stored := e.round == round, e.answered
		// the answer came at the end, or an earlier attempt was stored and its answer lost
		if e.mode == "sync" || e.tries > 1 {
			stored = e.posted
		}
		switch {
		case lost[e.run] && !known: // lost before, and not repeated
		case !known && (!recent || e.posted.After(killed)): // the client may have noted the answer late
			j.b.addViolation([]string{e.run, e.session}, "LOST: run %s (%s) was accepted %s the crash and is unknown",
				e.run, e.kind, map[bool]string{true: "after", false: "long before"}[recent])
		case !known && !j.torn[e.run]:
			j.b.addViolation([]string{e.run, e.session},
				"LOST: run %s (%s) was accepted before the crash and is unknown, but none of its records was cut off",
				e.run, e.kind)
		case !known:
			missing = append(missing, e)
			t.Lost = append(t.Lost, e.run)
		case recent && stored.Before(killed):
			t.Answered++
			if why := unexpectedEnd(e, v); why != "" {
				j.b.addViolation([]string{e.run, e.session}, "run %s (%s) ended as %s: %s", e.run, e.kind, v.outcome(),
					why)
			}
		}
	}
	t.Answered += len(missing)
	for i, e := range missing {
		lost[e.run] = true
		if i%2 == 1 {
			continue
		}
		a := request(ctx, j.s.urls[i%len(j.s.urls)], "POST", "/runs", e.body, e.key, 20*time.Second)
		var got accepted
		if a.decode(&got) != nil || got.Run != e.run || a.code >= 300 {
			if bytes.Contains(a.body, []byte(`"not_found"`)) { // its session or parent is lost too
				continue
			}
			j.b.addViolation([]string{e.run, e.key}, "the repeat of lost run %s (%s) was answered with %d %.300s",
				e.run, e.kind, a.code, a.body)
			continue
		}
		t.Retaken++
	}
	return t.Retaken == 0 || j.settle(ctx)
}

// checkServing runs new runs at both coordinators.
func (j *verifier) checkServing(ctx, hard context.Context) error {
	for _, at := range j.s.urls {
		for i := range 5 {
			a := request(hard, at, "POST", "/runs", []byte(`{"agent_name":"quick","mode":"sync","wait_seconds":40}`),
				"", time.Minute)
			var v runView
			if a.decode(&v) != nil || a.code != http.StatusOK || v.Status != "completed" {
				j.b.addViolation([]string{v.ID}, "new run %d after the crash, at %s: %d %.300s %v", i+1, at, a.code,
					a.body, a.err)
				return nil
			}
		}
	}
	return ctx.Err()
}

// countRepeatedStarts counts the attempts that started twice: if the claim was cut off, no one can know of the first
// start.
func (j *verifier) countRepeatedStarts(t *tear) error {
	lines, err := j.s.readExecutorLog()
	if err != nil {
		return err
	}
	for id, tries := range lines {
		for n, got := range tries {
			if was := j.lines[id][n]; got.starts > 1 && (was == nil || was.starts < got.starts) {
				t.StartedTwice++
				if got.starts > 2 {
					j.b.addViolation([]string{id}, "attempt %d of run %s was begun %d times", n, id, got.starts)
				}
			}
		}
	}
	j.lines = lines
	return nil
}
