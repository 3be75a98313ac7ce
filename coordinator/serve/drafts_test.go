package serve_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/drafts"
	"ao/coordinator/serve"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
)

// TestDrafts: text that is no JSON yet is kept beside an agent, on every coordinator, and is no part of it.
func TestDrafts(t *testing.T) {
	t.Parallel()
	f := folder(t)
	f.write("poet/agent.json", `{"name":"poet"}`)
	s := secure(t, f.writable)
	other := s.another(f.writable, func(c *serve.Config) { c.APITokens = s.file })
	s.post("/agents", `{"name":"x","output_schema":{"type":"object"}}`, s.admin).want(201)
	s.work(nil, agent.Blueprint{Name: "theirs", Type: run.Procedural, Command: "./x", Status: agent.Active})
	const path, broken = "/agents/x/drafts/input", "{\n  \"10\": 9223372036854775807, \"2\": 0.10,\n  \"a\": <not " +
		"yet>\u2028…"
	do := func(method, path, body string, headers ...string) got {
		t.Helper()
		return s.call(method, path, body, append(headers, s.admin)...)
	}
	before := do("GET", "/agents/x", "")
	literal(t, do("GET", path, ""), 404, `{"error":"not_found","message":"Agent \"x\" has no draft of its input `+
		`schema","agent_name":"x"}`)
	first := do("PUT", path, broken, "If-None-Match: *", "Content-Type: text/plain")
	if first.status != 204 || first.body != "" || first.header.Get("ETag") == "" {
		t.Errorf("%d %s", first.status, first.body)
	}
	for _, at := range []*stack{s.stack, other} {
		g := at.call("GET", path, "", s.admin)
		if g.status != 200 || g.body != broken || g.header.Get("ETag") != first.header.Get("ETag") ||
			g.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%d %q %v", g.status, g.body, g.header)
		}
	}
	m := do("PUT", path, "late", "If-None-Match: *").want(412)
	if m["error"] != "precondition_failed" || m["current"] != broken || m["etag"] != first.header.Get("ETag") {
		t.Errorf("%v", m)
	}
	second := other.call("PUT", path, "", "If-Match: "+first.header.Get("ETag"), s.admin)
	if g := do("GET", path, ""); second.status != 204 || g.status != 200 || g.body != "" {
		t.Errorf("%d, then %d %q", second.status, g.status, g.body)
	}
	do("PUT", path, "late", "If-Match: "+first.header.Get("ETag")).want(412)
	do("DELETE", path, "", "If-Match: "+first.header.Get("ETag")).want(412)
	do("PUT", "/agents/x/drafts/output", "x", "If-Match: *").want(412)
	do("PUT", "/agents/x/drafts/output", "x").want(204)

	// It is no part of the agent.
	after := do("GET", "/agents/x", "")
	if after.header.Get("ETag") != before.header.Get("ETag") ||
		strings.Replace(after.body, `,"drafts":["input","output"]`, "", 1) != before.body || after.body == before.body {
		t.Errorf("before %s, after %s", before.body, after.body)
	}
	if list := do("GET", "/agents", "").body; !strings.Contains(list, `"drafts":["input","output"]`) ||
		strings.Count(list, `"drafts"`) != 1 || !strings.Contains(list, `"output_schema":{"type":"object"}`) {
		t.Errorf("%s", list)
	}
	for _, path := range []string{"/agents", "/agents/x"} {
		if g := s.get(path, s.run); strings.Contains(g.body, "drafts") {
			t.Errorf("below admin %s tells %s", path, g.body)
		}
	}
	s.call("GET", path, "", s.run).want(403)

	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/agents/none/drafts/input", "", 404}, {"PUT", "/agents/none/drafts/input", "x", 404},
		{"DELETE", "/agents/x/drafts/third", "", 404}, {"PUT", "/agents/a%20b/drafts/input", "x", 400},
		{"PUT", path, strings.Repeat("x", drafts.MaxText+1), 413}, {"PUT", path, strings.Repeat("x", drafts.MaxText),
			204}, {"PUT", path, "\xff", 400}, {"PUT", "/agents/theirs/drafts/input", "x", 409},
		{"PUT", "/agents/poet/drafts/input", "{", 204}, {"DELETE", path, "", 204}, {"DELETE", path, "", 404},
	} {
		if g := do(tt.method, tt.path, tt.body); g.status != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, g.status, g.body, tt.status)
		}
	}

	// It goes with its agent.
	do("DELETE", "/agents/x", "").want(204)
	do("GET", "/agents/x/drafts/output", "").want(404)
	do("DELETE", "/agents/poet", "").want(204)
	do("GET", "/agents/poet/drafts/input", "").want(404)
	if keys, _, err := s.bus.Bucket(subject.Drafts).Keys(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("left are %v %v", keys, err)
	}
}

// TestDraftsOfDeletedAgents: ten minutes after somebody removed an agent's file by hand, the agent's drafts are
// deleted. They stay if the file is back by then or only broken.
func TestDraftsOfDeletedAgents(t *testing.T) {
	t.Parallel()
	f := folder(t)
	f.write("gone/agent.json", `{"name":"gone"}`)
	f.write("back/agent.json", `{"name":"back"}`)
	f.write("torn/agent.json", `{"name":"torn"}`)
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{AgentsDirs: []string{f.dir}, AgentsWritable: true})
	names := []string{"gone", "back", "torn"}
	for _, name := range names {
		if _, err := c.Drafts.Put(t.Context(), name, "input", []byte("{"), nil); err != nil {
			t.Fatal(err)
		}
	}
	os.RemoveAll(f.path("gone"))
	os.RemoveAll(f.path("back"))
	f.write("torn/agent.json", `{"name":`)
	natstest.Until(t, "the files are read", func() bool {
		return !c.Agents.Exists("gone") && !c.Agents.Exists("back") &&
			c.Agents.Exists("torn")
	})
	at := time.Now()
	c.Drafts.Sweep(t.Context(), at)
	f.write("back/agent.json", `{"name":"back"}`)
	natstest.Until(t, "one is back", func() bool { return c.Agents.Exists("back") })
	c.Drafts.Sweep(t.Context(), at.Add(5*time.Minute))
	has := func(want int) {
		t.Helper()
		if all, err := c.Drafts.Sides(t.Context()); err != nil || len(all) != want {
			t.Errorf("%v %v, want %d", all, err, want)
		}
	}
	has(3)
	c.Drafts.Sweep(t.Context(), at.Add(10*time.Minute))
	has(2)
	if _, err := c.Drafts.Get(t.Context(), "gone", "input"); err == nil {
		t.Error("it is still there")
	}
}
