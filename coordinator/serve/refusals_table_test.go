package serve_test

import (
	"fmt"
	"strings"
	"testing"

	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/run"
)

const (
	implicit = `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},` +
		`"additionalProperties":false}`
	crawlerSchema = `{"type":"object","required":["url"],"properties":{"url":{"type":"string","format":"uri"},` +
		`"depth":{"type":"integer","minimum":1},` +
		`"way":{"enum":["x","z"]},"word":{"type":"string","minLength":2,"maxLength":4,"pattern":"^[a-z]+$"},` +
		`"items":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}},` +
		`"any":{"anyOf":[{"type":"string"},{"type":"null"}]},` +
		`"when":{"type":"string","format":"date-time"}},"additionalProperties":false}`
	crawler = `{"name":"web-crawler","description":"reads pages","parameters_schema":` + crawlerSchema + `}`
)

// TestRefusals reads every refusal of a run as its caller does. A want that begins with {"error" is the whole answer.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.MaxPayload = 1 << 20 })
	for _, body := range []string{crawler, `{"name":"asleep","status":"inactive"}`, `{"name":"plain"}`} {
		s.post("/agents", body).want(201)
	}
	webTool := echo("web-tool")
	webTool.ParametersSchema = []byte(crawlerSchema)
	s.work(func(run.Queued) run.Outcome { return done(`1`) }, echo("tool"), webTool)
	c := s.speak(versions[1])
	other, tool := s.submit(`{"agent_name":"plain","prompt":"x"}`), s.submit(`{"agent_name":"tool"}`)
	s.until(tool.RunID, run.Completed)
	stopped := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.post("/runs/"+stopped.RunID+"/stop", "").want(200)

	const ok, plain = `"url":"http://a/"`, `{"agent_name":"plain","prompt":"x",`
	wrong := func(agent, schema string, errs ...string) string {
		return fmt.Sprintf(`{"error":"parameter_validation_failed","message":"Parameters do not match agent's `+
			`parameters_schema","agent_name":"%s","validation_errors":[%s],"parameters_schema":%s}`,
			agent, strings.Join(errs, ","), schema)
	}
	at := func(path, message, schemaPath string) string {
		return fmt.Sprintf(`{"path":"%s","message":"%s","schema_path":"%s"}`, path, message, schemaPath)
	}
	unexpected := func(path, key string) string {
		return at(path, "Additional properties are not allowed ('"+key+"' was unexpected)", "additionalProperties")
	}
	of := func(agent, parameters string) string {
		return fmt.Sprintf(`{"agent_name":%q,"parameters":%s}`, agent, parameters)
	}
	invalid := func(message, field string) string {
		if field != "" {
			field = `,"field":"` + field + `"`
		}
		return `{"error":"invalid_request","message":"` + message + `"` + field + `}`
	}
	noSession := func(field string) string {
		return `{"error":"not_found","message":"There is no session ses_none; GET /sessions lists those that are ` +
			`kept","session_id":"ses_none"` + field + `}`
	}
	noResume := `{"error":"procedural_agent_no_resume","message":"Procedural agents are stateless and cannot be ` +
		`resumed","agent_name":"tool"}`
	type refusal struct {
		body   string
		status int
		want   string
	}
	for _, tt := range []refusal{
		// parameters that do not match: all errors at once
		{of("web-crawler", `{"url":"not-a-url"}`), 400,
			wrong("web-crawler", crawlerSchema,
				at("$.url", "'not-a-url' is not a valid URI", "properties.url.format"))},
		{of("web-tool", `{"depth":0,"zz":1}`), 400, wrong("web-tool", crawlerSchema,
			at("$.depth", "0 is less than the minimum of 1", "properties.depth.minimum"),
			at("$.url", "'url' is a required property", "required"), unexpected("$.zz", "zz"))},
		{of("web-tool", `{`+ok+`,"way":"y"}`), 400,
			wrong("web-tool", crawlerSchema, at("$.way", "'y' is not one of ['x', 'z']", "properties.way.enum"))},
		{of("web-tool", `{"url":123}`), 400,
			wrong("web-tool", crawlerSchema, at("$.url", "123 is not of type 'string'", "properties.url.type"))},
		{of("web-tool", `{`+ok+`,"word":"x"}`), 400,
			wrong("web-tool", crawlerSchema, at("$.word", "'x' is too short", "properties.word.minLength"))},
		{of("web-tool", `{`+ok+`,"word":"abcde"}`), 400,
			wrong("web-tool", crawlerSchema, at("$.word", "'abcde' is too long", "properties.word.maxLength"))},
		{of("web-tool", `{`+ok+`,"word":"A1"}`), 400, wrong("web-tool", crawlerSchema,
			at("$.word", "'A1' does not match '^[a-z]+$'", "properties.word.pattern"))},
		{of("web-tool", `{`+ok+`,"items":[{"b":"x"},{"b":1}]}`), 400, wrong("web-tool", crawlerSchema,
			at("$.items[1].b", "1 is not of type 'string'", "properties.items.items.properties.b.type"))},
		{of("web-tool", `{`+ok+`,"any":5}`), 400, wrong("web-tool", crawlerSchema,
			at("$.any", "5 is not valid under any of the given schemas", "properties.any.anyOf"))},
		{of("web-tool", `{`+ok+`,"odd key":1}`), 400,
			wrong("web-tool", crawlerSchema, unexpected("$['odd key']", "odd key"))},
		{of("web-tool", `{`+ok+`,"depth":1.5}`), 400,
			wrong("web-tool", crawlerSchema,
				at("$.depth", "1.5 is not of type 'integer'", "properties.depth.type"))},
		{of("web-crawler", `{`+ok+`,"prompt":"x"}`), 400,
			wrong("web-crawler", crawlerSchema, unexpected("$.prompt", "prompt"))},
		{of("web-crawler", `{"url":"http://`+strings.Repeat("x", 900<<10)+` "}`), 400, `is not a valid URI`},
		{of("plain", `{}`), 400,
			wrong("plain", implicit, at("$.prompt", "'prompt' is a required property", "required"))},
		{`{"agent_name":"plain","prompt":""}`, 400,
			wrong("plain", implicit, at("$.prompt", "'' should be non-empty", "properties.prompt.minLength"))},
		{of("plain", `{"prompt":"x","more":1}`), 400, wrong("plain", implicit, unexpected("$.more", "more"))},

		// the agent
		{`{"agent_name":"nobody"}`, 404, `{"error":"not_found","message":"There is no agent \"nobody\"; GET /agents ` +
			`lists them","agent_name":"nobody","field":"agent_name"}`},
		{`{"agent_name":"asleep","prompt":"x"}`, 409, `{"error":"agent_inactive","message":"Agent asleep is ` +
			`inactive; set its status to active first","agent_name":"asleep"}`},
		{`{"agent_name":"../tool"}`, 404, `"error":"not_found"`},
		{`{"agent_name":5}`, 400, `"field":"agent_name"`},

		// what is no JSON object, or unclear
		{``, 400, invalid("The body is not JSON: it ends too early", "")},
		{`agent=tool`, 400, invalid("The body is not JSON: unexpected 'a' at byte 0", "")},
		{`{"agent_name":"plain"} {}`, 400, invalid("The body must be one JSON value; something follows it at byte 22",
			"")},
		{`["tool"]`, 400,
			invalid(`The body must be a JSON object such as {\"agent_name\":\"…\",\"parameters\":{…}}`, "")},
		{`{"agent_name":"tool","agent_name":"tool"}`, 400,
			invalid(`$ has the key \"agent_name\" twice; send each key once`, "agent_name")},
		{of("tool", `{"a":{"b":1,"b":2}}`), 400,
			invalid(`$.parameters.a has the key \"b\" twice; send each key once`, "b")},
		{of("tool", `{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`), 400, `nests deeper than 64 levels`},
		{of("tool", `[1]`), 400, invalid("parameters must be a JSON object", "parameters")},
		{of("tool", `"x"`), 400, invalid("parameters must be a JSON object", "parameters")},
		{`{"agent_name":"tool","paramters":{}}`, 400, `Unknown field \"paramters\"; known are `},
		{`{"agent_name":"tool","additional_demands":{"host":"x"}}`, 400, `Unknown field \"additional_demands.host\"`},
		{`{"agent_name":"plain","prompt":"a","parameters":{"prompt":"b"}}`, 400,
			invalid(`prompt and parameters differ; prompt is short for parameters {\"prompt\":…}, send one of them`,
				"prompt")},

		// other members
		{plain + `"mode":"soon"}`, 400, invalid("mode must be sync, async_poll or async_callback", "mode")},
		{plain + `"mode":"sync","execution_mode":"async_poll"}`, 400,
			invalid("mode and execution_mode differ; send one of them", "execution_mode")},
		{plain + `"callback_url":"http://x"}`, 400, invalid("callback_url is refused: HTTP callbacks are disabled "+
			"here; the coordinator's operator enables them with AO_CALLBACK_HOSTS, the allowed hosts; otherwise omit "+
			"it", "callback_url")},
		{plain + `"output_schema":{"type":"objekt"}}`, 400,
			`{"error":"InvalidSchema","message":"output_schema is not a valid JSON Schema","details":"Schema ` +
				`validation error at $.type: 'objekt' is not one of ['array', 'boolean', 'integer', 'null', ` +
				`'number', 'object', 'string']","field":"output_schema"}`},
		{plain + `"output_schema_name":"n"}`, 404,
			`{"error":"SchemaNotFound","message":"Output schema 'n' not found","output_schema_name":"n"}`},
		{plain + `"output_schema_options":{}}`, 400, `"field":"output_schema_options"`},
		{plain + `"max_attempts":0}`, 400, invalid("max_attempts must be from 1 to 100", "max_attempts")},
		{plain + `"timeout_seconds":0}`, 400, invalid("timeout_seconds must be from 1 to 2592000", "timeout_seconds")},
		{plain + `"type":"begin"}`, 400, invalid("type must be start_session or resume_session", "type")},
		{plain + `"project_dir":"a\u0000b"}`, 400, `"field":"project_dir"`},
		{plain + `"additional_demands":{"executor_profile":"a.*"}}`, 400,
			`"field":"additional_demands.executor_profile"`},
		{plain + `"additional_demands":{"tags":[""]}}`, 400, `"field":"additional_demands.tags"`},

		// sessions
		{plain + `"session_id":"ses_a.b"}`, 400, `"field":"session_id"`},
		{plain + `"session_id":"ses_>"}`, 400, `"field":"session_id"`},
		{plain + `"session_id":"mine"}`, 400, `"field":"session_id"`},
		{plain + `"session_id":"ses_` + strings.Repeat("x", 65) + `"}`, 400, `"field":"session_id"`},
		{plain + `"session_id":"` + other.SessionID + `"}`, 409,
			`{"error":"conflict","message":"session ` + other.SessionID + ` exists already; leave session_id out for ` +
				`a new one, or resume it","session_id":"` + other.SessionID + `","field":"session_id"}`},
		{plain + `"parent_session_id":"ses_*"}`, 400, `"field":"parent_session_id"`},
		{plain + `"parent_session_id":"ses_none"}`, 404, noSession(`,"field":"parent_session_id"`)},
		{`{"type":"resume_session"}`, 400,
			invalid("resume_session needs session_id: which session continues?", "session_id")},
		{`{"type":"resume_session","session_id":"ses_none","prompt":"x"}`, 404, noSession("")},
		{`{"session_id":"` + tool.SessionID + `","prompt":"x"}`, 400, noResume},
		{`{"type":"resume_session","session_id":"` + tool.SessionID + `","prompt":"x"}`, 400, noResume},
		{`{"session_id":"` + other.SessionID + `","prompt":"x"}`, 409,
			`{"error":"session_never_began","message":"The model session of ` + other.SessionID +
				` has not started yet: run ` + other.RunID + ` waits for a runner; resume the session later",` +
				`"session_id":"` + other.SessionID + `"}`},
		{`{"session_id":"` + stopped.SessionID + `","prompt":"x"}`, 409,
			`{"error":"session_never_began","message":"The model session of ` + stopped.SessionID + ` never started, ` +
				`so there is nothing to resume; start a new session","session_id":"` + stopped.SessionID + `"}`},
		{`{"type":"resume_session","agent_name":"tool","session_id":"` + other.SessionID + `"}`, 400,
			invalid("session "+other.SessionID+` belongs to agent \"plain\"; omit agent_name, or send that one`,
				"agent_name")},
	} {
		s.refusedEverywhere(c, tt.body, tt.status, tt.want)
	}
	for _, tt := range []refusal{ // a tool names its own parameters, or takes it
		{`{}`, 400, invalid("agent_name is required to start a session; GET /agents lists them", "agent_name")},
		{plain + `"mode":"async_callback"}`, 400, invalid("mode async_callback needs parent_session_id, the session "+
			"that is called back (callback_url is for an HTTP receiver)", "parent_session_id")},
		{plain + `"wait_seconds":3}`, 400, invalid("wait_seconds goes with mode sync only", "wait_seconds")},
	} {
		s.refusedByAPI(tt.body, tt.status, tt.want)
	}
	if list := into[struct{ Runs []run.Run }](s.get("/runs"), 200); len(list.Runs) != 3 {
		t.Errorf("refused requests: got %d runs, want the 3 that were accepted", len(list.Runs))
	}

	large := `{"agent_name":"tool","parameters":{"a":"` + strings.Repeat("x", 5<<19) + `"}}`
	s.post("/runs", large).has("beyond the limit of a body", 413, `"error":"too_large"`, "AO_MAX_PAYLOAD")
	s.post("/runs", large[:3<<19]+`"}}`).has("beyond that of parameters", 413, `"field":"parameters"`)
	s.post("/runs", `{"agent_name":"tool"}`, "Content-Encoding: gzip").refuses("a packed body", "Content-Encoding")
}

