package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ao/coordinator/audit"
	"ao/coordinator/health"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
)

// files is a folder of agents.
type files struct {
	t   testing.TB
	dir string
}

func folder(t testing.TB) files { return files{t, t.TempDir()} }

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o640); err != nil {
		f.t.Fatal(err)
	}
}

// has compares the text of a file; empty: there is none.
func (f files) has(name, want string) {
	f.t.Helper()
	got, err := os.ReadFile(f.path(name))
	if err != nil && (want != "" || !os.IsNotExist(err)) {
		f.t.Errorf("%s: %v", name, err)
	} else if string(got) != want {
		f.t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

// nothingAside sees to it that no change left a file of its own.
func (f files) nothingAside() {
	f.t.Helper()
	_ = filepath.WalkDir(f.dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, ".ao-") {
			f.t.Errorf("%s was left behind", path)
		}
		return nil
	})
}

func (f files) writable(c *serve.Config) {
	c.Coordinator.AgentsDirs, c.Coordinator.AgentsWritable = []string{f.dir}, true
}

const written = "{\n  \"name\": \"poet\",\n  \"default_output_schema\" : " +
	"{\"properties\":{\"10\":{},\"2\":{\"maximum\":9223372036854775807},\"a\":{\"const\":0.10}}},\n\n  \"tags\": [ " +
	"\"x\" ],\n  \"mcp_servers\": {\"n\": 1e300}\n}\n"

