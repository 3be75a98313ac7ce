package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// TestAnAgentsNumbersAndTimes: a value that a definition may not have is refused by that member's own name, and nothing
// is stored.
func TestAnAgentsNumbersAndTimes(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"there"}`).want(201)
	for member, want := range map[string]string{
		`"timeout_seconds":0`:                  "timeout_seconds must be from 1 to 2592000; leave it out for none",
		`"timeout_seconds":-1`:                 "timeout_seconds must be from 1 to 2592000",
		`"max_attempts":0`:                     "max_attempts must be from 1 to 100; leave it out for one",
		`"max_attempts":-5`:                    "max_attempts must be from 1 to 100",
		`"created_at":"2020-01-01T00:00:00Z"`:  "created_at is set by the coordinator; leave it out",
		`"modified_at":"2020-01-01T00:00:00Z"`: "modified_at is set by the coordinator; leave it out",
		`"runner_id":"rnr_1"`:                  "runner_id is set by the coordinator; leave it out",
		`"runners":0`:                          "runners is set by the coordinator; leave it out",
	} {
		field, _, _ := strings.Cut(strings.Trim(member, `"`), `"`)
		for _, g := range []got{
			s.post("/agents", `{"name":"fresh",`+member+`}`),
			s.call("PATCH", "/agents/there", `{`+member+`}`),
			s.post("/runner/register", `{"hostname":"h","executor_profile":"p","executor_type":"procedural",`+
				`"instance":"i","agents":[{"name":"own","command":"./x",`+member+`}]}`),
		} {
			if m := g.want(400); m["field"] != field || !strings.Contains(g.body, want) {
				t.Errorf("%s: %s", member, g.body)
			}
		}
	}
	s.get("/agents/fresh").want(404)
	s.get("/agents/own").want(404)
	if m := s.get("/agents/there").want(200); m["timeout_seconds"] != nil || m["max_attempts"] != nil {
		t.Errorf("got %v, want neither timeout_seconds nor max_attempts", m)
	}
	for _, field := range []string{"created_at", "modified_at"} {
		body := `{"name":"a","schema":{},"` + field + `":"2026-01-01T00:00:00Z"}`
		s.post("/schemas", body).refuses(body, field)
	}
}

// TestAgentOfARunnerCannotBeChanged: a caller that wants to own or change an agent of a runner learns what is possible.
func TestAgentOfARunnerCannotBeChanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	w := s.work(func(run.Queued) run.Outcome { return done(`{}`) }, echo("tool"))
	for _, g := range []got{
		s.post("/agents", `{"name":"tool"}`), s.call("PATCH", "/agents/tool", `{"description":"x"}`),
		s.call("DELETE", "/agents/tool", ""),
	} {
		m := g.want(409)
		for _, part := range []string{"belongs to runner " + w.id, `agents_dir of profile \"procedural\"`,
			"RUN_NO_MATCH_TIMEOUT"} {
			if !strings.Contains(g.body, part) {
				t.Errorf("no %s in %s", part, g.body)
			}
		}
		if m["agent_name"] != "tool" || m["runner_id"] != w.id || m["executor_profile"] != "procedural" {
			t.Errorf("got %s, want agent tool, runner %s, profile procedural", g.body, w.id)
		}
	}
}

