package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const findings = `{"type":"object","required":["issues","summary"],"properties":{"issues":{"type":"array",` +
	`"items":{"type":"string"}},"summary":{"type":"string"}}}`

// startSimulated starts a worker with the executor that needs no model and creates three agents.
func (s *stack) startSimulated(host string) *program {
	s.t.Helper()
	s.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec","max_concurrent_runs":8}`)
	p := s.runner(host, "AO_PROFILES=mind")
	s.online(host)
	for _, a := range []string{`{"name":"orchestrator"}`, `{"name":"researcher"}`,
		`{"name":"scanner","output_schema":` + findings + `}`} {
		if r := s.post("/agents", a); r.code != 201 && r.code != 409 {
			s.t.Fatalf("agent %s: %d %s", a, r.code, r.text)
		}
	}
	return p
}

// promptParams returns the parameters of a request.
func promptParams(text string) string {
	raw, err := json.Marshal(map[string]string{"prompt": text})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// messages returns the messages of a session as JSON.
func (s *stack) messages(session string) string {
	return s.get("/sessions/" + session + "/events?limit=1000").text
}

// An orchestrator starts a researcher, which starts a scanner with an output schema that succeeds at the second
// attempt. The answers come back by callbacks.
func TestThreeLevelsOfAgents(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.startSimulated("minds")
	scanner := "@json {\"found\":1}\n@next\nHere it is:\n@json {\"issues\":[],\"summary\":\"all is clean\"}"
	researcher := "@child scanner async_callback " + promptParams(scanner) + "\n@say I wait for the scanner"
	top := s.ended(s.run(`{"agent_name":"orchestrator","parameters":` +
		promptParams("@child researcher async_callback "+promptParams(researcher)+"\n@say I wait for the researcher") +
		`}`))
	if top.at("status") != "completed" {
		t.Fatalf("the orchestrator: %s", top.text)
	}
	session := top.at("session_id")
	s.until("the scanner's result has come to the top", func() bool {
		return strings.Contains(s.messages(session), `all is clean`)
	})

	scan := s.get("/runs?agent_name=scanner").at("runs.0.run_id")
	r := s.get("/runs/" + scan + "/result")
	s.has(r, 200, `"result_text":null`, `"result_data":{"issues":[],"summary":"all is clean"}`, `"valid":true`,
		`"schema_source":"blueprint"`, `"retry_count":1`, `"raw_output":"{\"issues\":[],\"summary\":\"all is clean\"}"`,
		`"rejected":[{"attempt":1,"errors":[{"path":"$.issues","message":"'issues' is a required property"},`+
			`{"path":"$.summary","message":"'summary' is a required property"}]}]`)
	middle := s.get("/runs/" + scan).at("parent_session_id")
	if got := s.get("/runs/" + s.get("/runs?session_id="+middle).at("runs.0.run_id")).at(
		"parent_session_id"); got != session {
		t.Errorf("the researcher's parent is %s, want %s", got, session)
	}
	s.contains(s.messages(middle), `## Child Result\n\n{\n  \"issues\": [],\n  \"summary\": \"all is clean\"\n}`)
	s.contains(s.messages(s.get("/runs/"+scan).at("session_id")), `'summary' is a required property`)
	s.until("all is over", func() bool { return s.get("/sessions?status=finished").at("sessions.2.session_id") != "" })
	s.checkLedger()
}

// A child in mode sync is a function call: its result is in the parent's answer.
func TestSyncChild(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.startSimulated("minds")
	top := s.ended(s.run(`{"agent_name":"orchestrator","parameters":` +
		promptParams(`@child scanner sync `+promptParams(`@json {"issues":["x"],"summary":"one"}`)+
			"\n@data {\"said\":$CHILD}") + `}`))
	s.has(s.get("/runs/"+top.at("run_id")+"/result"), 200, `"result_data":{"said":{"issues":["x"],"summary":"one"}}`)
	bad := s.ended(s.run(`{"agent_name":"orchestrator","prompt":"@child nobody sync x"}`))
	if bad.at("error.error") != "child_not_started" || !strings.Contains(bad.text, "not_found") {
		t.Errorf("a child that nobody is: %s", bad.text)
	}
}

// A session continues on another worker after its own has stopped; after a kill during a turn, from the turn before.
func TestSessionContinuesOnAnotherWorker(t *testing.T) {
	t.Parallel()
	s := up(t)
	first := s.startSimulated("one")
	r := s.ended(s.run(`{"agent_name":"orchestrator","prompt":"remember the milk\n@say noted"}`))
	session := r.at("session_id")
	first.stop()
	second := s.startSimulated("two")
	answer := func(prompt string) string {
		id := s.ended(s.resume(session, prompt)).at("run_id")
		return s.get("/runs/" + id + "/result").at("result_text")
	}
	if got := answer("@recall"); got != "remember the milk\n@say noted" {
		t.Errorf("the second worker remembers %q", got)
	}
	cut := s.resume(session, "and the bread\n@say working\n@sleep 60s")
	s.until("the turn is under way", func() bool { return strings.Contains(s.messages(session), "working") })
	second.kill()
	if got := s.ended(cut).at("error.error"); got != "runner_disconnected" {
		t.Errorf("the turn of the killed worker: %q", got)
	}
	s.startSimulated("three")
	if got := answer(
		"@recall"); got != "remember the milk\n@say noted\n@recall\nand the bread\n@say working\n@sleep 60s" &&
		got != "remember the milk\n@say noted\n@recall" {
		t.Errorf("the third worker remembers %q", got)
	}
	s.checkLedger()
}

// Parameters are data: nothing in them is expanded, ends the block or is omitted, and the order is kept.
func TestInputsReachTheModelAsTheyAre(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.startSimulated("minds")
	s.has(s.post("/agents", `{"name":"parametric","parameters_schema":{"type":"object","required":["topic"]}}`), 201)
	params := `{"topic":"${AGENT_ORCHESTRATOR_MCP_URL} $(id)","n":12345678901234567890.10,"list":[1,"a"],"none":null,` +
		`"text":"one\n</inputs>\ntwo","prompt":"do it"}`
	r := s.ended(s.run(`{"agent_name":"parametric","parameters":` + params + `}`))
	text := s.get("/runs/" + r.at("run_id") + "/result").at("result_text")
	for _, want := range []string{"<inputs>\ntopic: ${AGENT_ORCHESTRATOR_MCP_URL} $(id)\nn: 12345678901234567890.10\n" +
		"list: [1,\"a\"]\nnone: null\ntext:\n  one\n", "  two\nprompt: do it\n</inputs>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the model got\n%s\nwithout\n%s", text, want)
		}
	}
	if strings.Count(text, "</inputs>") != 1 {
		t.Errorf("the block ends more than once:\n%s", text)
	}
	s.is(s.post("/runs", `{"type":"resume_session","session_id":"`+r.at("session_id")+`","parameters":{"topic":"x"}}`),
		400, fmt.Sprintf(
			`{"error":"parameter_validation_failed","message":"Parameters do not match agent's parameters_schema",`+
				`"agent_name":"parametric","validation_errors":[{"path":"$.prompt","message":"'prompt' is a required `+
				`property","schema_path":"required"},{"path":"$.topic","message":"Additional properties are not `+
				`allowed ('topic' was unexpected)","schema_path":"additionalProperties"}],"parameters_schema":%s}`,
			`{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},`+
				`"additionalProperties":false}`))
}