// TestAnAgentsFileIsChanged: what a change names is another text, and every other byte is as it was.
func TestAnAgentsFileIsChanged(t *testing.T) {
	t.Parallel()
	f := folder(t)
	f.write("poet/agent.json", written)
	f.write("poet/agent.system-prompt.md", "Rhyme.\n")
	f.write("flat.json", `{"name":"flat","system_prompt":"old"}`)
	s := start(t, f.writable)
	other := s.another(f.writable)

	first := s.get("/agents/poet")
	m := first.want(200)
	if m["origin"] != "file" || m["path"] != f.path("poet/agent.json") || m["editable"] != true || m["reason"] != nil ||
		first.header.Get("ETag") == "" {
		t.Errorf("%s %s", first.header, first.body)
	}
	if tag := other.get("/agents/poet").header.Get("ETag"); tag != first.header.Get("ETag") {
		t.Errorf("another coordinator has the tag %s, this one %s", tag, first.header.Get("ETag"))
	}
	patch := func(s *stack, name, body string, headers ...string) got {
		t.Helper()
		return s.call("PATCH", "/agents/"+name, body, headers...)
	}

	changed := patch(s, "poet", `{"description":"writes <verses>","default_output_schema":{"properties":{"10":{},`+
		`"2":{"maximum":9223372036854775807},"a":{"const":0.10}}}}`, "If-Match: "+first.header.Get("ETag"))
	changed.want(200)
	f.has("poet/agent.json", strings.Replace(written, "1e300}\n}", "1e300},\n  \"description\": \"writes <verses>\"\n}",
		1))
	f.has("poet/agent.system-prompt.md", "Rhyme.\n")
	if a := into[agent.Blueprint](other.get("/agents/poet"), 200); a.Description != "writes <verses>" {
		t.Errorf("another coordinator has %+v", a)
	}
	if now := s.get("/agents/poet").header.Get("ETag"); now != changed.header.Get("ETag") ||
		now == first.header.Get("ETag") {
		t.Errorf("its tag is %s, answered %s, before %s", now, changed.header.Get("ETag"), first.header.Get("ETag"))
	}

	for tag, want := range map[string]int{changed.header.Get("ETag"): 304, "W/" + changed.header.Get("ETag"): 304,
		"*": 304, `"a", ` + changed.header.Get("ETag"): 304, first.header.Get("ETag"): 200, "a": 400} {
		if g := other.get("/agents/poet", "If-None-Match: "+tag); g.status != want || want == 304 &&
			(g.body != "" || g.header.Get("ETag") != changed.header.Get("ETag")) {
			t.Errorf("If-None-Match: %s: %d %v %s", tag, g.status, g.header, g.body)
		}
	}
	other.get("/agents/nobody", "If-None-Match: *").want(404)

	stale := patch(other, "poet", `{"description":"late"}`, "If-Match: "+first.header.Get("ETag")).want(412)
	if current, _ := stale["current"].(map[string]any); stale["error"] != "precondition_failed" ||
		current["description"] != "writes <verses>" || stale["etag"] != changed.header.Get("ETag") {
		t.Errorf("%v", stale)
	}
	patch(s, "poet", `{}`, "If-Match: W/"+changed.header.Get("ETag")).want(412)
	patch(s, "poet", `{}`, `If-Match: "a", *`).want(200)
	patch(s, "poet", `{}`, `If-Match: a`).want(400)
	patch(s, "poet", `{}`, `If-None-Match: *`).want(412)
	patch(s, "poet", `{}`, "If-None-Match: W/"+s.get("/agents/poet").header.Get("ETag")).want(412)
	patch(s, "poet", `{}`, `If-None-Match: "a"`).want(200)
	s.call("DELETE", "/agents/poet", "", `If-None-Match: *`).want(412)

	patch(s, "poet", `{"output_schema":null,"description":null,"system_prompt":"Say \"no\".\n"}`).want(200)
	f.has("poet/agent.json", "{\n  \"name\": \"poet\",\n\n  \"tags\": [ \"x\" ],\n  \"mcp_servers\": {\"n\": "+
		"1e300}\n}\n")
	f.has("poet/agent.system-prompt.md", "Say \"no\".\n")
	patch(s, "poet", `{"system_prompt":null}`).want(200)
	f.has("poet/agent.system-prompt.md", "")
	patch(s, "poet", `{"system_prompt":"Anew."}`).want(200)
	f.has("poet/agent.system-prompt.md", "Anew.")
	patch(s, "flat", `{"system_prompt":"new"}`).want(200)
	f.has("flat.json", `{"name":"flat","system_prompt":"new"}`)
	if info, err := os.Stat(f.path("poet/agent.json")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}

	if raw := s.call("PATCH", "/agents/flat", `{"mcp_servers":{"10":1e400,"2":0.10}}`); raw.status != 200 ||
		!strings.Contains(raw.body, `"mcp_servers":{"10":1e400,"2":0.10}`) {
		t.Errorf("%d %s", raw.status, raw.body)
	}
	f.has("flat.json", `{"name":"flat","system_prompt":"new","mcp_servers":{"10":1e400,"2":0.10}}`)

	before, _ := os.ReadFile(f.path("poet/agent.json"))
	for body, want := range map[string]int{
		`{"name":"other"}`: 400, `{"type":"procedural","command":"x"}`: 400,
		`{"parameters_schema":{"maximum":1e400}}`: 400, `{"tags":1}`: 400, `{"zz":1}`: 400,
		`{"tags":["a"],"tags":["b"]}`: 400, `[]`: 400, `{"output_schema_name":"none"}`: 404, `{"description":"` +
			strings.Repeat("x", 1<<20) + `"}`: 400,
		`{"origin":"api"}`: 400,
	} {
		patch(s, "poet", body).want(want)
	}
	f.has("poet/agent.json", string(before))

	s.call("DELETE", "/agents/poet", "", "If-Match: "+first.header.Get("ETag")).want(412)
	s.call("DELETE", "/agents/poet", "", "If-Match: "+s.get("/agents/poet").header.Get("ETag")).want(204)
	if _, err := os.Stat(f.path("poet")); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
	s.get("/agents/poet").want(404)
	other.get("/agents/poet").want(404)
	f.write("flat-notes.txt", "mine")
	s.call("DELETE", "/agents/flat", "").want(204)
	f.has("flat-notes.txt", "mine")
	f.nothingAside()
}

