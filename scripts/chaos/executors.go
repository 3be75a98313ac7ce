package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// attemptLog is one attempt of a run in the executors' log.
type attemptLog struct {
	starts     int // number of starts
	firstStart int // line of the first start start
	end        int // line of the end; 0: none
}

// executorLog is the executors' log, by run and attempt.
type executorLog map[string]map[int]*attemptLog

// readExecutorLog reads the executors' log.
func (s *stack) readExecutorLog() (executorLog, error) {
	raw, err := os.ReadFile(s.path("begun"))
	if err != nil {
		return nil, err
	}
	all := executorLog{}
	for n, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var attempt int
		if len(f) == 3 {
			attempt, err = strconv.Atoi(f[1])
		}
		if len(f) != 3 || err != nil {
			return nil, fmt.Errorf("line %d of the executors' file is %q", n+1, line)
		}
		if all[f[0]] == nil {
			all[f[0]] = map[int]*attemptLog{}
		}
		t := all[f[0]][attempt]
		if t == nil {
			t = &attemptLog{}
			all[f[0]][attempt] = t
		}
		if f[2] == "end" {
			t.end = n + 1
			continue
		}
		if t.starts++; t.starts == 1 {
			t.firstStart = n + 1
		}
	}
	return all, nil
}

// checkExecutors checks the executors' log: one start per attempt, no more attempts than max_attempts, no unknown runs.
// The turns of a session come one after the other in the order of acceptance, each with the prompt that its caller
// sent.
func (j *verifier) checkExecutors() (err error) {
	j.lines, err = j.s.readExecutorLog()
	if err != nil {
		return err
	}
	most, sessions := map[string]int{}, map[string][]*trackedRun{}
	for _, e := range j.b.accepted() {
		most[e.run] = e.attempts
		if e.turn > 0 {
			sessions[e.session] = append(sessions[e.session], e)
		}
		if e.sum != "" {
			j.checkPrompt(e)
		}
	}
	for id, tries := range j.lines {
		v, ok := j.runs[id]
		if !ok {
			j.b.addViolation([]string{id}, "run %s was begun and is not known", id)
		}
		for n, t := range tries {
			j.r.Attempts++
			if t.starts != 1 {
				j.b.addViolation([]string{id, v.Session}, "attempt %d of run %s was begun %d times", n, id, t.starts)
			}
			if n > max(most[id], 1) || n < 1 {
				j.b.addViolation([]string{id, v.Session}, "run %s was begun in attempt %d of %d", id, n,
					max(most[id], 1))
			}
		}
	}
	for id, v := range j.runs {
		if t := j.lines[id][v.Attempt]; v.Status == "completed" && t == nil {
			j.b.addViolation([]string{id, v.Session}, "run %s completed in attempt %d, which no executor began", id,
				v.Attempt)
		}
	}
	for id, turns := range sessions {
		j.checkOrder(id, turns)
	}
	return nil
}

// checkOrder checks the turns of one session.
func (j *verifier) checkOrder(session string, turns []*trackedRun) {
	slices.SortFunc(turns, func(a, b *trackedRun) int { return a.turn - b.turn })
	last, before := 0, ""
	for _, e := range turns {
		t := j.lines[e.run][1]
		if t == nil {
			continue
		}
		if t.firstStart < last {
			j.b.addViolation([]string{e.run, before, session},
				"turn %d of session %s was begun before an earlier one, %s", e.turn, session, before)
		}
		last, before = t.firstStart, e.run
	}
	type span struct {
		attemptLog
		run string
	}
	var all []span
	for id, v := range j.runs {
		if v.Session != session {
			continue
		}
		for _, t := range j.lines[id] {
			all = append(all, span{*t, id})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.firstStart - b.firstStart })
	for i := 1; i < len(all); i++ {
		// An abandoned attempt may still run for a moment if its worker was cut off.
		if a := all[i-1]; j.runs[a.run].Status == "completed" && (a.end == 0 || a.end > all[i].firstStart) {
			j.b.addViolation([]string{a.run, all[i].run, session},
				"run %s of session %s was begun while %s was under way", all[i].run, session, a.run)
		}
	}
}

