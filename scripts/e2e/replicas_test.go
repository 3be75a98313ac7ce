package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/worker"
	"ao/worker/profile"
)

// replica is a worker of a profile whose agents are in a folder of its own.
type replica struct {
	*versions
	dir string // of its agents
}

// replica runs a worker that notices changed agents at once.
func (v *versions) replica(host, project string, slots int, definitions ...func(replica)) replica {
	v.t.Helper()
	r := replica{v, v.t.TempDir()}
	for _, define := range definitions {
		define(r)
	}
	w, err := worker.New(worker.Config{
		Bus: v.bus, Host: host, ProjectDir: project, Log: v.log, ReadAgentsEvery: 20 * time.Millisecond,
		Profile: profile.Profile{Name: "tools", Path: filepath.Join(r.dir, "tools.json"), Type: run.Procedural,
			Command: "ao-procedural-exec", AgentsDir: r.dir, MaxConcurrentRuns: slots},
	})
	if err != nil {
		v.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			v.t.Errorf("the worker of %s ended with %v", host, err)
		}
	})
	v.t.Cleanup(func() { cancel(); wg.Wait() })
	<-w.Ready()
	return r
}

// write writes a file of the replica's folder at once.
func (r replica) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".part", []byte(text), 0o755)
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// define gives agent `tool` its n-th definition: another program, that says n once the file `open` exists.
func (r replica) define(n int) {
	r.t.Helper()
	r.write(fmt.Sprintf("tool/run-%d", n),
		fmt.Sprintf("#!/bin/sh\nwhile [ ! -e open ]; do sleep 0.5; done\necho '{\"n\":%d}'\n", n))
	r.write("tool/agent.json", fmt.Sprintf(`{"name":"tool","command":"./run-%d"}`, n))
}

// finished is a run, with the number that its program printed.
type finished struct {
	ID     string          `json:"run_id"`
	Status run.Status      `json:"status"`
	Error  json.RawMessage `json:"error"`
	Result result          `json:"result"`
}

type result struct {
	Data struct {
		N int `json:"n"`
	} `json:"result_data"`
}

// command waits until all coordinators show the command of an agent.
func (v *versions) command(name, want string, urls ...string) {
	v.t.Helper()
	natstest.Until(v.t, name+" is "+want, func() bool {
		for _, url := range urls {
			if ask[agent.Blueprint](v, "GET", url+"/agents/"+name, "", 200).Command != want {
				return false
			}
		}
		return true
	})
}

// checkedAgainst returns the commands of the definitions with which each run was queued.
func (v *versions) checkedAgainst() map[string]map[string]bool {
	v.t.Helper()
	all := map[string]map[string]bool{}
	for after := uint64(0); ; {
		records, err := v.bus.Records(v.t.Context(), "ao.runs.>", after, 500)
		if err != nil {
			v.t.Fatal(err)
		}
		if len(records) == 0 {
			return all
		}
		after = records[len(records)-1].Seq
		for _, m := range records {
			if rec, err := subject.Parse(m.Subject); err != nil || rec.Kind != subject.QueuedKind {
				continue
			}
			q, err := run.DecodeQueued(m.Body, nil)
			var b agent.Blueprint
			if err == nil {
				err = json.Unmarshal(q.Blueprint, &b)
			}
			if err != nil {
				v.t.Fatal(err)
			}
			if all[q.ID] == nil {
				all[q.ID] = map[string]bool{}
			}
			all[q.ID][b.Command] = true
		}
	}
}