// TestReadOnlyAgents: each says why, before and when a change is tried, and stays as it is.
func TestReadOnlyAgents(t *testing.T) {
	t.Parallel()
	f := folder(t)
	f.write(".kept/real/agent.json", `{"name":"linked"}`)
	f.write(".kept/target.json", `{"name":"file-link"}`)
	f.write("readonly/agent.json", `{"name":"readonly"}`)
	f.write("broken/agent.json", `{"name":"broken",`)
	f.write("prompt/agent.json", `{"name":"prompt"}`)
	for _, err := range []error{
		os.Chmod(f.path("readonly/agent.json"), 0o444),
		os.Symlink(".kept/real", f.path("linked")), // as in a volume of a ConfigMap
		os.Symlink(".kept/target.json", f.path("file-link.json")),
		os.Symlink("../.kept/target.json", f.path("prompt/agent.system-prompt.md")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, f.writable)
	s.work(nil, agent.Blueprint{Name: "theirs", Type: run.Procedural, Command: "./x", Status: agent.Active})
	for name, why := range map[string]string{
		"readonly": "is read-only for this coordinator", "linked": "is a symbolic link; change its target",
		"file-link": "is a symbolic link", "prompt": "is a symbolic link", "theirs": "belongs to runner",
	} {
		m := s.get("/agents/" + name).want(200)
		if reason, _ := m["reason"].(string); m["editable"] != false || !strings.Contains(reason, why) {
			t.Errorf("%s: %v", name, m)
		}
		for _, method := range []string{"PATCH", "DELETE"} {
			if m := s.call(method, "/agents/"+name, `{}`).want(409); !strings.Contains(m["message"].(string), why) {
				t.Errorf("%s %s: %v", method, name, m)
			}
		}
	}
	if m := s.call("PATCH", "/agents/broken", `{}`).want(409); !strings.Contains(m["message"].(string), "is broken") {
		t.Errorf("%v", m)
	}
	f.has(".kept/real/agent.json", `{"name":"linked"}`)
	f.has(".kept/target.json", `{"name":"file-link"}`)

	off := start(t, func(c *serve.Config) { c.Coordinator.AgentsDirs = []string{f.dir} })
	m := off.get("/agents/readonly").want(200)
	if m["editable"] != false || !strings.Contains(m["reason"].(string), "AO_AGENTS_WRITABLE is off") {
		t.Errorf("%v", m)
	}
	literal(t, off.call("PATCH", "/agents/readonly", `{}`), 409,
		`{"error":"conflict","message":"Agent \"readonly\" is defined by a file; change the file, or switch `+
			`AO_AGENTS_WRITABLE on","agent_name":"readonly"}`)
	off.post("/agents", `{"name":"stored"}`).want(201)
	if m := off.get("/agents/stored").want(200); m["origin"] != "api" || m["editable"] != true || m["path"] != nil {
		t.Errorf("%v", m)
	}
	f.nothingAside()
}

// TestLinksOutOfTheFolder: who may write to a folder of agents does not learn what only the coordinator may read.
func TestLinksOutOfTheFolder(t *testing.T) {
	t.Parallel()
	f, elsewhere := folder(t), folder(t)
	elsewhere.write("key", "SECRET")
	elsewhere.write("real/agent.json", `{"name":"linked","description":"SECRET"}`)
	f.write("prompt/agent.json", `{"name":"prompt"}`)
	if err := os.Mkdir(f.path("text"), 0o700); err != nil {
		t.Fatal(err)
	}
	for at, target := range map[string]string{"linked": "real", "flat.json": "real/agent.json",
		"text/agent.json": "key", "prompt/agent.system-prompt.md": "key"} {
		if err := os.Symlink(elsewhere.path(target), f.path(at)); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, f.writable)
	all, broken := s.get("/agents"), s.get("/agents?status=broken")
	if strings.Contains(all.body+broken.body, "SECRET") || strings.Count(broken.body, agent.ErrLinkOut.Error()) != 4 {
		t.Errorf("%s\n%s", all.body, broken.body)
	}
}

// TestManyChangeOneFile: several coordinators and an editor write at the same time. No change that was answered with
// 200 is lost, and who reads the file at any moment finds it whole.
func TestManyChangeOneFile(t *testing.T) {
	t.Parallel()
	f := folder(t)
	f.write("poet/agent.json", `{"name":"poet","tags":[]}`)
	s := start(t, f.writable)
	stacks := []*stack{s, s.another(f.writable)}
	var all sync.WaitGroup
	ended := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			if _, _, err := agent.Load(f.dir, run.Autonomous, nil); err != nil {
				t.Error(err)
			}
			if good, broken, _ := agent.Load(f.dir, run.Autonomous, nil); len(good) != 1 || len(broken) > 0 {
				t.Errorf("%v %v", good, broken)
			}
		}
	})
	const each = 10
	var writers sync.WaitGroup
	for i, one := range stacks {
		for w := range 2 {
			writers.Go(func() {
				for n := range each {
					natstest.Until(t, "it is changed", func() bool {
						at := one.get("/agents/poet")
						tags := into[agent.Blueprint](at, 200).Tags
						next := `["` + strings.Join(append(tags, string(rune('a'+10*i+5*w))+string(rune('0'+n))),
							`","`) + `"]`
						answer := one.call("PATCH", "/agents/poet", `{"tags":`+next+`}`, "If-Match: "+
							at.header.Get("ETag"))
						if answer.status != 200 && answer.status != 412 {
							t.Errorf("%d %s", answer.status, answer.body)
						}
						return answer.status == 200
					})
				}
			})
		}
	}
	writers.Wait()
	close(ended)
	all.Wait()
	if tags := into[agent.Blueprint](s.get("/agents/poet"), 200).Tags; len(tags) != 4*each {
		t.Errorf("%d tags are left of %d: %v", len(tags), 4*each, tags)
	}
	f.nothingAside()
}

