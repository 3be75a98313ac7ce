package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// load runs the clients. Each client uses one coordinator, and the other one if it gets no answer.
type load struct {
	*tracker
	s       *stack
	loadCtx context.Context // ends when clients must start no new runs
	hardCtx context.Context // ends when clients must give up

	round int  // number of this load on the stack
	torn  bool // records may be lost: unknown runs are checked later
}

// client has its own random numbers, from the seed and its number.
type client struct {
	*load
	n    int
	rng  *rand.Rand
	at   int // index of its coordinator
	sent int
	open []*trackedRun // runs that it waits for
}

// clients of procedural agents, and of sessions.
const (
	jobClients     = 5
	sessionClients = 4
	maxOpen        = 5
)

// run runs all clients until loadCtx ends and their requests are answered.
func (l *load) run() {
	var wg sync.WaitGroup
	for n := range jobClients + sessionClients {
		c := &client{load: l, n: n, rng: rand.New(rand.NewPCG(l.s.seed, uint64(100+n+1000*l.round))), at: n}
		work := c.runJobs
		if n >= jobClients {
			work = c.runSessions
		}
		wg.Go(work)
	}
	wg.Wait()
}

func (c *client) url() string { return c.s.urls[c.at%len(c.s.urls)] }

// pause waits a random time; false: start no new runs.
func (c *client) pause(least, most time.Duration) bool {
	select {
	case <-c.loadCtx.Done():
		return false
	case <-time.After(least + time.Duration(c.rng.Int64N(int64(most-least)))):
		return true
	}
}

// backOff waits between two attempts of a request.
func (c *client) backOff() {
	select {
	case <-c.hardCtx.Done():
	case <-time.After(time.Duration(20+c.rng.IntN(80)) * time.Millisecond):
	}
}

// newRun returns a new run with its own idempotency key.
func (c *client) newRun(kind, mode, body string, args ...any) *trackedRun {
	c.sent++
	return &trackedRun{client: c.n, round: c.round, key: fmt.Sprintf("%s-%d-%d-%d", c.s.token, c.round, c.n, c.sent),
		kind: kind, mode: mode, attempts: 1,
		body: fmt.Appendf(nil, `{"mode":%q,`+body+`}`, append([]any{mode}, args...)...)}
}

type accepted struct {
	Run     string `json:"run_id"`
	Session string `json:"session_id"`
	Status  string `json:"status"`
}

// post submits a run: it repeats the request, to the other coordinator, until there is an answer. false: no answer,
// or the run was refused, which is allowed only for a further turn of a session.
func (c *client) post(e *trackedRun) bool {
	c.add(e)
	e.posted = time.Now()
	for c.hardCtx.Err() == nil {
		timeout := 4 * time.Second
		switch {
		case e.mode == "sync":
			timeout = 15 * time.Second
		case c.rng.IntN(12) == 0: // the client itself cuts the request off
			timeout = time.Duration(1+c.rng.IntN(25)) * time.Millisecond
		}
		url := c.url()
		a := request(c.hardCtx, url, "POST", "/runs", e.body, e.key, timeout)
		c.mu.Lock()
		e.tries++
		c.posts++
		if e.tries > 1 {
			c.repeats++
		}
		c.mu.Unlock()
		if a.code >= http.StatusInternalServerError && !a.unavailable() {
			c.addViolation([]string{e.key, e.session}, "POST /runs (%s, %s) was answered with %d %.300s", e.kind, url,
				a.code, a.body)
		}
		// An agent is unknown while all its runners restart.
		homeless := a.code == http.StatusNotFound && bytes.Contains(a.body, []byte("There is no agent"))
		if a.unavailable() || homeless || a.code >= http.StatusInternalServerError {
			c.at++
			c.backOff()
			continue
		}
		if !c.checkAnswer(e, a, url) {
			return false
		}
		if c.rng.IntN(10) == 0 { // repeat an answered request
			c.at++
			if a := request(c.hardCtx, c.url(), "POST", "/runs", e.body, e.key, timeout); !a.unavailable() {
				c.checkAnswer(e, a, c.url())
			}
		}
		if c.rng.IntN(4) == 0 { // the other coordinator must know the run
			c.at++
			c.getRun(e)
		}
		return true
	}
	return false
}

