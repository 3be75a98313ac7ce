package serve_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/shared/run"
)

// changes are the data of a watched list's item.
type changes struct {
	Runs     []run.Run `json:"runs"`
	Position string    `json:"position"`
}

// watchUntil reads a watched list until all these runs have ended, and gives its last id.
func watchUntil(t *testing.T, next func() (sseEvent, bool), ids map[string]bool) (last string) {
	t.Helper()
	for len(ids) > 0 {
		e, ok := next()
		if !ok {
			t.Fatalf("the stream ended; missing %v", ids)
		}
		var c changes
		if err := json.Unmarshal([]byte(e.data), &c); err != nil || e.name != query.ItemRuns ||
			e.id != c.Position {
			t.Fatalf("%v %v", e, err)
		}
		for _, r := range c.Runs {
			if r.Status.Final() {
				delete(ids, r.ID)
			}
		}
		last = e.id
	}
	return last
}

// Between a list and the stream that starts at its position nothing is missed, whichever of two coordinators answers.
func TestNothingIsMissedBetweenListAndStream(t *testing.T) {
	t.Parallel()
	one := start(t)
	two := one.another()
	one.work(parrot, echo("tool"))
	known := map[string]bool{}
	for i := range 6 {
		from, to := one, two
		if i%2 == 1 {
			from, to = two, one
		}
		accepted := from.post("/runs", `{"agent_name":"tool","mode":"sync"}`)
		done := into[runs.Outcome](accepted, 200)
		list := to.get("/runs?limit=1000", "Ao-Position: "+accepted.header.Get("Ao-Position"))
		at := list.header.Get("Ao-Position")
		known[done.ID] = true
		shown := map[string]bool{}
		for _, r := range into[query.Page](list, 200).Runs {
			shown[r.ID] = true
		}
		if !shown[done.ID] || len(shown) != len(known) {
			t.Fatalf("a list at %s does not show what was written at %s: %s", at, accepted.header.Get("Ao-Position"),
				list.body)
		}
		missing := map[string]bool{}
		for range 3 { // between the list and the stream
			r := into[runs.Outcome](to.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
			missing[r.ID], known[r.ID] = true, true
		}
		next, hangUp := from.listen("GET", "/sse/runs", "", "Ao-Position: "+at)
		last := watchUntil(t, next, missing)
		hangUp()
		late := into[runs.Outcome](from.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
		known[late.ID] = true
		next, hangUp = to.listen("GET", "/sse/runs", "", "Last-Event-ID: "+last)
		watchUntil(t, next, map[string]bool{late.ID: true})
		hangUp()
	}
}

// Answers from the history carry their position; a reader gets none from before its own.
func TestPositions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	r := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
	written := s.post("/runs", `{"agent_name":"tool"}`)
	for _, path := range []string{"/runs", "/runs/count", "/runs/" + r.ID, "/runs/" + r.ID + "/result", "/sessions",
		"/sessions/" + r.SessionID, "/sessions/" + r.SessionID + "/tree", "/callbacks", "/status"} {
		g := s.get(path, "Ao-Position: "+written.header.Get("Ao-Position"))
		at, err := strconv.Atoi(g.header.Get("Ao-Position"))
		least, _ := strconv.Atoi(written.header.Get("Ao-Position"))
		if g.status != 200 || err != nil || at < least || least == 0 {
			t.Errorf("%s: %d at %q, want at least %d", path, g.status, g.header.Get("Ao-Position"), least)
		}
		if m := s.get(path, "Ao-Position: 999999").want(409); m["error"] != "position_unknown" {
			t.Errorf("%s: %v", path, m)
		}
		if m := s.get(path, "Ao-Position: soon").want(400); m["field"] != "Ao-Position" {
			t.Errorf("%s: %v", path, m)
		}
	}
	events := "/sessions/" + r.SessionID + "/events?after="
	end := into[struct{ Next string }](s.get(events), 200).Next
	if page := into[struct{ Events []run.Event }](s.get(events+end), 200); len(page.Events) > 0 {
		t.Errorf("after the end: got %v, want no event", page.Events)
	}
	recorded, reported, _ := strings.Cut(end, "-")
	for _, beyond := range []string{"999999-" + reported, recorded + "-999999", "999999-0", "0-999999"} {
		if m := s.get(events + beyond).want(409); m["error"] != "position_unknown" || m["field"] != "after" {
			t.Errorf("after %s: got %v, want position_unknown", beyond, m)
		}
	}
	if g := s.get("/agents"); g.header.Get("Ao-Position") != "" {
		t.Error("agents are no part of the history")
	}
}

// Watching a list takes a stream slot, has its filters, and its keep-alives; a foreign position starts over.
func TestAListIsWatched(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"), echo("other"))
	next, hangUp := s.listen("GET", "/sse/runs?agent_name=tool&roots=true", "")
	defer hangUp()
	if e, ok := next(); !ok || e.name != query.ItemInit || e.data != "{}" || e.id == "" {
		t.Fatalf("%v", e)
	}
	other := into[runs.Outcome](s.post("/runs", `{"agent_name":"other","mode":"sync"}`), 200)
	mine := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
	for {
		e, _ := next()
		var c changes
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Runs) != 1 || c.Runs[0].ID == other.ID {
			t.Fatalf("%s", e.data)
		}
		if c.Runs[0].ID == mine.ID && c.Runs[0].Status == run.Completed {
			break
		}
	}
	stale, hangUp2 := s.listen("GET", "/sse/runs", "", "Last-Event-ID: 999999-0")
	defer hangUp2()
	gap, _ := stale()
	if init, _ := stale(); gap.name != query.ItemGap || init.name != query.ItemInit {
		t.Errorf("%v, %v", gap, init)
	}
	if g := s.get("/sse/runs?status=nine"); g.want(400)["field"] != "status" {
		t.Error(g.body)
	}
}

// A row of a watched list is the row of a list: it says why a run waits, too.
func TestAWatchedRowSaysWhyARunWaits(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"nobodys","demands":{"tags":["none"]}}`).want(201)
	next, hangUp := s.listen("GET", "/sse/runs?roots=true", "")
	defer hangUp()
	if e, ok := next(); !ok || e.name != query.ItemInit {
		t.Fatalf("%v", e)
	}
	waits := s.submit(`{"agent_name":"nobodys","prompt":"x"}`)
	e, _ := next()
	type rows struct {
		Runs []json.RawMessage `json:"runs"`
	}
	var c rows
	if err := json.Unmarshal([]byte(e.data), &c); err != nil || len(c.Runs) != 1 {
		t.Fatalf("%s %v", e.data, err)
	}
	list := into[rows](s.get("/runs?roots=true"), 200)
	if row := string(c.Runs[0]); !strings.Contains(row, waits.RunID) ||
		!strings.Contains(row, `"waiting_for":"a runner: none online matches `) || row != string(list.Runs[0]) {
		t.Errorf("the stream has\n%s, the list\n%s", row, list.Runs[0])
	}
}