// TestAStoredAgentHasATag: PATCH and DELETE of agents of the API honour If-Match, and keep digits and order.
func TestAStoredAgentHasATag(t *testing.T) {
	t.Parallel()
	s := start(t)
	const schema = `{"properties":{"10":{"maximum":9223372036854775807},"2":{"const":0.10},"a":{"pattern":"<b>&"}}}`
	made := s.post("/agents", `{"name":"x","parameters_schema":`+schema+`}`)
	made.want(201)
	if shown := s.get("/agents/x"); !strings.Contains(shown.body, `"parameters_schema":`+schema) ||
		shown.header.Get("ETag") != made.header.Get("ETag") {
		t.Errorf("%s %s", made.header.Get("ETag"), shown.body)
	}
	next := s.call("PATCH", "/agents/x", `{"description":"d"}`, "If-Match: "+made.header.Get("ETag"))
	next.want(200)
	s.call("PATCH", "/agents/x", `{"description":"e"}`, "If-Match: "+made.header.Get("ETag")).want(412)
	s.call("DELETE", "/agents/x", "", "If-Match: "+made.header.Get("ETag")).want(412)
	if shown := s.get("/agents/x"); !strings.Contains(shown.body, `"parameters_schema":`+schema) ||
		!strings.Contains(shown.body, `"description":"d"`) {
		t.Errorf("%s", shown.body)
	}
	s.post("/agents", `{"name":"y","parameters_schema":{"maximum":1e400}}`).want(400)
	s.post("/agents", `{"name":"y","parameters_schema":{"a":1,"a":2}}`).want(400)
	s.call("DELETE", "/agents/x", "", "If-Match: "+next.header.Get("ETag")).want(204)
}

// TestExamplesAreEditedInACopy: the shipped folder stays as it is, the copy is changed, and a new version reaches what
// nobody changed.
func TestExamplesAreEditedInACopy(t *testing.T) {
	t.Parallel()
	shipped, data := folder(t), t.TempDir()
	shipped.write("one/agent.json", `{"name":"one"}`)
	shipped.write("two/agent.json", `{"name":"two"}`)
	seeded := func(c *serve.Config) {
		c.Coordinator.AgentsSeed, c.Coordinator.AgentsWritable, c.NATS.DataDir = shipped.dir, true, data
	}
	s := start(t, seeded)
	other := s.another(seeded)
	s.call("PATCH", "/agents/one", `{"description":"mine"}`).want(200)
	shipped.has("one/agent.json", `{"name":"one"}`)
	shipped.write("one/agent.json", `{"name":"one","description":"new"}`)
	shipped.write("two/agent.json", `{"name":"two","description":"new"}`)
	for _, at := range []*stack{s, other} {
		natstest.Until(t, "the new version is there", func() bool {
			return into[agent.Blueprint](at.get("/agents/two"), 200).Description == "new"
		})
		if a := into[agent.Blueprint](at.get("/agents/one"), 200); a.Description != "mine" {
			t.Errorf("%+v", a)
		}
	}
	s.call("DELETE", "/agents/two", "").want(204)
	shipped.write("two/agent.json", `{"name":"two","description":"newer"}`)
	shipped.write("three/agent.json", `{"name":"three"}`)
	natstest.Until(t, "the new agent is there", func() bool { return s.get("/agents/three").status == 200 })
	s.get("/agents/two").want(404)
}

