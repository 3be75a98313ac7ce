package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// runJobs is the loop of a client of procedural agents.
func (c *client) runJobs() {
	for c.pause(10*time.Millisecond, 120*time.Millisecond) {
		switch n := c.rng.IntN(100); {
		case n < 25:
			c.post(c.newRun("quick", "sync", `"agent_name":"quick","wait_seconds":10`))
		case n < 100:
			if e, stop := c.newJob(n, "async_poll", ""); c.post(e) {
				c.finish(e, stop)
			}
		}
	}
}

// finish stops a run after a moment if it must be stopped, and tracks it.
func (c *client) finish(e *trackedRun, stop bool) {
	if stop && c.rng.IntN(5) < 3 {
		c.pause(time.Millisecond, 1500*time.Millisecond)
	}
	if stop {
		c.stopRun(e)
	}
	c.track(e)
}

// newJob returns a procedural run of a kind chosen by n, from 25 to 99.
func (c *client) newJob(n int, mode, more string) (e *trackedRun, stop bool) {
	switch {
	case n < 48:
		e = c.newRun("quick", mode, `"agent_name":"quick"`+more)
	case n < 62:
		e = c.newRun("slow", mode, `"agent_name":"slow","parameters":{"seconds":%.2f}`+more, 0.2+1.8*c.rng.Float64())
	case n < 68:
		e = c.newRun("big", mode, `"agent_name":"big"`+more)
	case n < 75:
		e = c.newRun("fails", mode, `"agent_name":"fails"`+more)
	case n < 85:
		e, stop = c.newRun("hang", mode, `"agent_name":"hang","timeout_seconds":%d`+more, c.hangTimeout()), true
	case n < 88:
		e = c.newRun("timeout", mode, `"agent_name":"hang","timeout_seconds":%d`+more, 1+c.rng.IntN(4))
	case n < 93:
		e = c.newWeigh(mode, more)
	default:
		most := 2 + c.rng.IntN(2)
		e = c.newRun("flaky", mode, `"agent_name":"flaky","parameters":{"until":%d},"max_attempts":%d`+more, 1+
			c.rng.IntN(3), most)
		e.attempts = most
		stop = c.rng.IntN(5) == 0
	}
	return e, stop
}

// hangTimeout returns the timeout of runs that will be stopped. A torn history may have lost the stop.
func (c *client) hangTimeout() int {
	if c.torn {
		return 10
	}
	return 40
}

// newWeigh returns a run with large parameters, in pieces: a command-line argument is limited to 128 KiB.
func (c *client) newWeigh(mode, more string) *trackedRun {
	var params strings.Builder
	pieces, size := 3+c.rng.IntN(12), 100<<10
	total := 0
	for i := range pieces {
		key, value := fmt.Sprintf("p%d", i), strings.Repeat(string(rune('a'+c.rng.IntN(26))), size+c.rng.IntN(1000))
		if i > 0 {
			params.WriteByte(',')
		}
		fmt.Fprintf(&params, `%q:%q`, key, value)
		total += len("--"+key) + len(value)
	}
	e := c.newRun("weigh", mode, `"agent_name":"weigh","parameters":{%s}`+more, params.String())
	e.bytes = total
	return e
}

// newTurn returns a turn of the autonomous agent: a start if session is empty, else a resume.
func (c *client) newTurn(kind, mode, session, prompt, more string) *trackedRun {
	quoted, err := json.Marshal(prompt)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(prompt))
	var e *trackedRun
	if session == "" {
		e = c.newRun(kind, mode, `"agent_name":"talker","parameters":{"prompt":%s}`+more, quoted)
	} else {
		e = c.newRun(kind, mode, `"type":"resume_session","session_id":%q,"parameters":{"prompt":%s}`+more, session,
			quoted)
		e.session = session
	}
	e.sum = hex.EncodeToString(sum[:])
	return e
}

// runSessions is the loop of a client of sessions: one session at a time, with turns and children that call back.
func (c *client) runSessions() {
	for c.pause(10*time.Millisecond, 200*time.Millisecond) {
		first := c.newTurn("talk", "async_poll", "", "hello", "")
		if !c.post(first) || !c.wait(first, 20*time.Second) || c.outcome(first) != "completed" {
			continue
		}
		turns := 0
		for range 4 + c.rng.IntN(10) {
			if !c.pause(10*time.Millisecond, 300*time.Millisecond) {
				return
			}
			switch n := c.rng.IntN(100); {
			case n < 45:
				c.startChild(first.session)
			case n < 70:
				for range 1 + c.rng.IntN(3) {
					turns++
					c.sendTurn(first.session, turns)
				}
			default:
				turns++
				c.sendTurn(first.session, turns)
			}
		}
	}
}

// sendTurn runs one further turn of a session.
func (c *client) sendTurn(session string, n int) {
	kind, prompt, mode := "talk", fmt.Sprintf("turn %d", n), "async_poll"
	stop := false
	switch k := c.rng.IntN(100); {
	case k < 20:
		mode = "sync"
	case k < 45:
		prompt = "do=slow " + prompt
	case k < 52:
		kind, prompt = "talk fails", "do=fail "+prompt
	case k < 60:
		kind, prompt, stop = "talk hangs", "do=hang "+prompt, true
	case k < 66:
		prompt += strings.Repeat(" much", (60<<10)+c.rng.IntN(350<<10))
	}
	more := ""
	if mode == "sync" {
		more = `,"wait_seconds":8`
	} else if kind == "talk hangs" {
		more = fmt.Sprintf(`,"timeout_seconds":%d`, c.hangTimeout())
	}
	e := c.newTurn(kind, mode, session, prompt, more)
	e.turn = n
	if c.post(e) && mode != "sync" {
		c.finish(e, stop)
	}
}

// startChild starts a run that calls its parent session back, sometimes with its own child.
func (c *client) startChild(parent string) {
	more := fmt.Sprintf(`,"parent_session_id":%q`, parent)
	if c.rng.IntN(4) > 0 {
		e, stop := c.newJob(25+c.rng.IntN(75), "async_callback", more)
		if c.post(e) {
			c.finish(e, stop)
		}
		return
	}
	middle := c.newTurn("talk", "async_callback", "", "do=slow child", more)
	if !c.post(middle) || c.rng.IntN(2) == 0 || !c.wait(middle, 20*time.Second) || c.outcome(middle) != "completed" {
		return
	}
	e := c.newRun("quick", "async_callback", `"agent_name":"quick","parent_session_id":%q`, middle.session)
	if c.post(e) {
		c.track(e)
	}
}
