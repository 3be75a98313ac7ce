package command

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is checked and shown before it is stored: schemas, values for them, and the prompt that an agent's run would
// get.
func TestChecksBeforeStoring(t *testing.T) {
	const (
		badSchema = `{"valid":false,"errors":[{"path":"$.a\u001b","message":"[] is not of type 'object'","line":2,` +
			`"column":17},{"path":"$","message":"no"}]}`
		fits = `{"valid":true,"errors":[],"answer":{"valid":true,"chosen":1,"candidates":[{"text":"[]",` +
			`"errors":[]},{"text":"{\"n\":1.50}","errors":[]}]}}`
		fitsNot = `{"valid":true,"errors":[],"answer":{"valid":false,"chosen":0,"candidates":[{"text":"{}",` +
			`"errors":[{"path":"$.n","message":"'n' is a required property","line":1,"column":1}]}]}}`
		noAnswer = `{"valid":true,"errors":[],"answer":{"valid":false,"chosen":null,"candidates":[],"message":"No ` +
			`JSON output found"}}`
		previewed = `{"valid":true,"validation_errors":[],"prompt":"Do\u001b it\n","system_prompt":"Be brief.",` +
			`"runners":[{"runner_id":"rnr_1","hostname":"h","executor_profile":"p","matches":false,` +
			`"mismatches":[{"field":"model","message":"models are [a], without b"},{"field":"tags",` +
			`"message":"no gpu"}]}]}`
		refused = `{"valid":false,"validation_errors":[{"path":"$.prompt","message":"'prompt' is a required ` +
			`property"}],"prompt":null,"system_prompt":null,"runners":[]}`
		noToken = `{"name":"","kind":"none","scope":"admin","expires_at":null,"login":false,"version":"v1",` +
			`"deployment":"abc","time":"2026-01-31T12:00:00Z","may":[]}`
		somebody = `{"name":"ci","kind":"token","scope":"run","expires_at":"2026-01-31T12:00:00Z","login":true,` +
			`"version":"v1","deployment":"abc","time":"2026-01-31T12:00:00Z","may":["GET /runs"]}`
	)
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte(`{"name":"n","model":1.50}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args, in, answer string
		asked            string
		out, errs        string
		code             int
	}{
		{"schemas validate -", "{\n \"a\": []", badSchema, `POST /schemas/validate {"schema_text":"{\n \"a\": []"}`,
			"2:17: $.a\\x1b: [] is not of type 'object'\n$: no\n", "", exitFailed},
		{"schemas validate {}", "", `{"valid":true,"errors":[]}`, `POST /schemas/validate {"schema_text":"{}"}`,
			"valid\n", "", exitDone},
		{"schemas validate {} --json", "", badSchema, `POST /schemas/validate {"schema_text":"{}"}`, badSchema +
			"\n", "", exitFailed},
		{"schemas validate {} --answer - --strict-json", "It is {}", fits,
			`POST /schemas/validate {"answer":"It is {}","options":{"strict_json_only":true},"schema_text":"{}"}`,
			"{\n  \"n\": 1.50\n}\n", "", exitDone},
		{"schemas validate {} --answer -", "x", fitsNot, `POST /schemas/validate {"answer":"x","schema_text":"{}"}`,
			"{}\n", "the answer does not match:\n1:1: $.n: 'n' is a required property\n", exitFailed},
		{"schemas validate {} --answer -", "x", noAnswer, `POST /schemas/validate {"answer":"x","schema_text":"{}"}`,
			"", "No JSON output found\n", exitFailed},
		{"schemas validate - --answer -", "x", "", "", "", "ao: only one of schema and answer can be standard input",
			exitUsage},
		{"schemas validate {} --strict-json", "", "", "", "", "ao: --strict-json needs --answer", exitUsage},
		{"agents preview reviewer --prompt x", "", previewed,
			`POST /agents/preview {"agent_name":"reviewer","parameters":{"prompt":"x"}}`,
			"system prompt  Be brief.\nprompt         Do\\x1b it\nRUNNER  PROFILE  HOST  MATCHES  WHY NOT\n" +
				"rnr_1   p  " +
				"      h     no       models are [a], without b; no gpu\n", "", exitDone},
		{"agents preview " + file + " --params -", `{"10":1.0,"2":9007199254740993}`, refused,
			`POST /agents/preview {"definition":{"name":"n","model":1.50},"parameters":{"10":1.0,` +
				`"2":9007199254740993}}`,
			"", "no runner is registered; a run would wait\nthe parameters would be refused:\n" +
				"$.prompt: 'prompt' is a " +
				"required property\n", exitFailed},
		{"agents preview a/b", "", "", "", "", "ao: ", exitUsage},
		{"me", "", noToken, "GET /me ",
			"token        not required\nscope        admin\ncoordinator  URL v1\ndeployment   abc\n", "", exitDone},
		{"me", "", somebody, "GET /me ", "name         ci\nkind         token\nscope        run\n", "", exitDone},
		{"me --json", "", somebody, "GET /me ", somebody + "\n", "", exitDone},
	} {
		t.Run(tt.args, func(t *testing.T) {
			asked := ""
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = r.Method + " " + r.URL.Path + " " + string(body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tt.answer)
			})
			out, errs, code := ao(t, url, tt.in, strings.Fields(tt.args)...)
			if asked != tt.asked {
				t.Errorf("asked %s, want %s", asked, tt.asked)
			}
			want := strings.ReplaceAll(tt.out, "URL", url)
			if !strings.HasPrefix(out, want) || want == "" && out != "" || !strings.HasPrefix(errs, tt.errs) ||
				tt.errs == "" && errs != "" || code != tt.code {
				t.Errorf("got %d\n%q\n%q, want %d\n%q\n%q", code, out, errs, tt.code, want, tt.errs)
			}
		})
	}
}