// TestUnusedFile: an agent that was edited in its copy names the shipped file that it does not use, and is reset to it.
func TestUnusedFile(t *testing.T) {
	t.Parallel()
	shipped, data := folder(t), t.TempDir()
	shipped.write("one/agent.json", `{"name":"one"}`)
	shipped.write("one/agent.system-prompt.md", "Rhyme.")
	shipped.write("flat.json", `{"name":"plain"}`)
	audited := filepath.Join(data, "audit.jsonl")
	seeded := func(c *serve.Config) {
		c.Coordinator.AgentsSeed, c.Coordinator.AgentsWritable, c.NATS.DataDir = shipped.dir, true, data
	}
	s := start(t, seeded, func(c *serve.Config) { c.AuditLog = audited })
	other := s.another(seeded)
	tag := func() string { return "If-Match: " + s.get("/agents/one").header.Get("ETag") }
	reset := func(headers ...string) got { return s.call("POST", "/agents/one/reset", "", headers...) }
	unused := func(want string) {
		t.Helper()
		for _, at := range []*stack{s, other} {
			natstest.Until(t, "unused_file is "+want, func() bool {
				raw, _ := json.Marshal(at.get("/agents/one").want(200)["unused_file"])
				return string(raw) == want
			})
		}
	}
	unused("null")
	if m := reset().want(409); !strings.Contains(m["message"].(string), "has no unused file") {
		t.Errorf("%v", m)
	}
	s.call("POST", "/agents/nobody/reset", "").want(404)

	before := tag()
	s.call("PATCH", "/agents/one", `{"description":"mine"}`).want(200)
	at := `{"changed":false,"path":"` + shipped.path("one/agent.json") + `"}`
	unused(at)
	s.finds("agents", health.OK, "all 2 load")
	seen := strings.Replace(tag(), "If-Match", "If-None-Match", 1)
	shipped.write("one/agent.json", `{"name":"one","description":"theirs"}`)
	unused(strings.Replace(at, "false", "true", 1))
	if g := s.get("/agents/one", seen); g.status != 200 || !strings.Contains(g.body, `"changed":true`) {
		t.Errorf("who has the agent does not learn that its file has changed: %d %s", g.status, g.body)
	}
	s.finds("agents", health.Warn, "changes of their files have no effect: one ("+shipped.path("one/agent.json")+")")
	view := s.get("/agents/one").body
	s.post("/agents/preview", `{"definition":`+view+`}`).want(200)

	if m := reset(before).want(412); m["current"] == nil {
		t.Errorf("%v", m)
	}
	for text, why := range map[string]string{`{"name":"two"}`: "name cannot be changed", `{"name":`: "not a valid def",
		`{"name":"one","output_schema_name":"none"}`:       "none",
		`{"name":"one","type":"procedural","command":"x"}`: "runner"} {
		shipped.write("one/agent.json", text)
		if m := reset(tag()).want(409); !strings.Contains(m["message"].(string), why) {
			t.Errorf("%s: %v", text, m)
		}
	}
	shipped.write("one/agent.json", `{"name":"one","description":"theirs"}`)
	if m := reset(tag()).want(200); m["description"] != "theirs" || m["system_prompt"] != "Rhyme." ||
		m["unused_file"] != nil {
		t.Errorf("%v", m)
	}
	unused("null")
	if g := s.get("/agents/one", strings.Replace(tag(), "If-Match", "If-None-Match", 1)); g.status != 304 {
		t.Errorf("an agent without an unused file: %d %s", g.status, g.body)
	}
	shipped.write("one/agent.json", `{"name":"one","description":"newer"}`) // the copy follows its file again
	natstest.Until(t, "the file's change is there", func() bool {
		return into[agent.Blueprint](other.get("/agents/one"), 200).Description == "newer"
	})
	natstest.Until(t, "the reset is recorded", func() bool {
		all := recorded(record(t, audited), audit.HTTP, audit.Anonymous, "", "agent.reset", 200, "")
		return len(all) == 1 && all[0].Agent == "one"
	})

	s.call("PATCH", "/agents/plain", `{"description":"mine"}`).want(200)
	if m := s.call("POST", "/agents/plain/reset", "").want(200); m["description"] != "" {
		t.Errorf("%v", m)
	}
	shipped.has("flat.json", `{"name":"plain"}`)
}