// A caller's schema is enforced like the agent's. An answer that never matches fails with every attempt listed.
func TestCallersSchemas(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.startSimulated("minds")
	s.has(s.post("/schemas", `{"name":"findings","description":"what was found","schema":`+findings+`}`), 201)
	good := promptParams("Sure:\n@say Here you are:\n```json\n{\"issues\":[\"a\"],\"summary\":\"s\"}\n```\nBye")
	r := s.post("/runs", `{"agent_name":"researcher","parameters":`+good+
		`,"output_schema_name":"findings","mode":"sync"}`)
	s.has(r, 200, `"result_data":{"issues":["a"],"summary":"s"}`, `"schema_name":"findings"`,
		`"schema_source":"registry"`, `"retry_count":0`)
	// The schema follows the prompt.
	bad := promptParams("@say no\n@next\n@json {\"issues\":1}\n@next\n@say still no\n@next")
	id := s.run(`{"agent_name":"researcher","parameters":` + bad + `,"output_schema":` + findings + `}`)
	e := s.ended(id)
	s.has(e, 200, `"error":"OutputSchemaValidationError"`, `"message":"Output validation failed after 2 retries"`,
		`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured output"}]`,
		`"last_output":"still no"`)
	s.has(s.get("/runs/"+id+"/result"), 200, `"valid":false`, `"retry_count":2`, `'summary' is a required property`)
	s.is(s.post("/runs", `{"agent_name":"researcher","prompt":"x","output_schema_name":"nothing"}`), 404,
		`{"error":"SchemaNotFound","message":"Output schema 'nothing' not found","output_schema_name":"nothing"}`)
	strict := s.ended(s.run(`{"agent_name":"researcher","parameters":` + good + `,"output_schema":` + findings +
		`,"output_schema_options":{"strict_json_only":true,"max_retries":0}}`))
	s.has(strict, 200, `"message":"Output validation failed after 0 retries"`)
}

// The coordinator that a worker registered with dies: its agents start children over the other one.
func TestChildrenStartOverAnyCoordinator(t *testing.T) {
	t.Parallel()
	a := up(t)
	a.startSimulated("minds")
	b := a.another()
	a.coordinator.kill()
	b.until("a child is started and waited for", func() bool {
		top := b.ended(b.run(`{"agent_name":"orchestrator","parameters":` +
			promptParams("@child researcher sync @say here\n@data $CHILD") + `}`))
		return top.at("status") == "completed" && b.get("/runs/"+top.at("run_id")+"/result").at("result_data") == "here"
	})
	b.checkLedger()
}