// TestReplicasWhoseAgentChanges: the definition changes 20 times under 400 runs, or 1,000. One of three replicas is
// always late, and a fourth joins with an old definition. None of the runs is refused or remains without a runner. Each
// is accepted with the newest definition and run with that.
func TestReplicasWhoseAgentChanges(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	// Who is removed takes its definitions along, and a slow machine delays heartbeats.
	one, _ := v.patientCoordinator(run.Version, time.Minute)
	two, _ := v.patientCoordinator(run.Version, time.Minute)
	project := t.TempDir()
	nth := func(n int) func(replica) { return func(r replica) { r.define(n) } }
	a, b := v.replica("a", project, 4, nth(1)), v.replica("b", project, 4, nth(1))
	late := v.replica("late", project, 4, nth(1))
	accepted := map[string]int{}
	post := func(n, times int) {
		for i := range times {
			at := []string{one, two}[i%2]
			accepted[ask[finished](v, "POST", at+"/runs", `{"agent_name":"tool"}`, 201).ID] = n
		}
	}
	const changes = 20
	each := natstest.Load(20, 50)
	for n := 1; n <= changes; n++ {
		if n > 1 {
			a.define(n)
			b.define(n)
			late.define(n - 1)
		}
		if n == changes/2 {
			v.replica("fourth", project, 4, nth(2))
		}
		v.command("tool", fmt.Sprintf("./run-%d", n), one, two)
		post(n, each)
	}
	late.define(changes)
	a.define(3) // a roll-back: the others follow
	v.command("tool", "./run-3", one, two)
	post(3, 20)

	if err := os.WriteFile(filepath.Join(project, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for id, n := range accepted {
		r := ask[finished](v, "GET", one+"/runs/"+id+"/wait?timeout_seconds=600", "", 200)
		if r.Status != run.Completed {
			t.Fatalf("run %s is %s: %s", id, r.Status, r.Error)
		}
		r.Result = ask[result](v, "GET", two+"/runs/"+id+"/result", "", 200)
		if r.Result.Data.N != n {
			t.Errorf("run %s was accepted with definition %d and ran %d", id, n, r.Result.Data.N)
		}
	}
	for id, commands := range v.checkedAgainst() {
		if want := fmt.Sprintf("./run-%d", accepted[id]); len(commands) != 1 || !commands[want] {
			t.Errorf("run %s was queued with %v, want %s alone", id, commands, want)
		}
	}
}

// TestAChangedFolderOfARunner: a file that cannot be read leaves the last good definition in place. A new name that
// collides is refused alone. Both are listed as broken. A removed agent goes, and a new one comes.
func TestAChangedFolderOfARunner(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	at, _ := v.coordinator(run.Version)
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := v.replica("a", project, 2, func(r replica) { r.define(1) })
	ask[map[string]any](v, "POST", at+"/agents", `{"name":"taken"}`, 201)
	broken := func(name, reason string) {
		t.Helper()
		natstest.Until(t, name+" is broken", func() bool {
			all := ask[struct{ Agents []agent.BrokenFile }](v, "GET", at+"/agents?status=broken", "", 200).Agents
			for _, one := range all {
				if one.Name == name && strings.Contains(one.Reason, reason) && one.RunnerID != "" && one.Path != "" {
					return true
				}
			}
			return reason == "" && len(all) == 0
		})
	}
	works := func(n int) {
		t.Helper()
		got := ask[finished](v, "POST", at+"/runs", `{"agent_name":"tool","mode":"sync"}`, 200)
		if got.Status != run.Completed || got.Result.Data.N != n {
			t.Errorf("definition %d: %+v", n, got)
		}
	}

	r.write("tool/agent.json", `{"name":"tool","comm`)
	broken("tool", "keeps its last good definition")
	works(1)
	r.write("taken.json", `{"name":"taken","command":"./tool/run-1"}`)
	r.write("more.json", `{"name":"more","command":"./tool/run-1"}`)
	broken("taken", "already registered by the coordinator itself")
	v.command("more", "./tool/run-1", at)
	works(1)
	r.define(2)
	v.command("tool", "./run-2", at)
	works(2)
	for _, name := range []string{"taken.json", "more.json"} {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	broken("", "")
	natstest.Until(t, "the removed agent is gone", func() bool {
		all := ask[struct{ Agents []agent.Blueprint }](v, "GET", at+"/agents", "", 200).Agents
		return len(all) == 2
	})
	works(2)
}

// TestChangedAgentsWithOldPrograms: beside the older release, at either end, changed agents are announced as far as the
// older program allows. Runs are accepted and done throughout.
func TestChangedAgentsWithOldPrograms(t *testing.T) {
	t.Parallel()
	withOld(t)
	define := func(s *stack, n int) {
		s.agent("tool", fmt.Sprintf(`echo '{"n":%d}'`, n), fmt.Sprintf(`"timeout_seconds":%d`, 100+n))
	}
	shows := func(s *stack, n int) {
		s.t.Helper()
		s.until("the definition is shown", func() bool {
			return s.get("/agents/tool").at("timeout_seconds") == fmt.Sprint(100+n)
		})
		s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
	}
	start := func(t *testing.T, coordinator string) *stack {
		s := prepare(t, natstest.Proc(t).URL())
		s.version = coordinator
		define(s, 1)
		s.coordinator = launch(t, coordinator+"coordinator", s.dir, s.env)
		s.ready()
		return s
	}
	worker := func(s *stack, version, host string) *program {
		p := launch(s.t, version+"worker", s.dir, slices.Concat(s.env, []string{"AO_HOSTNAME=" + host,
			"AO_PROFILES=test"}))
		s.online(host)
		return p
	}
	t.Run("an old worker", func(t *testing.T) {
		s := start(t, today)
		first := worker(s, old, "old")
		worker(s, today, "new")
		define(s, 2) // the old one does not look
		shows(s, 2)
		first.stop()
		first.start() // and comes back with what is known
		s.online("old")
		s.has(s.get("/agents/tool"), 200, `"runners":2`)
		shows(s, 2)
	})
	t.Run("an old coordinator", func(t *testing.T) {
		s := start(t, old)
		worker(s, today, "one")
		define(s, 2)
		shows(s, 2)
		two := worker(s, today, "two")
		define(s, 3) // refused while there is a replica, which is refused for the same reason
		two.says(s, "changed agents not announced")
		shows(s, 2)
		two.stop()
		shows(s, 3) // the first one announces it
	})
}