// TestTheSizeOfParameters: parameters have one limit, that of all input, and beyond it are 413. Lists leave large ones
// out, and say so.
func TestTheSizeOfParameters(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.MaxPayload = 6 << 20 })
	s.workAs(thinker("mind"), func(run.Queued) run.Outcome { return done(`{}`) })
	s.post("/agents", `{"name":"plain","parameters_schema":{"type":"object"}}`).want(201)
	c := s.speak(versions[1])
	sized := func(n int) string {
		return `{"agent_name":"plain","parameters":{"a":"` + strings.Repeat("x", n) + `"}}`
	}

	before := s.stored()
	for entry, g := range map[string]got{
		"POST /runs": s.post("/runs", sized(6<<20)), "POST /runs/validate": s.post("/runs/validate", sized(6<<20)),
		"MCP": s.tool(c, sized(6<<20), 413),
	} {
		for _, part := range []string{`"error":"too_large"`, `"field":"parameters"`, `"limit":6291456`,
			"AO_MAX_PAYLOAD"} {
			if g.status != 413 || !strings.Contains(g.body, part) {
				t.Errorf("%s: status %d, no %s in %.300s", entry, g.status, part, g.body)
			}
		}
	}
	if s.stored() != before {
		t.Error("what is refused is stored")
	}

	sizes := map[string]int{}
	// beyond what a schema checks elsewhere, beside the record, in it, and shown
	for _, n := range []int{5 << 20, 300 << 10, 20 << 10, 10} {
		sizes[s.submit(sized(n)).RunID] = n
	}
	natstest.Until(t, "all are completed", func() bool { // a list is read faster than runs with their parameters
		return len(s.get("/runs?status=completed").want(200)["runs"].([]any)) == len(sizes)
	})
	for _, r := range s.get("/runs").want(200)["runs"].([]any) {
		r := r.(map[string]any)
		n := sizes[r["run_id"].(string)]
		if omitted := r["parameters_omitted"] == true; omitted != (n > 16<<10) || omitted != (r["parameters"] == nil) {
			t.Errorf("parameters of %d bytes are listed as omitted: %v, %.80v", n, r["parameters_omitted"],
				r["parameters"])
		}
	}
	for id, n := range sizes {
		r := s.get("/runs/" + id).want(200)
		if p, _ := r["parameters"].(map[string]any); p == nil || len(p["a"].(string)) != n ||
			r["parameters_omitted"] != nil {
			t.Errorf("a run shows other parameters than its %d bytes, or that they are omitted: %v", n,
				r["parameters_omitted"])
		}
	}
}

// TestNumbersInParameters: digits are kept, and a number that programs cannot compute with is refused with its path.
func TestNumbersInParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, echo("plain"))
	c := s.speak(versions[1])
	for number, want := range map[string]string{
		"1e400": "exponent must lie between -308 and 308", "-1E-400": "exponent must lie between -308 and 308",
		strings.Repeat("1", 65): "at most 64 characters are allowed",
	} {
		s.refusedEverywhere(c, `{"agent_name":"plain","parameters":{"deep":[`+number+`]}}`, 400,
			`"error":"parameter_validation_failed"`, `"path":"$.deep[0]"`, want)
	}
	const kept = `{"a":12345678901234567890,"b":1e308,"c":0.10,"d":-1E-308,"e":1.0000000000000000000000000000000001}`
	if r := s.until(s.submit(`{"agent_name":"plain","parameters":`+kept+`}`).RunID,
		run.Completed); string(r.Parameters) != kept {
		t.Errorf("%s", r.Parameters)
	}
}

