package command

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSchemas: the registry as a person and a program read it.
func TestSchemas(t *testing.T) {
	then := time.Now().Add(-2*time.Minute - 10*time.Second).UTC().Format(time.RFC3339Nano)
	sent := ""
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		answer := ""
		switch at := req.Method + " " + req.URL.Path; at {
		case "GET /schemas":
			answer = `{"schemas":[{"name":"findings","description":"What a review\u001b finds","created_at":"` + then +
				`"}]}`
		case "GET /schemas/findings":
			answer = `{"name":"findings","description":"What a review finds","schema":{"z":1.50,` +
				`"a":{"type":"object"}},"created_at":"0001-01-01T00:00:00Z"}`
		case "POST /schemas":
			raw, _ := io.ReadAll(req.Body)
			sent = string(raw)
			w.WriteHeader(201)
			answer = `{"name":"findings"}`
		case "DELETE /schemas/findings":
			w.WriteHeader(204)
		case "GET /agents/strict":
			answer = `{"name":"strict","type":"autonomous","status":"active","output_schema":{"z":1,"a":2},` +
				`"output_schema_options":{"max_retries":3}}`
		case "GET /agents/naming":
			answer = `{"name":"naming","type":"autonomous","status":"active","output_schema_name":"findings"}`
		case "GET /agents":
			answer = `{"agents":[]}`
		default:
			t.Errorf("unexpected %s", at)
		}
		_, _ = io.WriteString(w, answer)
	})
	for _, tt := range []struct{ args, in, out, errs string }{
		{"schemas", "", "SCHEMA    CREATED  DESCRIPTION\nfindings  2m ago   What a review\\x1b finds\n", ""},
		{"schemas --json", "", `{"name":"findings","description":"What a review\u001b finds","created_at":"` + then +
			`"}` + "\n", ""},
		{"schemas show findings", "", "{\n  \"z\": 1.50,\n  \"a\": {\n    \"type\": \"object\"\n  }\n}\n", ""},
		{"schemas create findings --file -", `{"z":1.50,"a":"<"}`, "", "findings created\n"},
		{"schemas delete findings", "", "", ""},
		{"agents show strict", "", `must match {"z":1,"a":2}; up to 3 corrections`, ""},
		{"agents show naming", "", "must match schema findings ('ao schemas show findings')", ""},
	} {
		out, errs, code := ao(t, url, tt.in, strings.Fields(tt.args)...)
		if !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || code != 0 {
			t.Errorf("%s: got %d, %q, %q\nwant %q, %q", tt.args, code, out, errs, tt.out, tt.errs)
		}
	}
	if want := `{"description":"","name":"findings","schema":{"z":1.50,"a":"<"}}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}