// TestForeignIDs: what is no id is refused by the field's name; an id of nothing is 404.
func TestForeignIDs(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, id := range []string{"run_*", "run_%3E", "run_a.b", "run_..%2f..", "run_a%2Fb", "run_a%20b", "ses_x",
		"%2e%2e", "run_" + strings.Repeat("x", 200), "run_%00", "run_%C3%A4"} {
		for _, path := range []string{"", "/result", "/wait", "/explain"} {
			s.get("/runs/"+id+path).refuses(id+path, "run_id")
		}
		s.post("/runs/"+id+"/stop", "").refuses("stop "+id, "run_id")
	}
	for _, id := range []string{"ses_*", "ses_%3E", "ses_a.b", "ses_..%2f..", "ses_a%20b", "run_x",
		"ses_" + strings.Repeat("x", 65)} {
		for _, path := range []string{"", "/status", "/result", "/events", "/tree"} {
			s.get("/sessions/"+id+path).refuses(id+path, "session_id")
		}
		s.call("DELETE", "/sessions/"+id, "").refuses("DELETE "+id, "session_id")
		s.get("/sse/sessions?session_id="+id).refuses("watching "+id, "session_id")
	}
	for _, path := range []string{"/runs/run_none", "/runs/run_none/result", "/runs/run_none/wait",
		"/sessions/ses_none", "/sessions/ses_none/result", "/sessions/ses_none/events", "/sessions/ses_none/tree"} {
		if m := s.get(path).want(404); m["error"] != "not_found" {
			t.Errorf("GET %s: got %v, want not_found", path, m)
		}
	}
	natstest.Until(t, "a stream of no session is refused", func() bool { // one that waits for NATS has started
		return s.get("/sse/sessions?session_id=ses_none").status == 404
	})
	s.call("DELETE", "/runners/rnr_*", "").refuses("rnr_*", "runner_id")
	s.call("DELETE", "/runners/_owners", "").refuses("_owners", "runner_id")
	s.call("DELETE", "/runners/rnr_none", "").want(404)
	if g := s.call("PUT", "/runs", ""); g.status != 405 || !strings.Contains(g.body, "possible: ") {
		t.Errorf("PUT /runs: got %d %s, want 405 and the possible methods", g.status, g.body)
	}
	for query, field := range map[string]string{
		"status=done": "status", "limit=0": "limit", "limit=x": "limit", "limit=1001": "limit",
		"limit=1&limit=2": "limit", "cursor=x": "cursor", "agent_name=a.b": "agent_name",
		"session_id=ses_*":        "session_id",
		"created_after=yesterday": "created_after", "colour=red": "colour", "parent_session_id=x": "parent_session_id",
	} {
		s.get("/runs?"+query).refuses(query, field)
		s.get("/sessions?"+query).refuses(query, field)
	}
	for query, field := range map[string]string{"runner_id=rnr_*": "runner_id", "roots=yes": "roots",
		"retry_of=x": "retry_of", "q=" + strings.Repeat("x", 300): "q", "status=going": "status"} {
		s.get("/runs?"+query).refuses(query, field)
		s.get("/runs/count?"+query).refuses(query, field)
	}
	s.get("/runs/count?limit=1").refuses("a count's limit", "limit")
}