// checkPrompt checks the prompt that the executor of a turn got.
func (j *verifier) checkPrompt(e *trackedRun) {
	v := j.runs[e.run]
	if v.Status != "completed" {
		return // it may have been killed before it wrote the prompt
	}
	got, err := j.s.readInvocation(e.run, v.Attempt)
	if err != nil {
		j.b.addViolation([]string{e.run}, "the prompt of the executor of %s: %v", e.run, err)
		return
	}
	if sum := sha256.Sum256([]byte(got.Parameters.Prompt)); hex.EncodeToString(sum[:]) != e.sum {
		j.b.addViolation([]string{e.run}, "the executor of %s got another prompt than its caller sent: %.80q", e.run,
			got.Parameters.Prompt)
	}
	if want := "model-" + e.session; e.turn > 0 && got.Model != want {
		j.b.addViolation([]string{e.run, e.session}, "the resume %s got executor_session_id %q, not %q", e.run,
			got.Model, want)
	}
}

// invocation is the invocation stored by an executor of the autonomous agent.
type invocation struct {
	Model      string `json:"executor_session_id"`
	Parameters struct {
		Prompt string `json:"prompt"`
	} `json:"parameters"`
}

func (s *stack) readInvocation(run string, attempt int) (t invocation, err error) {
	raw, err := os.ReadFile(s.path("prompts", fmt.Sprintf("%s.%d", run, attempt)))
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}

// checkLeftovers checks for left processes, of executors while the workers still run and of the programs after
// shutdown, and checks the logs.
func (j *verifier) checkLeftovers(ctx context.Context) {
	var left []string
	executor := j.s.isExecutor
	if err := waitWithin(ctx, cleanupTimeout, "nothing of an executor is left",
		func() bool { left = processes(executor); return len(left) == 0 }); err != nil {
		j.b.addViolation(nil, "%v: %s", err, strings.Join(left, "; "))
	}
	if err := j.s.shutDown(); err != nil {
		j.b.addViolation(nil, "%v", err)
	}
	ours := func(pid string) bool {
		exe, _ := os.Readlink(filepath.Join("/proc", pid, "exe"))
		return strings.HasPrefix(exe, j.s.path("bin")+"/") || executor(pid)
	}
	if err := waitWithin(ctx, cleanupTimeout, "nothing of the programs is left",
		func() bool { left = processes(ours); return len(left) == 0 }); err != nil {
		j.b.addViolation(nil, "%v: %s", err, strings.Join(left, "; "))
	}
	for _, p := range j.s.all() {
		for _, death := range p.unexpectedExits {
			j.b.addViolation([]string{p.name}, "%s", death)
		}
		j.readLog(p)
	}
}

// isExecutor reports whether a process is an executor of this stack or was started by one.
func (s *stack) isExecutor(pid string) bool {
	env, _ := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	env = append([]byte{0}, env...)
	return bytes.Contains(env, []byte("\x00"+envToken+"="+s.token+"\x00")) &&
		bytes.Contains(env, []byte("\x00AGENT_ORCHESTRATOR_RUN_ID="))
}

// processes returns the processes for which is holds, with their command lines.
func processes(is func(pid string) bool) (found []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || !is(e.Name()) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if i := bytes.LastIndexByte(stat, ')'); i > 0 && bytes.HasPrefix(stat[i:], []byte(") Z")) {
			continue // a zombie
		}
		found = append(found, e.Name()+" "+strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return found
}

// readLog searches a log for races and panics and counts its errors.
func (j *verifier) readLog(p *process) {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		j.b.addViolation([]string{p.name}, "%v", err)
		return
	}
	for line := range strings.Lines(string(raw)) {
		switch {
		case strings.Contains(line, "DATA RACE"), strings.HasPrefix(line, "panic:"),
			strings.HasPrefix(line, "fatal error:"):
			j.b.addViolation([]string{p.name}, "the log of %s has %s", p.name, strings.TrimSpace(line))
		case strings.Contains(line, "level=ERROR"):
			j.r.LogErrors++
		}
	}
}
