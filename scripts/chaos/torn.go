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
)

// tear is a crash of NATS that lost the last records of RUNS.
type tear struct {
	Coordinators string   `json:"coordinators"` // left running, restarted
	Cut          int64    `json:"bytes_cut"`
	Records      int      `json:"records_cut"` // whole ones
	Inside       bool     `json:"inside_a_batch"`
	Answered     int      `json:"runs_answered_before"`
	Lost         []string `json:"runs_lost"`        // answered, and not known any more
	StartedTwice int      `json:"attempts_twice"`   // their claim was cut off
	Retaken      int      `json:"lost_and_retaken"` // by the repeat of their request, under the same ids
	ServedAfter  string   `json:"served_again_after"`
	LogLines     []string `json:"said"`
	Ledger       string   `json:"ledger"`
}

func (t tear) String() string {
	where := map[bool]string{true: ", inside a batch"}[t.Inside]
	return fmt.Sprintf("coordinators %s: %d bytes cut%s, %d whole records; of %d runs answered %d lost, of which %d were taken again by a repeat; %d attempts begun twice; served again after %s; %d lines tell of it; ledger: %s",
		t.Coordinators, t.Cut, where, t.Records, t.Answered, len(t.Lost), t.Retaken, t.StartedTwice, t.ServedAfter, len(t.LogLines), t.Ledger)
}

// tornLoadTime is how long a tear's load goes on before it.
const tornLoadTime = 6 * time.Second

// runTorn is the whole story of the mode of that name: tears with the coordinators left running, and with them restarted, in turns.
func (j *verifier) runTorn(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(j.s.seed, 1))
	lost := map[string]bool{}
	for i := range max(1, int(j.s.length/(30*time.Second))) {
		t, err := j.crashNATS(ctx, rng, i, lost)
		j.r.Torn = append(j.r.Torn, t)
		if err != nil {
			return fmt.Errorf("tear %d: %w", i+1, err)
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

// crashNATS lets a load go on, kills NATS in the middle of it, cuts the end of its newest file off, starts it again, and judges.
func (j *verifier) crashNATS(ctx context.Context, rng *rand.Rand, round int, lost map[string]bool) (t tear, err error) {
	t.Coordinators = "left running"
	if round%2 == 1 {
		t.Coordinators = "restarted"
	}
	loadCtx, endLoad := context.WithTimeout(ctx, tornLoadTime)
	defer endLoad()
	hardCtx, endHard := context.WithTimeout(ctx, 3*time.Minute)
	defer endHard()
	l := &load{tracker: j.b, s: j.s, loadCtx: loadCtx, hardCtx: hardCtx, round: round, torn: true}
	if err := j.s.detectFeatures(l); err != nil {
		return t, err
	}
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
	c, err := j.cut(rng, round/2%2 == 0) // two of four, with coordinators of both kinds
	if t.Cut, t.Records, t.Inside = c.bytes, c.records, c.inside; err != nil {
		return t, err
	}
	j.forgetEnds(round)
	before := time.Now()
	if err := j.s.nats[0].start(); err != nil {
		return t, err
	}
	if err := j.s.waitForNATS(ctx, 0); err != nil {
		return t, err
	}
	if err := j.s.up(ctx); err != nil {
		return t, err
	}
	t.ServedAfter = time.Since(before).Round(100 * time.Millisecond).String()
	clients.Wait()
	settled := j.settle(ctx)
	j.runs = nil
	if err := j.readRuns(ctx); err != nil {
		return t, err
	}
	t.LogLines = j.lossLines(marks)
	if len(t.LogLines) == 0 && t.Coordinators == "left running" { // who reads history for the first time cannot know that there was more
		j.b.addViolation(nil, "tear %d: no log says that anything was lost or repaired", round+1)
	}
	if settled = settled && j.checkMissing(ctx, &t, round, killed, lost); !settled {
		return t, errors.New("runs hang; no further tear")
	}
	if err := j.checkServing(ctx, hardCtx); err != nil {
		return t, err
	}
	if err := j.countRepeatedStarts(&t); err != nil {
		return t, err
	}
	j.checkTornLedger(ctx, &t)
	return t, nil
}

// checkTornLedger wants both ledgers to find the same gaps, and nothing else.
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
	if t.Ledger = texts[0]; texts[0] != texts[1] {
		j.b.addViolation(nil, "the ledgers of a torn history differ: %s; %s", texts[0], texts[1])
	}
}

// forgetEnds takes back what was seen of the runs of this round: their ends may be among what is cut.
func (j *verifier) forgetEnds(round int) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	for _, e := range j.b.entries {
		if e.round == round {
			e.finalStatus = ""
		}
	}
}

