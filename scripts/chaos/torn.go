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
	BegunAgain   int      `json:"attempts_twice"`   // their claim was cut off
	Retaken      int      `json:"lost_and_retaken"` // by the repeat of their request, under the same ids
	Back         string   `json:"served_again_after"`
	Said         []string `json:"said"`
	Ledger       string   `json:"ledger"`
}

func (t tear) String() string {
	where := map[bool]string{true: ", inside a batch"}[t.Inside]
	return fmt.Sprintf("coordinators %s: %d bytes cut%s, %d whole records; of %d runs answered %d lost, of which %d were taken again by a repeat; %d attempts begun twice; served again after %s; %d lines tell of it; ledger: %s",
		t.Coordinators, t.Cut, where, t.Records, t.Answered, len(t.Lost), t.Retaken, t.BegunAgain, t.Back, len(t.Said), t.Ledger)
}

// tornLoad is how long a tear's load goes on before it.
const tornLoad = 6 * time.Second

// tears is the whole story of the mode of that name: tears with the coordinators left running, and with them restarted, in turns.
func (j *judge) tears(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(j.s.seed, 1))
	lost := map[string]bool{}
	for i := range max(1, int(j.s.length/(30*time.Second))) {
		t, err := j.tear(ctx, rng, i, lost)
		j.r.Torn = append(j.r.Torn, t)
		if err != nil {
			return fmt.Errorf("tear %d: %w", i+1, err)
		}
		j.s.say("%s", t)
		for _, line := range t.Said {
			j.s.say("    %.300s", line)
		}
	}
	if err := j.again(ctx); err != nil {
		return err
	}
	j.leftBehind(ctx)
	return nil
}

// tear lets a load go on, kills NATS in the middle of it, cuts the end of its newest file off, starts it again, and judges.
func (j *judge) tear(ctx context.Context, rng *rand.Rand, round int, lost map[string]bool) (t tear, err error) {
	t.Coordinators = "left running"
	if round%2 == 1 {
		t.Coordinators = "restarted"
	}
	over, enough := context.WithTimeout(ctx, tornLoad)
	defer enough()
	hard, giveUp := context.WithTimeout(ctx, 3*time.Minute)
	defer giveUp()
	l := &load{book: j.b, s: j.s, over: over, hard: hard, round: round, torn: true}
	if err := j.s.probe(l); err != nil {
		return t, err
	}
	var clients sync.WaitGroup
	clients.Go(l.run)
	defer clients.Wait()
	<-over.Done()
	j.s.nats[0].kill()
	killed := time.Now()
	if t.Coordinators == "restarted" {
		for _, p := range j.s.coordinators {
			p.kill()
		}
	}
	marks := j.marks()
	c, err := j.cut(rng, round/2%2 == 0) // two of four, with coordinators of both kinds
	if t.Cut, t.Records, t.Inside = c.bytes, c.records, c.inside; err != nil {
		return t, err
	}
	j.forget(round)
	before := time.Now()
	if err := j.s.nats[0].start(); err != nil {
		return t, err
	}
	if err := j.s.natsBack(ctx, 0); err != nil {
		return t, err
	}
	if err := j.s.up(ctx); err != nil {
		return t, err
	}
	t.Back = time.Since(before).Round(100 * time.Millisecond).String()
	clients.Wait()
	settled := j.settle(ctx)
	j.runs = nil
	if err := j.read(ctx); err != nil {
		return t, err
	}
	t.Said = j.said(marks)
	if len(t.Said) == 0 && t.Coordinators == "left running" { // who reads history for the first time cannot know that there was more
		j.b.complain(nil, "tear %d: no log says that anything was lost or repaired", round+1)
	}
	if settled = settled && j.missing(ctx, &t, round, killed, lost); !settled {
		return t, errors.New("runs hang; no further tear")
	}
	if err := j.serves(ctx, hard); err != nil {
		return t, err
	}
	if err := j.twice(&t); err != nil {
		return t, err
	}
	j.tornLedger(ctx, &t)
	return t, nil
}

// tornLedger wants both ledgers to find the same gaps, and nothing else.
func (j *judge) tornLedger(ctx context.Context, t *tear) {
	all, ok := j.audits(ctx)
	if !ok {
		t.Ledger = j.r.Ledger
		return
	}
	var texts []string
	for _, l := range all {
		kinds := map[string]int{}
		for _, w := range l.Wrong {
			kinds[w.Kind]++
			if !j.gap(w) {
				j.b.complain([]string{w.Run}, "ledger of a torn history: %s: %s (%s)", w.Kind, w.Message, w.Run)
			}
		}
		texts = append(texts, cmp.Or(counts(kinds), "in order"))
	}
	if t.Ledger = texts[0]; texts[0] != texts[1] {
		j.b.complain(nil, "the ledgers of a torn history differ: %s; %s", texts[0], texts[1])
	}
}