// TestAResetLosesNoSave: of a reset and a save of the same version one is refused.
func TestAResetLosesNoSave(t *testing.T) {
	t.Parallel()
	shipped, data := folder(t), t.TempDir()
	shipped.write("one/agent.json", `{"name":"one"}`)
	seeded := func(c *serve.Config) {
		c.Coordinator.AgentsSeed, c.Coordinator.AgentsWritable, c.NATS.DataDir = shipped.dir, true, data
	}
	s := start(t, seeded)
	other := s.another(seeded)
	for n := range 20 {
		edited := s.call("PATCH", "/agents/one", `{"description":"first `+strconv.Itoa(n)+`"}`)
		edited.want(200)
		tag := "If-Match: " + edited.header.Get("ETag")
		natstest.Until(t, "both know the version", func() bool {
			return "If-Match: "+other.get("/agents/one").header.Get("ETag") == tag
		})
		var both sync.WaitGroup
		var reset, saved got
		both.Go(func() { reset = s.call("POST", "/agents/one/reset", "", tag) })
		both.Go(func() { saved = other.call("PATCH", "/agents/one", `{"description":"second"}`, tag) })
		both.Wait()
		if want := map[int]int{200: 412, 412: 200}[reset.status]; saved.status != want {
			t.Fatalf("the reset is answered %d %s, the save %d %s", reset.status, reset.body, saved.status, saved.body)
		}
		now := into[agent.Blueprint](s.get("/agents/one"), 200).Description
		if want := map[int]string{200: "second", 412: ""}[saved.status]; now != want {
			t.Fatalf("the agent's description is %q, want %q", now, want)
		}
	}
	off := s.another(seeded, func(c *serve.Config) { c.Coordinator.AgentsWritable = false })
	s.call("PATCH", "/agents/one", `{"description":"mine"}`).want(200)
	natstest.Until(t, "it is known to be edited", func() bool {
		return off.get("/agents/one").want(200)["unused_file"] != nil
	})
	if m := off.call("POST", "/agents/one/reset", "").want(409); !strings.Contains(m["message"].(string),
		"AO_AGENTS_WRITABLE") {
		t.Errorf("%v", m)
	}
}

// TestAnAgentsFileRefersToNothing: a schema that is not there is told like what else is wrong with a file, until there
// is one.
func TestAnAgentsFileRefersToNothing(t *testing.T) {
	t.Parallel()
	f := folder(t)
	f.write("input.json", `{"name":"input","parameters_schema":{"properties":{"a":{"$ref":"schema:level"}}}}`)
	f.write("output.json", `{"name":"output","output_schema_name":"level"}`)
	f.write("fine.json", `{"name":"fine","output_schema":{"type":"object"}}`)
	s := start(t, f.writable)
	const missing = `there is no schema of the name 'level'`
	broken := s.get("/agents?status=broken")
	for _, want := range []string{`{"name":"input","path":"` + f.path("input.json") + `","status":"broken","error":"`,
		missing, `{"name":"output"`, `"error":"Output schema 'level' not found"`} {
		if !strings.Contains(broken.body, want) {
			t.Errorf("%s lacks %s", broken.body, want)
		}
	}
	if strings.Contains(broken.body, `"fine"`) {
		t.Errorf("a good file is listed: %s", broken.body)
	}
	if over := s.request(subject.APIAgentsList, `{"status":"broken"}`); over.body != broken.body {
		t.Errorf("over NATS: %s", over.body)
	}
	s.finds("agents", health.Fail, "agent input ("+f.path("input.json")+") is broken: ")
	s.finds("agents", health.Fail, missing)
	s.post("/schemas", `{"name":"level","schema":{}}`).want(201)
	literal(t, s.get("/agents?status=broken"), 200, `{"agents":[]}`)
	s.finds("agents", health.OK, "all 3 load")
}