// logSizes are the lengths of all logs.
func (j *verifier) logSizes() map[string]int64 {
	at := map[string]int64{}
	for _, p := range j.s.all() {
		if info, err := os.Stat(p.log); err == nil {
			at[p.log] = info.Size()
		}
	}
	return at
}

// lossPattern are the words by which a log says that something of the stream was lost or repaired.
var lossPattern = regexp.MustCompile(`(?i)RUNS.*(truncat|corrupt|recover|rebuil|outdated|lost|bad|mismatch)|RUNS.*past last stream sequence|lost records`)

// lossLines is what the logs say of it since the marks: NATS, then the coordinators.
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

// checkMissing finds the runs that were answered and are not known any more. Only those of this round can be that were answered
// before the crash. The repeat of its request brings a lost run back under the same ids.
func (j *verifier) checkMissing(ctx context.Context, t *tear, round int, killed time.Time, lost map[string]bool) (settled bool) {
	var missing []*trackedRun
	for _, e := range j.b.accepted() {
		v, known := j.runs[e.run]
		recent, stored := e.round == round, e.answered
		if e.mode == "sync" || e.tries > 1 { // its answer came at the end; or an earlier try was stored, and its answer lost or cut off
			stored = e.posted
		}
		switch {
		case lost[e.run] && !known: // and not repeated
		case !known && (!recent || e.posted.After(killed)): // an answer may have been under way for long when its client noted it
			j.b.addViolation([]string{e.run, e.session}, "LOST: run %s (%s) was answered %s the crash and is not known", e.run, e.kind, map[bool]string{true: "after", false: "long before"}[recent])
		case !known && !j.torn[e.run]:
			j.b.addViolation([]string{e.run, e.session}, "LOST: run %s (%s) was answered before the crash and is not known, and nothing of it was cut off", e.run, e.kind)
		case !known:
			missing = append(missing, e)
			t.Lost = append(t.Lost, e.run)
		case recent && stored.Before(killed):
			t.Answered++
			if why := unexpectedEnd(e, v); why != "" {
				j.b.addViolation([]string{e.run, e.session}, "run %s (%s) ended as %s: %s", e.run, e.kind, v.outcome(), why)
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
			if bytes.Contains(a.body, []byte(`"not_found"`)) { // its session or its parent is lost as well
				continue
			}
			j.b.addViolation([]string{e.run, e.key}, "the repeat of lost run %s (%s) was answered with %d %.300s", e.run, e.kind, a.code, a.body)
			continue
		}
		t.Retaken++
	}
	return t.Retaken == 0 || j.settle(ctx)
}

// checkServing has both coordinators see new runs through.
func (j *verifier) checkServing(ctx, hard context.Context) error {
	for _, at := range j.s.urls {
		for i := range 5 {
			a := request(hard, at, "POST", "/runs", []byte(`{"agent_name":"quick","mode":"sync","wait_seconds":40}`), "", time.Minute)
			var v runView
			if a.decode(&v) != nil || a.code != http.StatusOK || v.Status != "completed" {
				j.b.addViolation([]string{v.ID}, "after the crash new run %d at %s: %d %.300s %v", i+1, at, a.code, a.body, a.err)
				return nil
			}
		}
	}
	return ctx.Err()
}

// countRepeatedStarts counts the attempts that were begun twice: where the claim was cut off nobody can know of the first time.
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
