package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"

	"github.com/nats-io/nats.go"
)

// kinds are the kinds of work in a mixed deployment; n counts the rounds.
var kinds = []struct {
	name  string
	round func(c *workload, n int)
}{
	{"a plain run", func(c *workload, n int) {
		c.waitFor(c.run(`{"agent_name":"plain","parameters":{"n":"%d"}}`, n), fmt.Sprint(n))
	}},
	{"a run that takes a while", func(c *workload, _ int) { c.waitFor(c.run(`{"agent_name":"slow"}`), `"slow":true`) }},
	{"a procedural result that must fit a schema", func(c *workload, n int) {
		c.waitFor(c.run(`{"agent_name":"counted","parameters":{"n":"number %d"}}`, n),
			fmt.Sprintf(`{"issues":["number %d"],"summary":"counted"}`, n), `"valid":true`)
	}},
	{"a model's result that fits its schema at the second try", func(c *workload, n int) {
		c.waitFor(c.run(`{"agent_name":"scanner","parameters":%s}`,
			promptParams(fmt.Sprintf("@json {\"found\":1}\n@next\n@json {\"issues\":[],\"summary\":\"scan %d\"}", n))),
			fmt.Sprintf(`"summary":"scan %d"`, n), `"valid":true`)
	}},
	{"a session that remembers, two turns at a time", func(c *workload, n int) {
		first, second := c.turn("talker", fmt.Sprintf("word %d\n@say noted", n)), c.turn("talker", "@recall")
		c.waitFor(first, "noted")
		c.waitFor(second, fmt.Sprintf("word %d\\n", n), fmt.Sprintf("word %d\\n", max(n-20, 0)))
	}},
	{"a session that lives on its host alone", func(c *workload, n int) {
		c.waitFor(c.turn("homely", "hello"), map[bool]string{true: "moved in", false: "at home"}[n == 0])
	}},
	{"a child that calls its parent back", func(c *workload, n int) {
		parent := c.waitFor(c.run(`{"agent_name":"talker","parameters":%s}`, promptParams("@say I wait")), "I wait").at(
			"session_id")
		child := c.run(`{"agent_name":"talker","mode":"async_callback","parent_session_id":%q,"parameters":%s}`, parent,
			promptParams(fmt.Sprintf("@say from below %d", n)))
		c.waitFor(child, "from below")
		c.until("the parent is called back", func() bool {
			return strings.Contains(c.get("/sessions/"+parent+"/events?limit=1000").text,
				fmt.Sprintf("from below %d", n))
		})
	}},
	{"bodies larger than a message", func(c *workload, n int) {
		large := strings.Repeat("z", 300_000)
		c.waitFor(c.run(`{"agent_name":"talker","parameters":%s}`, promptParams(fmt.Sprintf("@say %d %s", n, large))),
			fmt.Sprintf("%d %s", n, large))
	}},
	{"a run that a publisher left in the inbox", func(c *workload, n int) {
		word := fmt.Sprintf("left-%d", n)
		c.until("the inbox takes it", func() bool {
			_, err := c.nc.Request(subject.InboxRuns, []byte(`{"agent_name":"plain","parameters":{"word":"`+word+`"}}`),
				10*time.Second)
			return err == nil
		})
		c.until("it is done", func() bool {
			return strings.Contains(c.get("/runs?agent_name=plain&status=completed&limit=50").text, `"`+word+`"`)
		})
	}},
}

// workload runs callers for every kind of work until verify. Its methods are safe for concurrent use.
type workload struct {
	t     testing.TB
	d     *deployment
	nc    *nats.Conn
	stop  chan struct{}
	wg    sync.WaitGroup
	round []atomic.Int64 // of each kind, how many are done
	next  atomic.Int64   // coordinator to ask

	mu       sync.Mutex
	sessions map[string]string // of agents whose runs are turns of one session
	accepted []string          // every run that a caller was promised
}

// call starts all kinds of work.
func (d *deployment) call() *workload {
	nc, err := nats.Connect(d.nats.URL())
	if err != nil {
		d.t.Fatal(err)
	}
	c := &workload{t: d.t, d: d, nc: nc, stop: make(chan struct{}), round: make([]atomic.Int64, len(kinds)),
		sessions: map[string]string{}}
	d.t.Cleanup(func() { c.end(); nc.Close() })
	for i, kind := range kinds {
		c.wg.Go(func() {
			for n := 0; c.checkProgress(); n++ {
				kind.round(c, n)
				c.round[i].Add(1)
				select {
				case <-c.stop:
				case <-time.After(800 * time.Millisecond): // a pace that leaves room for the other tests
				}
			}
		})
	}
	return c
}

func (c *workload) checkProgress() bool {
	select {
	case <-c.stop:
		return false
	default:
		return !c.t.Failed()
	}
}

func (c *workload) end() {
	if c.checkProgress() || c.t.Failed() {
		select {
		case <-c.stop:
		default:
			close(c.stop)
		}
	}
	c.wg.Wait()
}