// forget takes back what was seen of the runs of this round: their ends may be among what is cut.
func (j *judge) forget(round int) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	for _, e := range j.b.entries {
		if e.round == round {
			e.seen = ""
		}
	}
}

// marks are the lengths of all logs.
func (j *judge) marks() map[string]int64 {
	at := map[string]int64{}
	for _, p := range j.s.all() {
		if info, err := os.Stat(p.log); err == nil {
			at[p.log] = info.Size()
		}
	}
	return at
}

// tells are the words by which a log says that something of the stream was lost or repaired.
var tells = regexp.MustCompile(`(?i)RUNS.*(truncat|corrupt|recover|rebuil|outdated|lost|bad|mismatch)|RUNS.*past last stream sequence|lost records`)

// said is what the logs say of it since the marks: NATS, then the coordinators.
func (j *judge) said(marks map[string]int64) (lines []string) {
	for _, p := range append(j.s.nats, j.s.coordinators...) {
		raw, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		n := 0
		for line := range bytes.Lines(raw[min(marks[p.log], int64(len(raw))):]) {
			if n < 3 && tells.Match(line) {
				n++
				lines = append(lines, p.name+": "+string(bytes.TrimSpace(line)))
			}
		}
	}
	return lines
}

// missing finds the runs that were answered and are not known any more. Only those of this round can be that were answered
// before the crash. The repeat of its request brings a lost run back under the same ids.
func (j *judge) missing(ctx context.Context, t *tear, round int, killed time.Time, lost map[string]bool) (settled bool) {
	var gone []*entry
	for _, e := range j.b.accepted() {
		v, known := j.runs[e.run]
		recent, stored := e.round == round, e.answered
		if e.mode == "sync" || e.tries > 1 { // its answer came at the end; or an earlier try was stored, and its answer lost or cut off
			stored = e.posted
		}
		switch {
		case lost[e.run] && !known: // and not repeated
		case !known && (!recent || e.posted.After(killed)): // an answer may have been under way for long when its client noted it
			j.b.complain([]string{e.run, e.session}, "LOST: run %s (%s) was answered %s the crash and is not known", e.run, e.kind, map[bool]string{true: "after", false: "long before"}[recent])
		case !known && !j.torn[e.run]:
			j.b.complain([]string{e.run, e.session}, "LOST: run %s (%s) was answered before the crash and is not known, and nothing of it was cut off", e.run, e.kind)
		case !known:
			gone = append(gone, e)
			t.Lost = append(t.Lost, e.run)
		case recent && stored.Before(killed):
			t.Answered++
			if why := odd(e, v); why != "" {
				j.b.complain([]string{e.run, e.session}, "run %s (%s) ended as %s: %s", e.run, e.kind, v.outcome(), why)
			}
		}
	}
	t.Answered += len(gone)
	for i, e := range gone {
		lost[e.run] = true
		if i%2 == 1 {
			continue
		}
		a := ask(ctx, j.s.urls[i%len(j.s.urls)], "POST", "/runs", e.body, e.key, 20*time.Second)
		var got accepted
		if a.decode(&got) != nil || got.Run != e.run || a.code >= 300 {
			if bytes.Contains(a.body, []byte(`"not_found"`)) { // its session or its parent is lost as well
				continue
			}
			j.b.complain([]string{e.run, e.key}, "the repeat of lost run %s (%s) was answered with %d %.300s", e.run, e.kind, a.code, a.body)
			continue
		}
		t.Retaken++
	}
	return t.Retaken == 0 || j.settle(ctx)
}

// serves has both coordinators see new runs through.
func (j *judge) serves(ctx, hard context.Context) error {
	for _, at := range j.s.urls {
		for i := range 5 {
			a := ask(hard, at, "POST", "/runs", []byte(`{"agent_name":"quick","mode":"sync","wait_seconds":40}`), "", time.Minute)
			var v view
			if a.decode(&v) != nil || a.code != http.StatusOK || v.Status != "completed" {
				j.b.complain([]string{v.ID}, "after the crash new run %d at %s: %d %.300s %v", i+1, at, a.code, a.body, a.err)
				return nil
			}
		}
	}
	return ctx.Err()
}

// twice counts the attempts that were begun twice: where the claim was cut off nobody can know of the first time.
func (j *judge) twice(t *tear) error {
	lines, err := j.s.readBegun()
	if err != nil {
		return err
	}
	for id, tries := range lines {
		for n, got := range tries {
			if was := j.lines[id][n]; got.begins > 1 && (was == nil || was.begins < got.begins) {
				t.BegunAgain++
				if got.begins > 2 {
					j.b.complain([]string{id}, "attempt %d of run %s was begun %d times", n, id, got.begins)
				}
			}
		}
	}
	j.lines = lines
	return nil
}