// checkAnswer reads the answer to a request for a run.
func (c *client) checkAnswer(e *trackedRun, a answer, url string) bool {
	var got accepted
	err := a.decode(&got)
	if err != nil || a.code != http.StatusCreated && a.code != http.StatusOK && a.code != http.StatusAccepted ||
		got.Run == "" {
		if e.turn > 0 && a.code == http.StatusConflict && bytes.Contains(a.body, []byte(`"session_never_began"`)) &&
			e.run == "" {
			return false
		}
		if c.mayBeLost(a) {
			return false
		}
		c.addViolation([]string{e.key, e.run, e.session}, "POST /runs (%s, try %d, %s) was answered with %d %.300s",
			e.kind, e.tries, url, a.code, a.body)
		return false
	}
	c.mu.Lock()
	was, first := e.run, e.run == ""
	if first {
		e.run, e.answered = got.Run, time.Now()
		if e.mode != "sync" {
			c.longest = max(c.longest, e.answered.Sub(e.posted))
		}
		if e.session == "" {
			e.session = got.Session
		}
	}
	session := e.session
	c.mu.Unlock()
	if !first && was != got.Run || session != got.Session {
		c.addViolation([]string{e.key, e.run, got.Run}, "the repeat of a request (%s) got other ids: %s %s, not %s %s",
			e.kind, got.Run, got.Session, was, session)
	}
	if a.code == http.StatusOK {
		c.observe(e, got.Status, url)
	}
	return true
}

// getRun reads a run once. It must be known at every coordinator.
func (c *client) getRun(e *trackedRun) (v runView, ok bool) {
	url := c.url()
	a := request(c.hardCtx, url, "GET", "/runs/"+e.run, nil, "", 4*time.Second)
	return v, c.checkRun(e, a, url, &v)
}

func (c *client) checkRun(e *trackedRun, a answer, url string, v *runView) bool {
	switch {
	case a.unavailable():
		c.at++
		return false
	case c.mayBeLost(a):
		return false
	case a.code != http.StatusOK && a.code != http.StatusAccepted || a.decode(v) != nil || v.ID != e.run:
		c.addViolation([]string{e.run}, "GET run %s at %s, answered before (%s): %d %.300s", e.run, url, e.kind, a.code,
			a.body)
		return false
	}
	c.observe(e, v.Status, url)
	return true
}

// wait waits until a run ends, for at most d.
func (c *client) wait(e *trackedRun, d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end) && c.hardCtx.Err() == nil && c.loadCtx.Err() == nil; {
		var v runView
		url := c.url()
		a := request(c.loadCtx, url, "GET", "/runs/"+e.run+"/wait?timeout_seconds=2", nil, "", 5*time.Second)
		if c.loadCtx.Err() != nil {
			return false
		}
		if !c.checkRun(e, a, url, &v) {
			c.backOff()
		} else if isFinal(v.Status) {
			return true
		}
	}
	return false
}

// track limits the client's open runs: it waits for the oldest.
func (c *client) track(e *trackedRun) {
	c.open = append(c.open, e)
	for len(c.open) > maxOpen && c.loadCtx.Err() == nil {
		c.wait(c.open[0], 30*time.Second) // the verifier checks whether it ends
		c.open = c.open[1:]
	}
}

// mayBeLost reports whether an unknown run may have been cut off.
func (c *client) mayBeLost(a answer) bool { return c.torn && a.code == http.StatusNotFound }

// stopRun stops a run and repeats the request until it is answered.
func (c *client) stopRun(e *trackedRun) {
	c.mu.Lock()
	e.stop = true
	c.mu.Unlock()
	for c.hardCtx.Err() == nil {
		url := c.url()
		a := request(c.hardCtx, url, "POST", "/runs/"+e.run+"/stop", nil, "", 6*time.Second)
		switch {
		case a.unavailable():
			c.at++
			c.backOff()
			continue
		case c.mayBeLost(a):
		case a.code == http.StatusConflict && bytes.Contains(a.body, []byte("has ended already")):
		case a.code == http.StatusOK || a.code == http.StatusAccepted:
			var v runView
			if a.decode(&v) == nil && isFinal(v.Status) {
				c.observe(e, v.Status, url)
			}
		default:
			c.addViolation([]string{e.run}, "POST stop (%s, %s): %d %.300s", e.kind, url, a.code, a.body)
		}
		return
	}
}
