package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// texts returns the messages of a session from a coordinator.
func (s *stack) texts(session string) (all []string) {
	s.t.Helper()
	r := s.get("/sessions/" + session + "/events?limit=1000")
	var list struct{ Events []run.Event }
	if err := json.Unmarshal([]byte(r.text), &list); err != nil {
		s.t.Fatalf("events of %s: got %d %.500s, %v; want a list", session, r.code, r.text, err)
	}
	for _, e := range list.Events {
		var m run.Message
		if e.Type == run.EventMessage && json.Unmarshal(e.Body, &m) == nil {
			all = append(all, m.Content[0].Text)
		}
	}
	return all
}

// countPacks returns how many messages a session has in EVENTS, and how many of them are packs.
func countPacks(t *testing.T, b *bus.Bus, session string) (messages, packed int) {
	t.Helper()
	all, err := b.Events(t.Context(), subject.SessionEvents(session), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if strings.HasSuffix(m.Subject, "."+run.PackKind) {
			packed++
		}
	}
	return len(all), packed
}

// TestPacksBesideAnOlderCoordinator: while a coordinator is running that cannot read packs, a worker sends single
// events, and readers of both see all of them. Without it events are packed. A killed worker loses no stored event.
func TestPacksBesideAnOlderCoordinator(t *testing.T) {
	t.Parallel()
	withOld(t)
	const lines = 200
	s := up(t, "RUNNER_HEARTBEAT_INTERVAL=1s", "RUNNER_STALE_THRESHOLD=2s", "RUNNER_REMOVE_THRESHOLD=3s")
	b := s.nats.Bus(t)
	line := `echo '{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"line ` +
		`'$i'"}]}'; i=$((i+1))`
	program := func(name, does string) {
		s.write("profiles/"+name, "#!/bin/sh\ncat > /dev/null; i=0; "+does+"\n")
		s.write("profiles/"+name+".json", `{"type":"autonomous","command":"./`+name+`"}`)
		s.has(s.post("/agents", fmt.Sprintf(`{"name":"%ss","executor_profile":%[1]q}`, name)), 201)
	}
	program("talk", fmt.Sprintf(`while [ $i -lt %d ]; do %s; done; echo '{"type":"result","result_text":"well"}'`,
		lines, line))
	program("tick", `while :; do `+line+`; [ $((i%25)) != 0 ] || sleep 0.02; done`)
	var want []string
	for n := range lines {
		want = append(want, fmt.Sprintf("line %d", n))
	}
	beside := *s
	beside.version = old
	second := beside.another("AO_DATA_DIR=" + filepath.Join(s.dir, "data-of-the-older"))
	w := s.worker("AO_PROFILES=talk,tick")
	online := func(at *stack) {
		at.until("both runners are online",
			func() bool { return strings.Count(at.get("/runners").text, `"status":"online"`) == 2 })
	}
	online(second)
	talk := func(doors ...*stack) (packed int) {
		t.Helper()
		r := doors[0].sync("talks", promptParams("talk"))
		session := r.at("session_id")
		messages, packed := countPacks(t, b, session)
		if packed == 0 && messages != lines || packed > 0 && messages >= lines {
			t.Errorf("%d lines came in %d messages, %d of them packs", lines, messages, packed)
		}
		for _, door := range doors {
			if got := door.texts(session); !slices.Equal(got, want) {
				t.Errorf("%scoordinator, with %d packs: %d lines %.300q", door.version, packed, len(got), got)
			}
			out, errs, code := door.exec(door.version+"ao", "", nil, "events", r.at("run_id"))
			if count := strings.Count(out, "line "); code != 0 || count != lines {
				t.Errorf("%sao events: %d lines, %d %s", door.version, count, code, errs)
			}
		}
		return packed
	}
	for range natstest.Load(1, 3) {
		if n := talk(s, second) + talk(second, s); n != 0 {
			t.Errorf("%d packs while an older coordinator is there", n)
		}
	}
	second.coordinator.stop()
	s.until("events are packed", func() bool { return talk(s) > 0 })

	id := s.run(`{"agent_name":"ticks","prompt":"tick"}`)
	session := s.get("/runs/" + id).at("session_id")
	var before []string
	s.until("it ticks", func() bool { before = s.texts(session); return len(before) >= 300 })
	w.kill()
	s.has(s.ended(id), 200, `"error":"runner_disconnected"`)
	after := s.texts(session)
	if len(after) < len(before) {
		t.Errorf("of %d lines that readers had %d are left", len(before), len(after))
	}
	for n, text := range after {
		if text != fmt.Sprintf("line %d", n) {
			t.Fatalf("got %q where line %d is due", text, n)
		}
	}
	if messages, packed := countPacks(t, b, session); packed == 0 {
		t.Errorf("%d lines came in %d messages", len(after), messages)
	}

	w.start()
	online(s)
	second.coordinator.start()
	second.ready()
	online(second)
	s.until("the older one is heard of", func() bool { return talk(s) == 0 })
	if n := talk(s, second) + talk(second, s); n != 0 {
		t.Errorf("%d packs after an older coordinator has come", n)
	}
	s.verifiedByBoth()
}
