package e2e

import (
	"os"
	"strings"
	"testing"
)

const (
	implicit = `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},` +
		`"additionalProperties":false}`
	crawler = `{"type":"object","required":["url"],"properties":{"url":{"type":"string","format":"uri"}}}`
	argv    = `for a in "$@"; do printf '<%s>\n' "$a"; done`
)

// TestInput: what is accepted reaches the program as it was sent. coordinator/serve has the table of refusals.
func TestInput(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("argv", argv, "")
	s.agent("web-tool", argv, `"parameters_schema":`+crawler)
	s.worker()
	s.has(s.post("/agents", `{"name":"plain"}`), 201)

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