// everyKind waits until each kind of work was started and completed once more.
func (c *workload) everyKind(t *testing.T) {
	t.Helper()
	want := make([]int64, len(kinds)) // of all kinds at once: one after the other it would take as long as all of them
	for i := range kinds {
		want[i] = c.round[i].Load() + 2 // the first may have been under way
	}
	for i, kind := range kinds {
		if !natstest.Poll(time.Minute, func() bool { return c.round[i].Load() >= want[i] || t.Failed() }) {
			t.Fatalf("%s: %d rounds after a minute, want %d", kind.name, c.round[i].Load(), want[i])
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// get reads from one coordinator after the other until one answers.
func (c *workload) get(path string) (r reply) {
	if !natstest.Poll(time.Minute, func() bool {
		r = c.d.doors[int(c.next.Add(1))%len(c.d.doors)].once("GET", path, "")
		return r.err == nil && r.code != 503
	}) {
		c.t.Errorf("GET %s was not answered within a minute: %d %s", path, r.code, r.text)
	}
	return r
}

func (c *workload) until(what string, ok func() bool) {
	if !natstest.Poll(time.Minute, func() bool { return c.t.Failed() || ok() }) {
		c.t.Errorf("not within a minute: %s", what)
	}
}

// run starts a run and records it.
func (c *workload) run(format string, values ...any) string {
	body := fmt.Sprintf(format, values...)
	doors := slices.Clone(c.d.doors)
	if c.next.Add(1)%2 == 0 {
		slices.Reverse(doors)
	}
	id := createRun(c.t, fmt.Sprintf("key-%d", c.next.Add(1)), body, doors...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = append(c.accepted, id)
	return id
}

// turn starts another run of the agent's session.
func (c *workload) turn(agent, text string) string {
	c.mu.Lock()
	session := c.sessions[agent]
	c.mu.Unlock()
	if session != "" {
		return c.run(`{"type":"resume_session","session_id":%q,"parameters":%s}`, session, promptParams(text))
	}
	id := c.run(`{"agent_name":%q,"parameters":%s}`, agent, promptParams(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[agent] = c.get("/runs/" + id).at("session_id")
	return id
}

// waitFor waits until a run has completed with these parts in its result.
func (c *workload) waitFor(id string, parts ...string) (r reply) {
	if id == "" {
		return r // reported already
	}
	c.until("run "+id+" has ended", func() bool {
		r = c.get("/runs/" + id)
		return run.Status(r.at("status")).Final()
	})
	if r.at("status") != "completed" {
		c.t.Errorf("run %s: %d %.2000s", id, r.code, r.text)
		return r
	}
	result := c.get("/runs/" + id + "/result").text
	for _, part := range parts {
		if !strings.Contains(result, part) {
			c.t.Errorf("run %s: got %.1000s, without %.200s", id, result, part)
		}
	}
	return r
}

// verify stops the work and checks all of it: in the stream and in the programs' logs of starts. Coordinators and 'ao
// verify' of both versions must agree.
func (c *workload) verify(t *testing.T) {
	t.Helper()
	c.end()
	s := c.d.doors[0]
	s.until("all runs have ended", func() bool {
		return !slices.ContainsFunc([]string{"pending", "claimed", "running", "stopping"}, func(status string) bool {
			return s.get("/runs?status="+status).at("runs.0.run_id") != ""
		})
	})
	records := c.records()
	for _, id := range c.accepted {
		if records[id] == nil {
			t.Errorf("run %s was accepted and is not in the stream", id)
		}
	}
	for id, r := range records {
		if r.claimed != 1 || !slices.Equal(r.ended, []string{"completed"}) {
			t.Errorf("run %s was claimed %d times and ended %v", id, r.claimed, r.ended)
		}
	}
	for id, n := range s.starts() {
		if n != 1 {
			t.Errorf("run %s was started %d times", id, n)
		}
	}
	for _, version := range []string{old, today} {
		judge := *c.d.stack
		judge.version = version
		judge = *judge.another()
		for _, id := range c.accepted {
			if r := judge.get("/runs/" + id); r.at("status") != "completed" {
				t.Errorf("to %scoordinator run %s is %d %s", version, id, r.code, r.text)
			}
		}
		judge.verifiedByBoth()
		judge.coordinator.stop()
	}
	t.Logf("%d runs, %d of them accepted over HTTP", len(records), len(c.accepted))
}

// history are the records of a run in the stream.
type history struct {
	claimed int
	ended   []string // with which status
}

// records reads the stream.
func (c *workload) records() map[string]*history {
	c.t.Helper()
	js, err := c.nc.JetStream()
	if err != nil {
		c.t.Fatal(err)
	}
	info, err := js.StreamInfo(subject.Runs)
	if err != nil {
		c.t.Fatal(err)
	}
	sub, err := js.SubscribeSync(subject.AllRuns, nats.OrderedConsumer())
	if err != nil {
		c.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	all := map[string]*history{}
	for seq := uint64(0); seq < info.State.LastSeq; {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			c.t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			c.t.Fatal(err)
		}
		seq = meta.Sequence.Stream
		at := strings.Split(m.Subject, ".") // ao runs PARTITION KIND …
		of := func(id string) *history {
			if all[id] == nil {
				all[id] = &history{}
			}
			return all[id]
		}
		switch at[3] {
		case "accepted":
			of(at[5])
		case "queued":
			of(at[7])
		case "claimed":
			of(at[4]).claimed++
		case "ended":
			var end struct{ Status string }
			if err := json.Unmarshal(m.Data, &end); err != nil {
				c.t.Fatal(err)
			}
			of(at[4]).ended = append(of(at[4]).ended, end.Status)
		}
	}
	return all
}
