package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Agents from files, from the API and from runners.
func TestAgents(t *testing.T) {
	t.Parallel()
	s := up(t)
	const none = `{"agents":[]}` + "\n"

	s.same("no agents", s.get("/agents").text+s.get("/agents?status=broken").text, none+none)

	s.story("a file is an agent as soon as it is there, and as long", func(s *stack) {
		const schema = `{"type":"object","required":["topic"],"properties":{"topic":{"type":"string",` +
			`"pattern":"^[a-z<>&]+$"},"big":{"maximum":12345678901234567890}}}`
		s.write("own/poet/agent.json", `{"name":"poet","description":"writes","tags":["art"],"parameters_schema":`+
			schema+`,"executor_profile":"pen"}`)
		s.write("own/poet/agent.system-prompt.md", "You write.\nWell.\n")
		s.until("the file is read", func() bool { return s.get("/agents/poet").at("system_prompt") != "" })
		const shown = `{"name":"poet","description":"writes","type":"autonomous","parameters_schema":` + schema +
			`,"system_prompt":"You write.\nWell.\n","tags":["art"],"executor_profile":"pen","status":"active",` +
			`"created_at":"T","modified_at":"T","agent_hash":"HASH","origin":"file","path":"PATH",` +
			`"editable":false,"reason":"it is ` +
			`defined by a file, and AO_AGENTS_WRITABLE is off: change the file"}`
		poet := strings.Replace(shown, "PATH", filepath.Join(s.dir, "own/poet/agent.json"), 1)
		s.same("the list", bare(s.get("/agents").text), `{"agents":[`+poet+`]}`)
		s.same("the agent", bare(s.get("/agents/poet").text), poet)
		created := s.get("/agents/poet").at("created_at")

		s.write("own/poet/agent.json", `{"name":"poet","description":"writes better","parameters_schema":null}`)
		s.until("the change is read", func() bool { return s.get("/agents/poet").at("description") == "writes better" })
		r := s.get("/agents/poet")
		if r.at("created_at") != created || r.at("modified_at") <= created || r.at("parameters_schema") != "" {
			t.Errorf("after the change: %s", r.text)
		}

		for _, change := range []func() reply{
			func() reply { return s.do("PATCH", "/agents/poet", `{"description":"x"}`) },
			func() reply { return s.do("DELETE", "/agents/poet", "") },
		} {
			s.is(change(), 409, `{"error":"conflict","message":"Agent \"poet\" is defined by a file; change the file, `+
				`or switch AO_AGENTS_WRITABLE on","agent_name":"poet"}`)
		}
		s.has(s.post("/agents", `{"name":"poet"}`), 409, `Agent \"poet\" already exists`)

		if err := os.RemoveAll(filepath.Join(s.dir, "own/poet")); err != nil {
			t.Fatal(err)
		}
		s.until("the agent is gone with its file", func() bool { return s.get("/agents/poet").code == 404 })
	})

	s.story("a runner's broken agent is named too", func(s *stack) {
		s.write("agents/lame/agent.json", `{"name":"lame","command":"./no-such-program"}`)
		w := s.worker()
		s.until("it is listed", func() bool { return s.get("/agents?status=broken").at("agents.0.name") == "lame" })
		s.has(s.post("/runs", `{"agent_name":"lame"}`), 404, `Agent \"lame\" cannot be used, its file is broken: `)
		s.has(s.get("/agents?status=broken"), 200, `"runner_id":"rnr_`, "no-such-program", `"status":"broken"`)
		w.stop()
		s.until("it goes with its runner",
			func() bool { return s.get("/agents?status=broken").at("agents.0.name") == "" })
		os.RemoveAll(filepath.Join(s.dir, "agents/lame"))
	})

	s.story("a broken file is named, and the rest loads", func(s *stack) {
		s.write("own/good/agent.json", `{"name":"good"}`)
		s.write("own/flat.json", `{"name":"flat","status":"inactive"}`)
		s.write("own/syntax/agent.json", `{"name":"syntax",`)
		s.write("own/schema/agent.json", `{"name":"schema","parameters_schema":{"type":"object","properties":5}}`)
		s.write("own/typo/agent.json", `{"name":"typo","descriptoin":"x"}`)
		s.write("own/twin/agent.json", `{"name":"good"}`)
		s.write("own/odd/agent.json", `{"name":"no blanks"}`)
		s.write("own/tool/agent.json", `{"name":"tool","type":"procedural","command":"./x"}`)
		check := func(s *stack) {
			s.t.Helper()
			s.until("all files are read", func() bool {
				return strings.Count(s.get("/agents?status=broken").text, `"status":"broken"`) == 6 &&
					s.get("/agents/flat").code == 200
			})
			var names []string
			for _, i := range []string{"0", "1", "2", "3", "4", "5"} {
				names = append(names, s.get("/agents?status=broken").at("agents."+i+".name"))
			}
			got := strings.Join(names, " ")
			for _, name := range []string{"syntax", "schema", "typo", "odd", "tool"} {
				if !strings.Contains(got, name) {
					s.t.Errorf("%s is not among the broken: %s", name, got)
				}
			}
			s.has(s.get("/agents?status=broken"), 200, "own/syntax/agent.json",
				"The body is not JSON: it ends too early", "Schema validation error at $.properties: ",
				`Unknown field \"descriptoin\"`, `is taken by`, "use 1 to 60 letters, digits",
				"procedural agents belong to runners")
			if r := s.get("/agents?status=active"); r.at("agents.0.name") != "good" || r.at("agents.1.name") != "" {
				s.t.Errorf("active: %s", r.text)
			}
			s.has(s.get("/agents?status=inactive"), 200, `"name":"flat"`)
			s.coordinator.says(s, "agent=syntax")
		}
		check(s)
		s.coordinator.stop()
		s.coordinator.start() // nor do they stop a start
		s.ready()
		check(s)
		for _, name := range []string{"good", "flat.json", "syntax", "schema", "typo", "twin", "odd", "tool"} {
			os.RemoveAll(filepath.Join(s.dir, "own", name))
		}
		s.until("they are gone", func() bool {
			return s.get("/agents?status=broken").text == none &&
				s.get("/agents").text == none
		})
	})

	s.story("created, changed, deleted over the API", func(s *stack) {
		const schema = `{"type":"object","properties":{"b":{"const":1.50},"a":{"type":"string"}}}`
		r := s.post("/agents", `{"name":"made","description":"by hand","parameters_schema":`+schema+`,"tags":["x"]}`)
		const made = `{"name":"made","description":"by hand","type":"autonomous","parameters_schema":` + schema +
			`,"tags":["x"],"status":"active","created_at":"T","modified_at":"T","agent_hash":"HASH",` +
			`"origin":"api","editable":true}`
		if r.code != 201 || bare(r.text) != made || r.header.Get("Location") != "/agents/made" {
			t.Errorf("created: %d %v %s", r.code, r.header, r.text)
		}
		s.has(s.post("/agents", `{"name":"made"}`), 409, `PATCH /agents/made changes it`)
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		s.same("after a crash", bare(s.get("/agents/made").text), made)

		r = s.do("PATCH", "/agents/made", `{"status":"inactive","parameters_schema":null,"tags":["y","z"]}`)
		s.has(r, 200, `"status":"inactive"`, `"tags":["y","z"]`)
		if r.at("parameters_schema") != "" || r.at("modified_at") <= r.at("created_at") {
			t.Errorf("changed: %s", r.text)
		}
		s.is(s.post("/runs", `{"agent_name":"made","prompt":"x"}`), 409,
			`{"error":"agent_inactive","message":"Agent made is inactive; set its status to active first",`+
				`"agent_name":"made"}`)
		s.has(s.do("PATCH", "/agents/made", `{"name":"other"}`), 400, "an agent's name cannot be changed")
		s.has(s.do("PATCH", "/agents/made", `{"created_at":"2020-01-01T00:00:00Z"}`), 400, "set by the coordinator")
		if r := s.do("DELETE", "/agents/made", ""); r.code != 204 || r.text != "" {
			t.Errorf("deleted: %d %s", r.code, r.text)
		}
		for _, r := range []reply{s.get("/agents/made"), s.do("DELETE", "/agents/made", ""),
			s.do("PATCH", "/agents/made", `{}`)} {
			s.has(r, 404, `"error":"not_found","message":"There is no agent \"made\"; GET /agents lists them",`+
				`"agent_name":"made","folders":["`)
		}
	})

	s.story("what is wrong is refused at every door, and nothing is kept", func(s *stack) {
		for _, tt := range []struct{ body, want string }{
			{`{"name":"x","parameters_schema":{"type":"object","properties":5}}`,
				`"details":"Schema validation error at $.properties: `},
			{`{"name":"x","parameters_schema":{"type":"objekt"}}`, `{"error":"InvalidSchema",` +
				`"message":"parameters_schema is not a valid JSON Schema","details":"Schema validation ` +
				`error at $.type: `},
			{`{"name":"x","parameters_schema":{"$ref":"http://elsewhere/x.json"}}`, `{"error":"InvalidSchema"`},
			{`{"name":"x","parameters_schema":{"pattern":"("}}`, `{"error":"InvalidSchema"`},
			{`{"name":"x","output_schema":{"type":"objekt"}}`, `{"error":"InvalidSchema","message":"output_schema is ` +
				`not a valid JSON Schema","details":"Schema validation error at $.type: `},
			{`{"name":"x","max_attempts":101}`, `max_attempts must be from 1 to 100`},
			{`{"name":"a.b"}`, `use 1 to 60 letters, digits`},
			{`{"name":"x","type":"procedural","command":"ls"}`, `agents_dir of a runner's profile`},
			{`{"name":"x","command":"ls"}`, `command belongs to procedural agents`},
			{`{"name":"x","status":"asleep"}`, `status must be active or inactive`},
			{`{"name":"x","name":"y"}`, `has the key \"name\" twice`},
			{`{"description":"nameless"}`, `"field":"name"`},
		} {
			s.has(s.post("/agents", tt.body), 400, tt.want)
		}
		s.has(s.get("/agents/a.b"), 400, `"field":"name"`)
		const runner = `{"hostname":"h","executor_profile":"p","executor_type":"procedural",` +
			`"agents":[{"name":"fine","command":"x"},`
		for _, tt := range []struct{ body, want string }{
			{runner + `{"name":"x","command":"y","parameters_schema":{"type":"object","properties":5}}]}`,
				`{"error":"InvalidSchema"`},
			{runner + `{"name":"x","command":"y","parameters_schema":{"type":"object","properties":5}}]}`,
				`"details":"Schema validation error at $.properties: `},
			{runner + `{"name":"fine","command":"y"}]}`, `announced twice`},
			{runner + `{"name":"x"}]}`, `a procedural agent needs command`},
			{runner + `{"name":"x","type":"autonomous"}]}`, `is autonomous, its runner procedural`},
		} {
			s.has(s.post("/runner/register", tt.body), 400, tt.want)
		}
		s.is(s.get("/agents"), 200, `{"agents":[]}`)
		s.is(s.get("/runners"), 200, `{"runners":[]}`)
	})
}