// TestParametersThatNoCommandLineHolds: what a procedural agent's command could not be given is refused before it is
// stored, by its path and with what to do. Other agents read their parameters from a document, and take it.
func TestParametersThatNoCommandLineHolds(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, echo("plain"))
	s.post("/agents", `{"name":"mind","parameters_schema":{"type":"object"}}`).want(201)
	c := s.speak(versions[1])
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	many := func(n int, value string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"k%05d":%s`, i, value)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for name, tt := range map[string]struct{ parameters, field, want string }{
		"an empty key": {`{"":1}`, "parameters.", "the key is empty: give it a name"},
		"a key with =": {`{"a=b":1}`, "parameters.a=b", "the key contains '=': use another key"},
		"a key with a space": {`{"a b":1}`, "parameters.a b",
			"the key contains white space or a control character: use another key"},
		"a key with a NUL": {`{"a\u0000":1}`, `parameters.a\u0000`,
			"the key contains white space or a control character: use another key"},
		"a key with -": {`{"fine":1,"-x":false}`, "parameters.-x",
			"the key begins with '-': leave that out"},
		"a value with a NUL": {`{"k":"a\u0000b"}`, "parameters.k",
			"its value contains a NUL, which no command line can hold: take it out"},
		"a NUL in a list": {`{"k":["a\u0000b"]}`, "parameters.k", "its value contains a NUL"},
		"a value that is too long": {`{"k":` + long(131072) + `}`, "parameters.k",
			"its argument has 131072 bytes, and one may have 131071: split it, or write it to a file " +
				"and pass its path"},
		"a list that is too long": {`{"k":[` + long(65536) + `,` + long(65535) + `]}`, "parameters.k",
			"its argument has 131072 bytes"},
		"with its flag too long": {`{"k":"-` + strings.Repeat("x", 131067) + `"}`, "parameters.k",
			"its argument has 131072 bytes"},
		"a key that is too long": {`{` + long(131070) + `:true}`, "parameters." + strings.Repeat("x", 80),
			"its argument has 131072 bytes"},
		"too many": {many(4097, "1"), "parameters",
			"8194 arguments, and there may be 8192: pass lists, or write them to a file and pass its path"},
	} {
		t.Run(name, func(t *testing.T) {
			s.refusedEverywhere(c, `{"agent_name":"plain","parameters":`+tt.parameters+`}`, 400,
				`"error":"invalid_request"`, `"field":"`+tt.field+`"`, tt.want)
			s.post("/runs/validate", `{"agent_name":"mind","parameters":`+tt.parameters+`}`).want(200)
		})
	}
	t.Run("too much together", func(t *testing.T) { // more than a NATS message holds, and slow to read as MCP
		before := s.stored()
		body := `{"agent_name":"plain","parameters":` + many(13, long(131071)) + `}`
		for entry, g := range map[string]got{"POST /runs": s.post("/runs", body),
			"POST /runs/validate": s.post("/runs/validate", body)} {
			for _, part := range []string{`"field":"parameters"`, `"limit":1572864`,
				"1704053 bytes of arguments, and there may be 1572864 together: write them to a file " +
					"and pass its path"} {
				if g.status != 400 || !strings.Contains(g.body, part) {
					t.Errorf("%s: status %d, no %s in %.300s", entry, g.status, part, g.body)
				}
			}
		}
		if s.stored() != before {
			t.Error("what is refused is stored")
		}
	})
	for _, fits := range []string{
		`{"k":` + long(131071) + `}`, `{"k":"-` + strings.Repeat("x", 131066) + `"}`, `{` + long(131069) + `:true}`,
		many(4096, "1"), many(4097, "false"), many(11, long(131071)), `{"a.b":"x","größe":" -","n":-5}`,
	} {
		s.post("/runs/validate", `{"agent_name":"plain","parameters":`+fits+`}`).want(200)
	}
	s.until(s.submit(`{"agent_name":"plain","parameters":`+many(11, long(131071))+`}`).RunID, run.Completed)
}

// TestByteOrderMark: it is skipped before the body of each way in.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	s := start(t)
	const mark, body = "\ufeff", `{"agent_name":"marked","parameters":{"prompt":"x"}}`
	s.post("/agents", mark+`{"name":"marked"}`).want(201)
	s.post("/runs", mark+body).want(201)
	natstest.Until(t, "the service is there", func() bool {
		_, err := s.nc.Request(subject.APIAgentsList, nil, time.Second)
		return err == nil
	})
	s.request(subject.APIRunsCreate, mark+body).want(201)
	if _, err := s.nc.Request(subject.InboxRuns, []byte(mark+body), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the three runs are there, or one is rejected", func() bool {
		return len(s.rejected()) > 0 || len(into[query.Page](s.get("/runs"), 200).Runs) == 3
	})
	if bad := s.rejected(); len(bad) > 0 {
		t.Error(bad)
	}
	if g := s.rpc(mark + `{"jsonrpc":"2.0","id":1,"method":"ping"}`); !strings.Contains(g.body, `"result":{}`) {
		t.Errorf("%d %s", g.status, g.body)
	}
}
