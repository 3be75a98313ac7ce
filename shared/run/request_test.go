package run

import (
	"strings"
	"testing"
)

func TestRequestIsBroughtIntoOneForm(t *testing.T) {
	for _, tt := range []struct{ in, typ, mode, params string }{
		{`{"agent_name":"a"}`, Start, AsyncPoll, `{}`},
		{`{"agent_name":"a","parameters":null}`, Start, AsyncPoll, `{}`},
		{`{"agent_name":"a","prompt":"hi"}`, Start, AsyncPoll, `{"prompt":"hi"}`},
		{`{"agent_name":"a","prompt":"hi","parameters":{"prompt":"hi"},"mode":"sync"}`, Start, Sync, `{"prompt":"hi"}`},
		{`{"session_id":"ses_1","prompt":"on"}`, Resume, AsyncPoll, `{"prompt":"on"}`},
		{`{"agent_name":"a","session_id":"ses_own","execution_mode":"sync"}`, Start, Sync, `{}`},
		{`{"agent_name":"a","parameters":{"z":1,"a":1e3,"n":12345678901234567890}}`, Start, AsyncPoll,
			`{"z":1,"a":1e3,"n":12345678901234567890}`},
	} {
		t.Run(tt.in, func(t *testing.T) {
			r, err := ReadRequest([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if r.Type != tt.typ || r.Mode != tt.mode || string(r.Parameters) != tt.params {
				t.Errorf("got %s %s %s", r.Type, r.Mode, r.Parameters)
			}
		})
	}
}

func TestRequestIsRefusedByField(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{}`, `agent_name is required`},
		{`[]`, `must be a JSON object such as`},
		{`{"agent_name":"a","promt":"x"}`, `Unknown field "promt"`},
		{`{"agent_name":"a","type":"begin"}`, `type must be start_session or resume_session`},
		{`{"type":"resume_session","prompt":"x"}`, `resume_session needs session_id`},
		{`{"agent_name":"a","mode":"later"}`, `mode must be sync`},
		{`{"agent_name":"a","mode":"sync","execution_mode":"async_poll"}`, `mode and execution_mode differ`},
		{`{"agent_name":"a","output_schema_options":{"max_retries":11}}`,
			`output_schema_options.max_retries must be from 0 to 10`},
		{`{"agent_name":"a","output_schema_options":{"max_retries":-1}}`,
			`output_schema_options.max_retries must be from 0 to 10`},
		{`{"agent_name":"a","output_schema_options":{"max_retries":"2"}}`,
			`output_schema_options.max_retries must be a whole number`},
		{`{"agent_name":"a","output_schema_options":{"extract_json":"no"}}`,
			`output_schema_options.extract_json must be true or false`},
		{`{"agent_name":"a","output_schema_options":{"strict_json_only":1}}`,
			`output_schema_options.strict_json_only must be true or false`},
		{`{"agent_name":"a","output_schema_options":{"validation_mode":"soft"}}`,
			`output_schema_options.validation_mode must be strict or lenient`},
		{`{"agent_name":"a","output_schema_options":{"xyz":1}}`, `Unknown field "output_schema_options.xyz"`},
		{`{"agent_name":"a","output_schema_options":[]}`, `output_schema_options must be a JSON object`},
		{`{"agent_name":"a","output_schema_name":5}`, `output_schema_name must be a string`},
		{`{"agent_name":"a","max_attempts":0}`, `max_attempts must be from 1 to 100`},
		{`{"agent_name":"a","prompt":"x","parameters":{"prompt":"y"}}`, `prompt and parameters differ`},
		{`{"agent_name":"a","prompt":"x","parameters":{}}`, `prompt and parameters differ`},
		{`{"agent_name":"a","parameters":[1]}`, `parameters must be a JSON object`},
		{`{"agent_name":"a","timeout_seconds":0}`, `timeout_seconds must be from 1`},
		{`{"agent_name":"a","wait_seconds":5}`, `wait_seconds goes with mode sync only`},
		{`{"agent_name":"a","session_id":"ses_a.b"}`, `session_id "ses_a.b"`},
		{`{"agent_name":"a","session_id":"ses_*"}`, `session_id "ses_*"`},
		{`{"agent_name":"a","session_id":"../ses_a"}`, `session_id "../ses_a"`},
		{`{"agent_name":"a","session_id":"ses_a b"}`, `session_id "ses_a b"`},
		{`{"agent_name":"a","project_dir":"."}`, `project_dir must be an absolute path`},
		{`{"agent_name":"a","additional_demands":{"project_dir":"a/b"}}`,
			`additional_demands.project_dir must be an absolute path`},
		{`{"agent_name":"a","parent_session_id":"x>"}`, `parent_session_id "x>"`},
		{`{"agent_name":"a","additional_demands":{"tag":["x"]}}`, `Unknown field "additional_demands.tag"`},
		{`{"agent_name":"a","additional_demands":{"tags":[""]}}`, `a tag is not empty`},
		{`{"agent_name":"a","additional_demands":{"executor_type":"magic"}}`,
			`executor_type must be autonomous or procedural`},
		{`{"agent_name":"a","project_dir":"/a\nb"}`, `project_dir must be at most`},
	} {
		t.Run(tt.in, func(t *testing.T) {
			if _, err := ReadRequest([]byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDemandsAddUp(t *testing.T) {
	got := Merge(Demands{ExecutorProfile: "own"}, Demands{Hostname: "h1", Tags: []string{"b", "a"}},
		Demands{Hostname: "h2", ExecutorProfile: "x", Tags: []string{"a", "c"}})
	if got.ExecutorProfile != "own" || got.Hostname != "h1" || strings.Join(got.Tags, ",") != "a,b,c" {
		t.Errorf("got %+v", got)
	}
}