// The owner of an agent's name.
func TestOwners(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("tool", `echo '{"of":"test"}'`,
		`"parameters_schema":{"type":"object","properties":{"n":{"type":"integer"}}}`)
	s.agent("syntax", `true`, `"tags":[`)
	s.agent("schema", `true`, `"parameters_schema":{"required":"x"}`)
	s.write("agents/missing/agent.json", `{"name":"missing","command":"./nothing-there"}`)
	s.write("agents/plain/agent.json", `{"name":"plain","command":"./data"}`)
	s.write("agents/plain/data", "just text")
	if err := os.Chmod(filepath.Join(s.dir, "agents/plain/data"), 0o644); err != nil {
		t.Fatal(err)
	}

	first := s.runner("a")
	a := s.online("a")
	s.story("a runner's agents are there, and its broken files are named", func(s *stack) {
		const tool = `{"name":"tool","description":"of a story","type":"procedural",` +
			`"parameters_schema":{"type":"object","properties":{"n":{"type":"integer"}}},"status":"active",` +
			`"command":"./run","runner_id":"rnr_ID","runners":1,"agent_hash":"HASH",` +
			`"origin":"runner","editable":false,"reason":"it belongs to runner rnr_ID: change it in ` +
			`the agents_dir of ` +
			`profile test, or save a copy"}`
		s.same("the list", bare(s.get("/agents").text), `{"agents":[`+tool+`]}`)
		s.same("the owner", s.get("/agents/tool").at("runner_id"), a)
		s.contains(first.log.String(), "agents/syntax/agent.json", "agents/schema/agent.json",
			"Schema validation error at $.required", "nothing-there", "agents/plain")
		s.has(s.do("DELETE", "/agents/tool", ""), 409, "belongs to runner "+a)
		s.has(s.post("/agents", `{"name":"tool"}`), 409)
	})

	second := s.runner("b")
	s.story("runners of one profile with one definition share it", func(s *stack) {
		s.online("b")
		ran := map[string]bool{}
		for _, host := range []string{"a", "b"} {
			r := s.post("/runs", `{"agent_name":"tool","mode":"sync","additional_demands":{"hostname":"`+host+`"}}`)
			s.has(r, 200, `"result_data":{"of":"test"}`)
			ran[r.at("runner_id")] = true
		}
		if len(ran) != 2 {
			t.Errorf("ran on %v", ran)
		}
		first.stop() // SIGTERM
		if s.runnerOf("a", "status") != "" {
			t.Error("a is still there after its SIGTERM")
		}
		s.same("the owner", s.get("/agents/tool").at("runner_id"), s.runnerOf("b", "runner_id"))
		s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
	})

	s.story("the first one wins, and the other takes over when it is gone and its grace is over", func(s *stack) {
		s.write("other/tool/agent.json", `{"name":"tool","description":"another","command":"./run"}`)
		s.write("other/tool/run", "#!/bin/sh\necho '{\"of\":\"other\"}'\n")
		s.write("other/more/agent.json", `{"name":"more","command":"./run"}`)
		s.write("other/more/run", "#!/bin/sh\necho 1\n")
		s.write("profiles/other.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../other"}`)
		third := s.runner("c", "AO_PROFILES=other")
		third.says(s, "agent_name_collision")
		s.contains(third.log.String(), "retrying")
		if s.runnerOf("c", "status") != "" || s.get("/agents/more").code != 404 {
			t.Errorf("something of the refused registration was kept: %s %s", s.get("/runners").text,
				s.get("/agents").text)
		}
		b := s.runnerOf("b", "runner_id")
		s.is(s.post("/runner/register", `{"hostname":"d","executor_profile":"other","executor_type":"procedural",`+
			`"agents":[{"name":"tool","command":"z"}]}`), 409,
			`{"error":"agent_name_collision","message":"Agent 'tool' is already registered by runner `+b+
				` with another definition; rename one of them","agent_name":"tool","existing_runner_id":"`+b+`"}`)
		s.write("own/mine/agent.json", `{"name":"mine"}`)
		s.until("the coordinator's own", func() bool { return s.get("/agents/mine").code == 200 })
		r := s.post("/runner/register", `{"hostname":"d","executor_profile":"other","executor_type":"procedural",`+
			`"agents":[{"name":"mine","command":"z"}]}`)
		s.has(r, 409, `"error":"agent_name_collision"`, `"agent_name":"mine"`, `"existing_runner_id":null`)
		s.has(s.sync("tool", `{}`), 200, `"result_data":{"of":"test"}`)
		if s.runnerOf("d", "status") != "" {
			t.Error("d is registered")
		}

		second.stop()
		if s.runnerOf("c", "status") != "" {
			t.Error("another profile came within the grace")
		}
		s.has(s.post("/runs/validate", `{"agent_name":"tool"}`), 200, `"runner_available":false`)
		// which ends the grace
		s.is(s.do("DELETE", "/runners/"+b, ""), 202, `{"runner_id":"`+b+`","status":"draining"}`)
		s.is(s.do("DELETE", "/runners/"+a, ""), 202, `{"runner_id":"`+a+`","status":"draining"}`)
		s.online("c")
		s.has(s.sync("tool", `{}`), 200, `"result_data":{"of":"other"}`)
		s.has(s.sync("more", `{}`), 200, `"result_data":1`)
		third.stop()
		c := s.get("/agents/tool").at("runner_id")
		s.has(s.get("/agents/tool"), 200, `"status":"active"`, `"runners":0`)
		s.is(s.do("DELETE", "/runners/"+c, ""), 202, `{"runner_id":"`+c+`","status":"draining"}`)
		s.has(s.get("/agents"), 200, `"name":"mine"`)
		if s.get("/agents/tool").code != 404 {
			t.Error("the agent stays although the grace of its last runner was ended")
		}
		s.has(s.post("/runs", `{"agent_name":"tool"}`), 404)
	})

	s.story("two processes with one identity", func(s *stack) {
		one := s.runner("e")
		s.online("e")
		two := s.runner("e")
		two.says(s, "runner_already_online")
		s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
		one.stop()
		s.online("e")
		s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
		two.stop()
	})
}
