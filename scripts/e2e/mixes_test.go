package e2e

import (
	"fmt"
	"strings"
	"testing"

	"ao/nats/natstest"
)

// TestOldAndNew mixes programs of an older release with current ones: two coordinators and two workers are replaced
// one by one under load. Each kind of work completes in every mix and is running at every replacement.
// (*workload).verify checks that nothing is lost, fails or starts twice.
func TestOldAndNew(t *testing.T) {
	t.Parallel()
	withOld(t)
	for _, story := range []struct{ name, mixes string }{
		{"upgrade as documented, coordinators, then workers; back again, workers, then coordinators", `
			coordinators  workers
			old old       old old
			new old       old old
			new new       new old
			new new       new new
			new new       old old
			new old       old old
			old old       old old`},
		{"upgrade the other way round, workers, then coordinators; back again, coordinators, then workers", `
			coordinators  workers
			old old       old old
			old old       new old
			old new       new new
			new new       new new
			old new       new new
			old old       new new
			old old       old new`},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			rows := mixes(story.mixes)
			d := deploy(t, rows[0])
			c := d.call()
			for _, mix := range rows {
				d.replace(mix)
				c.everyKind(t)
			}
			c.verify(t)
		})
	}
}

// placeCount is the number of programs: two coordinators, two workers.
const placeCount = 4

// versionMix is the version of each program.
type versionMix [placeCount]string

// mixes parses the rows of a table below its header.
func mixes(table string) (rows []versionMix) {
	for line := range strings.Lines(strings.TrimSpace(table)) {
		var m versionMix
		for i, word := range strings.Fields(line) {
			switch word {
			case "old":
				m[i] = old
			case "new":
				m[i] = today
			default:
				m = versionMix{"head"}
			}
		}
		if m[0] != "head" {
			rows = append(rows, m)
		}
	}
	return rows
}

// deployment is a stack whose programs can be replaced.
type deployment struct {
	*stack
	now   versionMix
	place [placeCount]*program
	doors []*stack // the coordinators, as callers reach them
}

// hostBound is an executor whose sessions exist only on their host. A resume reports whether it runs there.
const hostBound = startNote + `case $(cat) in
*'"executor_session_id":"home-'"$AGENT_SESSION_ID"'"'*) echo '{"type":"result","result_text":"at home"}';;
*) echo '{"type":"bind","executor_session_id":"home-'"$AGENT_SESSION_ID"'"}'; echo '{"type":"result",` +
	`"result_text":"moved in"}';;
esac
`

// deploy starts all programs of a mix and creates the agents.
func deploy(t *testing.T, first versionMix) *deployment {
	t.Helper()
	p := natstest.Proc(t)
	s := prepare(t, p.URL(), "RUN_LEASE=15s") // no stall of this machine is a worker's end
	s.nats, s.allServers = p, p
	d := &deployment{stack: s, now: first}
	s.agent("plain", startNote+`printf '%s' "$2"`, "")
	s.agent("slow", startNote+`sleep 0.7; echo '{"slow":true}'`, "")
	s.agent("counted", startNote+`printf '{"issues":["%s"],"summary":"counted"}' "$2"`, `"output_schema":`+findings)
	s.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec","max_concurrent_runs":8}`)
	s.write("profiles/home", "#!/bin/sh\n"+hostBound)
	s.write("profiles/home.json", `{"type":"autonomous","command":"./home","max_concurrent_runs":8}`)
	for i := range 2 {
		s.version = first[i]
		d.doors = append(d.doors, s.another(fmt.Sprintf("AO_DATA_DIR=%s/data-%d", s.dir, i)))
		d.place[i] = d.doors[i].coordinator
	}
	s.url = d.doors[0].url
	for i, host := range []string{"one", "two"} {
		d.place[2+i] = launch(t, first[2+i]+"worker", s.dir, append(append([]string{}, s.env...), "AO_HOSTNAME="+
			host, "AO_PROFILES=test,mind,home"))
	}
	d.waitComplete()
	for _, a := range []string{`{"name":"talker","executor_profile":"mind"}`,
		`{"name":"scanner","executor_profile":"mind","output_schema":` + findings + `}`,
		`{"name":"homely","executor_profile":"home"}`} {
		s.has(s.post("/agents", a), 201)
	}
	return d
}

// waitComplete waits until both coordinators are ready and know all runners.
func (d *deployment) waitComplete() {
	d.t.Helper()
	for _, door := range d.doors {
		door.ready()
		door.until("all runners are online",
			func() bool { return strings.Count(door.get("/runners").text, `"status":"online"`) == 6 })
	}
}

// replace stops the programs that have another version in the next mix, one after the other, and starts that version.
func (d *deployment) replace(next versionMix) {
	d.t.Helper()
	for i, p := range d.place {
		if next[i] == d.now[i] {
			continue
		}
		p.stop()
		p.name = next[i] + p.name[len(d.now[i]):]
		p.start()
		d.waitComplete()
	}
	d.now = next
}
