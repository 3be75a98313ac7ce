package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	implicit = `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},` +
		`"additionalProperties":false}`
	crawler = `{"type":"object","required":["url"],"properties":{"url":{"type":"string","format":"uri"},` +
		`"depth":{"type":"integer","minimum":1},` +
		`"way":{"enum":["x","z"]},"word":{"type":"string","minLength":2,"maxLength":4,"pattern":"^[a-z]+$"},` +
		`"items":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}},` +
		`"any":{"anyOf":[{"type":"string"},{"type":"null"}]},` +
		`"when":{"type":"string","format":"date-time"}},"additionalProperties":false}`
	argv = `for a in "$@"; do printf '<%s>\n' "$a"; done`
)

// Invalid input is refused at every endpoint, and nothing of it is stored.
func TestInput(t *testing.T) {
	t.Parallel()
	s := up(t, "AO_MAX_PAYLOAD=1MiB")
	s.agent("argv", argv, "")
	s.agent("web-tool", argv, `"parameters_schema":`+crawler)
	s.worker()
	for _, body := range []string{`{"name":"plain"}`, `{"name":"asleep","status":"inactive"}`,
		`{"name":"web-crawler","parameters_schema":` + crawler + `}`} {
		s.has(s.post("/agents", body), 201)
	}

	s.story("parameters that do not match: all errors at once", func(s *stack) {
		wrong := func(agent, schema string, errs ...string) string {
			return fmt.Sprintf(`{"error":"parameter_validation_failed","message":"Parameters do not match agent's `+
				`parameters_schema","agent_name":"%s","validation_errors":[%s],"parameters_schema":%s}`,
				agent, strings.Join(errs, ","), schema)
		}
		at := func(path, message, schemaPath string) string {
			return fmt.Sprintf(`{"path":"%s","message":"%s","schema_path":"%s"}`, path, message, schemaPath)
		}
		const ok = `"url":"http://a/"`
		for _, tt := range []struct{ agent, parameters, want string }{
			{"web-crawler", `{"url":"not-a-url"}`,
				wrong("web-crawler", crawler, at("$.url", "'not-a-url' is not a valid URI", "properties.url.format"))},
			{"web-tool", `{"depth":0,"zz":1}`, wrong("web-tool", crawler,
				at("$.depth", "0 is less than the minimum of 1", "properties.depth.minimum"),
				at("$.url", "'url' is a required property", "required"),
				at("$.zz", "Additional properties are not allowed ('zz' was unexpected)", "additionalProperties"))},
			{"web-tool", `{` + ok + `,"way":"y"}`,
				wrong("web-tool", crawler, at("$.way", "'y' is not one of ['x', 'z']", "properties.way.enum"))},
			{"web-tool", `{"url":123}`,
				wrong("web-tool", crawler, at("$.url", "123 is not of type 'string'", "properties.url.type"))},
			{"web-tool", `{` + ok + `,"word":"x"}`,
				wrong("web-tool", crawler, at("$.word", "'x' is too short", "properties.word.minLength"))},
			{"web-tool", `{` + ok + `,"word":"abcde"}`,
				wrong("web-tool", crawler, at("$.word", "'abcde' is too long", "properties.word.maxLength"))},
			{"web-tool", `{` + ok + `,"word":"A1"}`,
				wrong("web-tool", crawler, at("$.word", "'A1' does not match '^[a-z]+$'", "properties.word.pattern"))},
			{"web-tool", `{` + ok + `,"items":[{"b":"x"},{"b":1}]}`,
				wrong("web-tool", crawler, at("$.items[1].b", "1 is not of type 'string'",
					"properties.items.items.properties.b.type"))},
			{"web-tool", `{` + ok + `,"any":5}`,
				wrong("web-tool", crawler, at("$.any", "5 is not valid under any of the given schemas",
					"properties.any.anyOf"))},
			{"web-tool", `{` + ok + `,"odd key":1}`,
				wrong("web-tool", crawler,
					at("$['odd key']", "Additional properties are not allowed ('odd key' was unexpected)",
						"additionalProperties"))},
			{"web-tool", `{` + ok + `,"depth":1.5}`,
				wrong("web-tool", crawler, at("$.depth", "1.5 is not of type 'integer'", "properties.depth.type"))},
			{"plain", `{}`, wrong("plain", implicit, at("$.prompt", "'prompt' is a required property", "required"))},
			{"plain", `{"prompt":""}`,
				wrong("plain", implicit, at("$.prompt", "'' should be non-empty", "properties.prompt.minLength"))},
			{"plain", `{"prompt":"x","more":1}`,
				wrong("plain", implicit, at("$.more", "Additional properties are not allowed ('more' was unexpected)",
					"additionalProperties"))},
			{"web-crawler", `{` + ok + `,"prompt":"x"}`,
				wrong("web-crawler", crawler,
					at("$.prompt", "Additional properties are not allowed ('prompt' was unexpected)",
						"additionalProperties"))},
		} {
			body := fmt.Sprintf(`{"agent_name":%q,"parameters":%s}`, tt.agent, tt.parameters)
			s.is(s.post("/runs", body), 400, tt.want)
			s.is(s.post("/runs/validate", body), 400, tt.want)
		}
	})

	s.story("bad requests", func(s *stack) {
		invalid := func(message, field string) string {
			if field != "" {
				field = `,"field":"` + field + `"`
			}
			return `{"error":"invalid_request","message":"` + message + `"` + field + `}`
		}
		for _, tt := range []struct {
			body string
			code int
			want string
		}{
			{`{"agent_name":"nobody"}`, 404, `"message":"There is no agent \"nobody\"; GET /agents lists them",` +
				`"agent_name":"nobody","field":"agent_name","folders":["`},
			{`{"agent_name":"asleep","prompt":"x"}`, 409, `{"error":"agent_inactive","message":"Agent asleep is ` +
				`inactive; set its status to active first","agent_name":"asleep"}`},
			{`{"agent_name":"../argv"}`, 404, ``},
			{`{}`, 400, invalid("agent_name is required to start a session; GET /agents lists them", "agent_name")},
			{``, 400, invalid("The body is not JSON: it ends too early", "")},
			{`agent=argv`, 400, ``},
			{`{"agent_name":"argv"} x`, 400, ``},
			{`["argv"]`, 400,
				invalid(`The body must be a JSON object such as {\"agent_name\":\"…\",\"parameters\":{…}}`, "")},
			{`{"agent_name":"argv","agent_name":"argv"}`, 400,
				invalid(`$ has the key \"agent_name\" twice; send each key once`, "agent_name")},
			{`{"agent_name":"argv","parameters":{"a":{"b":1,"b":2}}}`, 400,
				invalid(`$.parameters.a has the key \"b\" twice; send each key once`, "b")},
			{`{"agent_name":"argv","parameters":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) +
				`}}`, 400, `nests deeper than 64 levels`},
			{`{"agent_name":"argv","parameters":[1]}`, 400, invalid("parameters must be a JSON object", "parameters")},
			{`{"agent_name":"argv","parameters":"x"}`, 400, invalid("parameters must be a JSON object", "parameters")},
			{`{"agent_name":5}`, 400, `"field":"agent_name"`},
			{`{"agent_name":"argv","paramters":{}}`, 400, `Unknown field \"paramters\"; known are `},
			{`{"agent_name":"argv","additional_demands":{"host":"x"}}`, 400,
				`Unknown field \"additional_demands.host\"`},
			{`{"agent_name":"plain","prompt":"a","parameters":{"prompt":"b"}}`, 400,
				invalid(`prompt and parameters differ; prompt is short for parameters {\"prompt\":…}, send one of them`,
					"prompt")},
			{`{"agent_name":"plain","prompt":"x","mode":"async_callback"}`, 400,
				invalid("mode async_callback needs parent_session_id, the session that is called back (callback_url "+
					"is for an HTTP receiver)", "parent_session_id")},
			{`{"agent_name":"plain","prompt":"x","callback_url":"http://x"}`, 400,
				invalid("callback_url is refused: HTTP callbacks are disabled here; whoever runs the coordinator "+
					"enables them by naming the allowed hosts in AO_CALLBACK_HOSTS; otherwise leave it out",
					"callback_url")},
			{`{"agent_name":"plain","prompt":"x","output_schema":{"type":"objekt"}}`, 400,
				`{"error":"InvalidSchema","message":"output_schema is not a valid JSON Schema","details":"Schema ` +
					`validation error at $.type: 'objekt' is not one of ['array', 'boolean', 'integer', 'null', ` +
					`'number', 'object', 'string']","field":"output_schema"}`},
			{`{"agent_name":"plain","prompt":"x","output_schema_name":"n"}`, 404,
				`{"error":"SchemaNotFound","message":"Output schema 'n' not found","output_schema_name":"n"}`},
			{`{"agent_name":"plain","prompt":"x","output_schema_options":{}}`, 400, `"field":"output_schema_options"`},
			{`{"agent_name":"plain","prompt":"x","max_attempts":0}`, 400, invalid("max_attempts must be from 1 to 100",
				"max_attempts")},
			{`{"agent_name":"plain","prompt":"x","mode":"soon"}`, 400,
				invalid("mode must be sync, async_poll or async_callback", "mode")},
			{`{"agent_name":"plain","prompt":"x","mode":"sync","execution_mode":"async_poll"}`, 400,
				invalid("mode and execution_mode differ; send one of them", "execution_mode")},
			{`{"agent_name":"plain","prompt":"x","timeout_seconds":0}`, 400,
				invalid("timeout_seconds must be from 1 to 2592000", "timeout_seconds")},
			{`{"agent_name":"plain","prompt":"x","wait_seconds":3}`, 400,
				invalid("wait_seconds goes with mode sync only", "wait_seconds")},
			{`{"type":"begin","agent_name":"plain","prompt":"x"}`, 400,
				invalid("type must be start_session or resume_session", "type")},
			{`{"type":"resume_session","prompt":"x"}`, 400,
				invalid("resume_session needs session_id: which session goes on?", "session_id")},
			{`{"type":"resume_session","session_id":"ses_none","prompt":"x"}`, 404,
				`{"error":"not_found","message":"There is no session ses_none; GET /sessions lists those that are ` +
					`kept","session_id":"ses_none"}`},
			{`{"agent_name":"plain","prompt":"x","parent_session_id":"ses_none"}`, 404, `"field":"parent_session_id"`},
			{`{"agent_name":"plain","prompt":"x","session_id":"ses_a.b"}`, 400, `"field":"session_id"`},
			{`{"agent_name":"plain","prompt":"x","session_id":"ses_>"}`, 400, `"field":"session_id"`},
			{`{"agent_name":"plain","prompt":"x","session_id":"mine"}`, 400, `"field":"session_id"`},
			{`{"agent_name":"plain","prompt":"x","session_id":"ses_` + strings.Repeat("x", 65) +
				`"}`, 400, `"field":"session_id"`},
			{`{"agent_name":"plain","prompt":"x","parent_session_id":"ses_*"}`, 400, `"field":"parent_session_id"`},
			{`{"agent_name":"plain","prompt":"x","project_dir":"a\u0000b"}`, 400, `"field":"project_dir"`},
			{`{"agent_name":"plain","prompt":"x","additional_demands":{"executor_profile":"a.*"}}`, 400,
				`"field":"additional_demands.executor_profile"`},
			{`{"agent_name":"plain","prompt":"x","additional_demands":{"tags":[""]}}`, 400,
				`"field":"additional_demands.tags"`},
		} {
			for _, door := range []string{"/runs", "/runs/validate"} {
				if r := s.post(door, tt.body); strings.HasPrefix(tt.want, `{"error"`) {
					s.is(r, tt.code, tt.want)
				} else {
					s.has(r, tt.code, `{"error":"`, `"message":"`, tt.want)
				}
			}
		}
		large := `{"agent_name":"argv","parameters":{"a":"` + strings.Repeat("x", 5<<19) + `"}}`
		s.has(s.post("/runs", large), 413, `"error":"too_large"`, "AO_MAX_PAYLOAD")
		// below the body's limit, above its own
		s.has(s.post("/runs", large[:5]+large[5:3<<19]+`"}}`), 413, `"field":"parameters"`)
		s.has(s.post("/runs", `{"agent_name":"argv"}`, "Idempotency-Key", ""), 400, `"field":"Idempotency-Key"`)
		s.has(s.post("/runs", `{"agent_name":"argv"}`, "Content-Encoding", "gzip"), 400, `"field":"Content-Encoding"`)
	})

	s.story("foreign ids", func(s *stack) {
		for _, id := range []string{"run_*", "run_%3E", "run_a.b", "run_..%2f..", "run_a%20b", "ses_x", "%2e%2e",
			"run_" + strings.Repeat("x", 200), "run_%00", "run_%C3%A4"} {
			for _, r := range []reply{s.get("/runs/" + id), s.get("/runs/" + id + "/result"),
				s.get("/runs/" + id + "/wait"), s.post("/runs/"+id+"/stop", "")} {
				s.has(r, 400, `"error":"invalid_request"`, `"field":"run_id"`)
			}
		}
		for _, id := range []string{"ses_*", "ses_%3E", "ses_a.b", "ses_..%2f..", "ses_a%20b", "run_x", "ses_" +
			strings.Repeat("x", 65)} {
			for _, path := range []string{"", "/status", "/result", "/events", "/tree"} {
				s.has(s.get("/sessions/"+id+path), 400, `"field":"session_id"`)
			}
			s.has(s.do("DELETE", "/sessions/"+id, ""), 400, `"field":"session_id"`)
			s.has(s.get("/sse/sessions?session_id="+id), 400, `"field":"session_id"`)
		}
		for _, path := range []string{"/runs/run_none", "/runs/run_none/result", "/runs/run_none/wait",
			"/sessions/ses_none", "/sessions/ses_none/result", "/sessions/ses_none/events", "/sessions/ses_none/tree",
			"/sse/sessions?session_id=ses_none"} {
			// a stream that cannot begin yet has begun with 200, and says it then
			s.checkGet(path, 404, `"error":"not_found"`)
		}
		s.has(s.do("DELETE", "/runners/rnr_*", ""), 400, `"field":"runner_id"`)
		s.has(s.do("DELETE", "/runners/rnr_none", ""), 404, `"error":"not_found"`)
		s.has(s.do("DELETE", "/runners/_owners", ""), 400, `"field":"runner_id"`)
		for query, field := range map[string]string{
			"status=done": "status", "limit=0": "limit", "limit=x": "limit", "cursor=x": "cursor",
			"agent_name=a.b": "agent_name", "session_id=ses_*": "session_id",
			"created_after=yesterday": "created_after", "colour=red": "colour", "limit=1&limit=2": "limit",
			"parent_session_id=x": "parent_session_id",
		} {
			s.has(s.get("/runs?"+query), 400, `"field":"`+field+`"`)
			s.has(s.get("/sessions?"+query), 400, `"field":"`+field+`"`)
		}
		for query, field := range map[string]string{"runner_id=rnr_*": "runner_id", "roots=yes": "roots",
			"retry_of=x": "retry_of", "q=" + strings.Repeat("x", 300): "q", "status=done": "status"} {
			s.has(s.get("/runs?"+query), 400, `"field":"`+field+`"`)
			s.has(s.get("/runs/count?"+query), 400, `"field":"`+field+`"`)
		}
		s.has(s.get("/runs/count?limit=1"), 400, `"field":"limit"`)
		s.has(s.do("PUT", "/runs", ""), 405, "possible: ")
	})

	s.story("of all that nothing is stored", func(s *stack) {
		s.is(s.get("/runs"), 200, `{"runs":[]}`)
		s.is(s.get("/sessions"), 200, `{"sessions":[]}`)
	})

	s.story("order of keys and digits of numbers reach the command", func(s *stack) {
		const parameters = `{"zeta":"z","alpha":12345678901234567890123,"m":1.10,"e":1E300,"flag":true,"off":false,` +
			`"none":null,"list":["a","b c",3,1.50],` +
			`"obj":{"b":1,"a":2.50},"neg":-5.0,"dash":"-x","empty":"","text":"ä€ \"quoted\" $HOME ; <b>&",` +
			`"lines":"a\nb","a":0}`
		r := s.sync("argv", parameters)
		want := []string{"--zeta", "z", "--alpha", "12345678901234567890123", "--m", "1.10", "--e", "1E300", "--flag",
			"--list", "a,b c,3,1.50",
			"--obj", `{"b":1,"a":2.50}`, "--neg=-5.0", "--dash=-x", "--empty", "", "--text", `ä€ "quoted" $HOME ; <b>&`,
			"--lines", "a\nb", "--a", "0"}
		s.same("the arguments", r.at("result.result_data.stdout"), "<"+strings.Join(want, ">\n<")+">\n")
		for _, path := range []string{"/runs/" + r.at("run_id"), "/runs"} {
			s.contains(s.get(path).text, `"parameters":`+parameters)
		}
	})

	s.story("a run without parameters has none", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"argv","mode":"sync"}`)
		s.has(r, 200, `"parameters":{}`, `"result_data":{"return_code":0,"stdout":"","stderr":""}`)
		s.has(s.post("/runs", `{"agent_name":"argv","parameters":null,"mode":"sync"}`), 200, `"parameters":{}`)
	})

	s.story("what a command line cannot hold", func(s *stack) {
		for _, parameters := range []string{`{"a":"x\u0000y"}`, `{"a b":1}`, `{"":1}`, `{"-x":1}`, `{"a=b":1}`} {
			s.has(s.post("/runs", `{"agent_name":"argv","parameters":`+parameters+`}`), 400,
				`"error":"invalid_request"`, "cannot be passed to a command")
		}
	})

	s.story("prompt is short for parameters", func(s *stack) {
		for _, body := range []string{`"prompt":"a \"b\""`, `"parameters":{"prompt":"a \"b\""}`,
			`"prompt":"a \"b\"","parameters":{"prompt":"a \"b\""}`} {
			r := s.get("/runs/" + s.run(`{"agent_name":"plain",`+body+`}`))
			s.has(r, 200, `"parameters":{"prompt":"a \"b\""}`, `"type":"start_session"`)
			s.has(s.post("/runs/"+r.at("run_id")+"/stop", ""), 200, `"status":"stopped"`)
		}
		s.has(s.post("/runs/validate", `{"agent_name":"plain","prompt":"x"}`), 200,
			`{"valid":true,"agent_name":"plain","type":"start_session"`, `"parameters_schema":`+implicit,
			`"runner_available":false`)
		s.has(s.post("/runs/validate", `{"agent_name":"web-tool","parameters":{"url":"http://a/"}}`), 200,
			`"valid":true`, `"parameters_schema":`+crawler, `"runner_available":true`)
	})

	s.story("what cannot be resumed", func(s *stack) {
		done := s.sync("argv", `{}`)
		resume := `{"type":"resume_session","session_id":"` + done.at("session_id") + `","prompt":"x"}`
		s.is(s.post("/runs", resume), 400, `{"error":"procedural_agent_no_resume","message":"Procedural agents are `+
			`stateless and cannot be resumed","agent_name":"argv"}`)
		s.is(s.post("/runs", strings.Replace(resume, `"type":"resume_session",`, "", 1)), 400,
			`{"error":"procedural_agent_no_resume","message":"Procedural agents are stateless and cannot be resumed",`+
				`"agent_name":"argv"}`)
		id := s.run(`{"agent_name":"plain","prompt":"x","session_id":"ses_waits"}`)
		s.has(s.post("/runs/"+id+"/stop", ""), 200)
		s.is(s.post("/runs", `{"type":"resume_session","session_id":"ses_waits","prompt":"x"}`), 409,
			`{"error":"session_never_began","message":"The model session of ses_waits never started, so there is `+
				`nothing to resume; start a new session","session_id":"ses_waits"}`)
		s.has(s.post("/runs", `{"type":"resume_session","session_id":"ses_waits","agent_name":"argv","prompt":"x"}`),
			400, `belongs to agent \"plain\"`)
	})

	s.story("a command that has gone since is a failed run", func(s *stack) {
		s.has(s.sync("argv", `{}`), 200, `"status":"completed"`)
		if err := os.Remove(s.dir + "/agents/argv/run"); err != nil {
			t.Fatal(err)
		}
		s.has(s.sync("argv", `{}`), 200, `"status":"failed"`, `"error":"command_not_found"`, `"result":null`)
		s.write("agents/argv/run", "#!/no/such/interpreter\n")
		s.has(s.sync("argv", `{}`), 200, `"status":"failed"`, `"error":"command_not_`)
	})
}
