package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ao/scripts/try"
)

// verifier compares the clients' answers and the executors' log with the coordinators' state.
type verifier struct {
	s *stack
	b *tracker
	r *report

	runs  map[string]runView // by id; both coordinators agree
	lines executorLog        // the executors' log
	// mode rot: a damage was found
	damaged bool
	torn    map[string]bool // ids of runs and sessions with records that were cut off
}

// Timeouts after the last fault. The longest runs take 40 s; retry pauses and a few leases come on top.
const (
	settleTimeout   = 150 * time.Second
	deliveryTimeout = 60 * time.Second
	cleanupTimeout  = 15 * time.Second
)

// runFaults runs mode faults.
func (j *verifier) runFaults(ctx context.Context) (err error) {
	defer try.Catch(&err)
	loadCtx, endLoad := context.WithTimeout(ctx, j.s.length)
	defer endLoad()
	hardCtx, endHard := context.WithTimeout(ctx, j.s.length+2*time.Minute)
	defer endHard()
	l := &load{tracker: j.b, s: j.s, loadCtx: loadCtx, hardCtx: hardCtx}

	c := &chaos{s: j.s, b: j.b, count: map[string]int{}}
	start := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { c.run(loadCtx) })
	wg.Go(l.run)
	wg.Wait()
	j.r.Faults = c.count
	j.s.logf("faults and load ended after %s; waiting for all runs to end", time.Since(start).Round(time.Second))
	if err := j.s.up(ctx); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	j.settle(ctx)
	j.checkCallbacks(ctx) // callbacks are runs too: complete only when none is pending
	j.settle(ctx)
	try.Check(j.readRuns(ctx))
	j.checkEnds()
	try.Check(j.checkExecutors())
	j.checkResults(ctx)
	j.checkLedger(ctx)
	j.measureGaps(start)
	try.Check(j.restartAndCompare(ctx))
	j.checkLeftovers(ctx)
	return nil
}

// settle waits until both coordinators have no open run; false: some do not end.
func (j *verifier) settle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for _, at := range j.s.urls {
		var open []string
		err := waitUntil(ctx, "no run is open at "+at, func() bool {
			list, err := j.listRuns(ctx, at, "&status=pending,claimed,running,stopping")
			if err == nil || ctx.Err() == nil {
				open = open[:0]
				for id, v := range list {
					open = append(open, id, v.Session)
				}
			}
			return err == nil && len(list) == 0
		})
		if err != nil {
			j.b.addViolation(open, "%v, within %s after the last fault; %d are open", err, settleTimeout, len(open)/2)
			return false
		}
	}
	return true
}

// listRuns reads all runs of a coordinator.
func (j *verifier) listRuns(ctx context.Context, at, filter string) (map[string]runView, error) {
	all := map[string]runView{}
	for cursor := ""; ; {
		var page struct {
			Runs []runView `json:"runs"`
			Next string    `json:"next_cursor"`
		}
		a := request(ctx, at, "GET", "/runs?limit=1000"+filter+cursor, nil, "", 30*time.Second)
		if err := a.decode(&page); err != nil || a.code != http.StatusOK {
			return nil, fmt.Errorf("list of runs at %s: %d %.200s %v", at, a.code, a.body, err)
		}
		for _, v := range page.Runs {
			all[v.ID] = v
		}
		if page.Next == "" {
			return all, nil
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
}

// readRuns lists the runs of both coordinators, which must agree, and compares them with earlier observations. A
// callback turn may start between the two lists, so differences are checked again for a while. In a cluster one of them
// may have read from a server that skips a damaged record. It notices that after 6 s, and reads again.
func (j *verifier) readRuns(ctx context.Context) error {
	var first map[string]runView
	for try := 0; ; try++ {
		var wrong map[string]string
		var err error
		first, wrong, err = j.compare(ctx)
		if err != nil {
			return err
		}
		if len(wrong) == 0 {
			break
		}
		if try == 60 {
			for id, what := range wrong {
				j.b.addViolation([]string{id}, "%s", what)
			}
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	for id, was := range j.runs {
		if v, ok := first[id]; !ok || isFinal(was.Status) && v.outcome() != was.outcome() {
			j.b.addViolation([]string{id}, "run %s was %s and is %s now", id, was.outcome(), v.outcome())
		}
	}
	j.runs = first
	return nil
}

// compare lists the runs at both coordinators and returns the differences by run.
func (j *verifier) compare(ctx context.Context) (first map[string]runView, wrong map[string]string, err error) {
	defer try.Catch(&err)
	first = try.Must(j.listRuns(ctx, j.s.urls[0], ""))
	second := try.Must(j.listRuns(ctx, j.s.urls[1], ""))
	wrong = map[string]string{}
	for id, v := range first {
		if w, ok := second[id]; !ok || w.outcome() != v.outcome() || w.Attempt != v.Attempt {
			wrong[id] = fmt.Sprintf("run %s is %s (attempt %d) at one coordinator and %s (attempt %d) at the other", id,
				v.outcome(), v.Attempt, w.outcome(), w.Attempt)
		}
	}
	for id := range second {
		if _, ok := first[id]; !ok {
			wrong[id] = fmt.Sprintf("run %s is known at one coordinator only", id)
		}
	}
	return first, wrong, nil
}

// checkEnds checks the end of every run by its kind.
func (j *verifier) checkEnds() {
	byRun := map[string]*trackedRun{}
	j.r.Runs, j.r.Kinds = map[string]int{}, map[string]int{}
	parents := map[string]bool{}
	for _, v := range j.runs {
		if v.Mode == "async_callback" {
			parents[v.Parent] = true
		}
	}
	for _, e := range j.b.accepted() {
		if other := byRun[e.run]; other != nil {
			j.b.addViolation([]string{e.run, e.key, other.key}, "two requests with different keys got the same run %s",
				e.run)
		}
		byRun[e.run] = e
		v, ok := j.runs[e.run]
		if !ok {
			j.b.addViolation([]string{e.run, e.session}, "LOST: run %s (%s) was accepted and is unknown", e.run, e.kind)
			continue
		}
		j.b.observe(e, v.Status, "the end")
		j.r.Runs[v.outcome()]++
		j.r.Kinds[e.kind]++
		if v.Attempt > 1 {
			j.r.Retried++
		}
		if why := unexpectedEnd(e, v); why != "" {
			j.b.addViolation([]string{e.run, e.session}, "run %s (%s) ended as %s, attempt %d of %d: %s", e.run, e.kind,
				v.outcome(), v.Attempt, e.attempts, why)
		}
	}
	for id, v := range j.runs {
		if byRun[id] == nil && !(v.Type == "resume_session" && parents[v.Session]) {
			j.b.addViolation([]string{id, v.Session},
				"run %s of session %s has no origin: no client started it, and its session has no children", id,
				v.Session)
		}
	}
	j.r.StaleReads = j.b.stale
	j.r.Posts, j.r.Repeats, j.r.LongestAnswer = j.b.posts, j.b.repeats, j.b.longest.Round(time.Millisecond).String()
}

// unexpectedEnd returns what is wrong with the end of a run of its kind; empty: nothing.
func unexpectedEnd(e *trackedRun, v runView) string {
	code := ""
	if v.Error != nil {
		code = v.Error.Code
	}
	may := map[string]string{ // the expected error of the kind
		"fails": "command_failed", "flaky": "command_failed", "timeout": "timeout",
	}[e.kind]
	switch {
	case !isFinal(v.Status):
		return "it has not ended"
	case v.Status == "stopped" && !e.stop:
		return "no client stopped it"
	case v.Status == "completed" && slices.Contains([]string{"fails", "timeout", "hang", "talk fails", "talk hangs"},
		e.kind):
		return "it cannot have completed"
	case v.Attempt > e.attempts:
		return "more attempts than max_attempts"
	case v.Status != "failed" || code == "runner_disconnected" && (e.stop || v.Attempt == e.attempts):
		return ""
	case code == "runner_disconnected" || v.Attempt < e.attempts && !e.stop:
		return "attempts were left"
	case code == may && may != "", e.kind == "talk fails" && code != "",
		(e.kind == "hang" || e.kind == "talk hangs") && code == "timeout": // its stop came late
		return ""
	}
	return "unexpected error: " + v.Error.Message
}

// measureGaps measures the longest times without an answer and without an end.
func (j *verifier) measureGaps(start time.Time) {
	var answers, ends []time.Time
	for _, e := range j.b.accepted() {
		answers = append(answers, e.answered)
	}
	for _, v := range j.runs {
		if v.Ended != nil {
			ends = append(ends, *v.Ended)
		}
	}
	j.r.NoAnswer, j.r.NoEnd = longestGap(answers, start, j.s.length), longestGap(ends, start, j.s.length)
}

// longestGap returns the longest time between two moments of a span.
func longestGap(at []time.Time, start time.Time, length time.Duration) string {
	end := start.Add(length)
	at = slices.DeleteFunc(append(at, start, end), func(t time.Time) bool { return t.Before(start) || t.After(end) })
	slices.SortFunc(at, time.Time.Compare)
	var most time.Duration
	for i := 1; i < len(at); i++ {
		most = max(most, at[i].Sub(at[i-1]))
	}
	return most.Round(time.Millisecond).String()
}

// restartAndCompare kills both coordinators. The state they rebuild from the stream must equal the state before.
func (j *verifier) restartAndCompare(ctx context.Context) error {
	for _, p := range j.s.coordinators {
		p.kill()
	}
	if err := j.s.up(ctx); err != nil {
		return fmt.Errorf("after killing the coordinators for the second comparison: %w", err)
	}
	j.settle(ctx)
	return j.readRuns(ctx)
}

// ledgerAnswer is the answer of GET /ledger.
type ledgerAnswer struct {
	OK      bool              `json:"ok"`
	Count   int               `json:"wrong_count"`
	Foreign int               `json:"foreign_records"`
	Wrong   []ledgerViolation `json:"wrong"`
}

// ledgerViolation is a violation found by the coordinator.
type ledgerViolation struct {
	Kind    string `json:"kind"`
	Run     string `json:"run_id"`
	Message string `json:"message"`
}

// readLedgers asks both coordinators to verify the stream; false: no answer, which is reported.
func (j *verifier) readLedgers(ctx context.Context) (all []ledgerAnswer, ok bool) {
	for _, at := range j.s.urls {
		var l ledgerAnswer
		a := request(ctx, at, "GET", "/ledger", nil, "", 60*time.Second)
		if a.code != http.StatusOK || a.decode(&l) != nil {
			j.b.addViolation(nil, "the ledger of %s: %d %.400s %v", at, a.code, a.body, a.err)
			return nil, false
		}
		if l.Foreign > 0 { // every record here has a key
			j.b.addViolation(nil, "the ledger of %s has %d foreign records", at, l.Foreign)
		}
		all = append(all, l)
	}
	return all, true
}

// checkLedger requires both ledgers to have no violation.
func (j *verifier) checkLedger(ctx context.Context) {
	all, ok := j.readLedgers(ctx)
	if !ok {
		return
	}
	j.r.Ledger = "in order"
	for _, l := range all {
		if !l.OK {
			j.r.Ledger = fmt.Sprintf("%d wrong", l.Count)
		}
		for _, w := range l.Wrong {
			j.b.addViolation([]string{w.Run}, "ledger: %s: %s (%s)", w.Kind, w.Message, w.Run)
		}
	}
}

// checkResults reads large results back.
func (j *verifier) checkResults(ctx context.Context) {
	for _, e := range j.b.accepted() {
		if j.runs[e.run].Status != "completed" || e.kind != "weigh" && e.kind != "big" {
			continue
		}
		var res struct {
			Data struct {
				Bytes int    `json:"bytes"`
				Text  string `json:"text"`
			} `json:"result_data"`
		}
		a := request(ctx, j.s.urls[e.client%len(j.s.urls)], "GET", "/runs/"+e.run+"/result", nil, "", 20*time.Second)
		switch err := a.decode(&res); {
		case err != nil || a.code != http.StatusOK:
			j.b.addViolation([]string{e.run}, "the result of %s cannot be read: %d %.200s %v", e.run, a.code, a.body,
				err)
		case e.kind == "weigh" && res.Data.Bytes != e.bytes:
			j.b.addViolation([]string{e.run}, "the executor of %s got %d bytes of parameters, not %d", e.run,
				res.Data.Bytes, e.bytes)
		case e.kind == "big" && res.Data.Text != strings.Repeat("x", bigResult):
			j.b.addViolation([]string{e.run}, "the result of %s has %d bytes, not %d", e.run, len(res.Data.Text),
				bigResult)
		}
	}
}
