package command

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folders writes files below a new folder.
func folders(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestImportAnAgent: what a folder of claude-agent-orchestrator becomes, and what is left out.
func TestImportAnAgent(t *testing.T) {
	const first = `{"name":"a","description":"d"`
	for name, tt := range map[string]struct {
		json  string
		files map[string]string
		want  string // the definition without name, description and status; or the error
		left  string
	}{
		"what has no counterpart": {json: first + `,"type":"autonomous","tags":["x"],"capabilities":["c"],` +
			`"skills":[],"hooks":{"on_run_start":{}},"visibility":"all",` +
			`"demands":{"tags":["gpu"]},"output_schema":null}`,
			want: `"type":"autonomous","tags":["x"],"demands":{"tags":["gpu"]}`,
			left: "capabilities, skills, hooks, visibility"},
		"a prompt, with byte order marks": {json: "\ufeff" + first + "}",
			files: map[string]string{"agent.system-prompt.md": "\ufeffBe brief."},
			want:  `"type":"autonomous","system_prompt":"Be brief."`},
		"switched off": {json: first + "}", files: map[string]string{".disabled": ""},
			want: `"type":"autonomous"|inactive`},
		"servers": {json: first + "}", files: map[string]string{"agent.mcp.json": "\ufeff" + `{"mcpServers":{` +
			`"o":{"type":"http","url":"${runner.orchestrator_mcp_url}","headers":{"X-Agent-Session-Id":` +
			`"${runtime.session_id}","X-Key":"${env.KEY}"}},` +
			`"s":{"command":"uvx","args":["a","${HOME}"],"env":{"T":"${scope.token}"}},` +
			`"r":{"ref":"ado","config":{}},"p":{"type":"http","url":"http://${params.host}/mcp"}}}`},
			want: `"type":"autonomous","mcp_servers":{"o":{"type":"http","url":"${AGENT_ORCHESTRATOR_MCP_URL}",` +
				`"headers":{"X-Key":"${KEY}"}},"s":{"command":"uvx","args":["a","${HOME}"],"env":{}}}`,
			left: "mcp_servers.o.headers.X-Agent-Session-Id (${runtime.session_id}), mcp_servers.s.env.T " +
				"(${scope.token}), mcp_servers.r (ref), mcp_servers.p (${params.host})"},
		"a procedural agent": {json: `{"name":"a","type":"procedural","command":"./x"}`,
			want: "it is procedural: copy its folder into a runner's agents_dir"},
		"a script": {json: `{"name":"a","type":"procedural","script":"x"}`, left: "script",
			want: "it is procedural: copy its folder"},
		"no JSON":      {json: `{"name":`, want: "agent.json: not JSON"},
		"no name":      {json: `{"description":"d"}`, want: `use 1 to 60 letters`},
		"a bad schema": {json: first + `,"output_schema":{"type":"robot"}}`, want: "output_schema is not a valid"},
		"servers twice": {json: first + `,"mcp_servers":{}}`, files: mcp(`{"mcpServers":{}}`),
			want: "keep one of them"},
		"no servers":     {json: first + `}`, files: mcp(`{"servers":{}}`), want: `agent.mcp.json must be JSON like`},
		"a list of them": {json: first + `}`, files: mcp(`{"mcpServers":[]}`), want: "its MCP servers: "},
		"a server that is none": {json: first + `}`, files: mcp(`{"mcpServers":{"s":1}}`),
			want: `"type":"autonomous","mcp_servers":{"s":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"agent.json": tt.json}
			for name, text := range tt.files {
				files[name] = text
			}
			out, errs, code := ao(t, "http://127.0.0.1:1", "", "agents", "import", folders(t, files), "--dry-run",
				"--json")
			want, status, off := strings.Cut(tt.want, "|")
			if !off {
				status = "active"
			}
			failed := !strings.HasPrefix(want, `"type"`)
			if !failed {
				want = `"definition":{"name":"a","description":"d",` + want + `,"status":"` + status + `"}`
			}
			left := ""
			if tt.left != "" {
				left = `"left_out":["` + strings.ReplaceAll(tt.left, ", ", `","`) + `"]`
			}
			if !strings.Contains(out, want) || !strings.Contains(out, left) || failed != (code == exitFailed) ||
				strings.Contains(out, `"left_out"`) != (left != "") {
				t.Errorf("%d %s%s\nwant %s\n%s", code, out, errs, want, left)
			}
		})
	}
}

func mcp(text string) map[string]string { return map[string]string{"agent.mcp.json": text} }

// TestImportAFolderOfAgents: each is created, and one that is bad or refused keeps none of the others out.
func TestImportAFolderOfAgents(t *testing.T) {
	dir := folders(t, map[string]string{"b/agent.json": `{"name":"b","hooks":{}}`, "c/agent.json": `{`,
		"d/agent.json": `{"name":"d"}`, "e/agent.json": `{"name":"e","tags":["x"]}`, "notes/README.md": "#"})
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "e/agent.system-prompt.md")); err != nil {
		t.Fatal(err)
	}
	var sent []string
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		sent = append(sent, req.Method+" "+req.URL.Path+" "+string(raw))
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(raw), `"d"`) {
			w.WriteHeader(409)
			_, _ = io.WriteString(w, `{"error":"agent_exists","message":"There is an agent d"}`)
			return
		}
		w.WriteHeader(201)
		_, _ = w.Write(raw)
	})
	out, errs, code := ao(t, url, "", "agents", "import", dir)
	want := "b: imported\n  left out: hooks\n" + dir + "/c: not imported: agent.json: not JSON"
	for _, part := range []string{want, dir + "/d: not imported: There is an agent d (agent_exists)\n",
		dir + "/e: not imported: agent.system-prompt.md: a link leads out of the folder"} {
		if !strings.Contains(out, part) {
			t.Errorf("it prints\n%swant\n%s", out, part)
		}
	}
	if code != exitFailed || errs != "not imported: 3 of 4\n" || len(sent) != 2 ||
		sent[0] != `POST /agents {"name":"b","description":"","type":"autonomous","status":"active"}` {
		t.Errorf("%d %s %q", code, errs, sent)
	}
	if out, errs, code := ao(t, url, "", "agents", "import", filepath.Join(dir, "b")); code != 0 ||
		out != "b: imported\n  left out: hooks\n" {
		t.Errorf("one agent: %d %s%s", code, out, errs)
	}
	odd := folders(t, map[string]string{
		"b\nd: can be imported\x1b/agent.json": `{"name":"b","x\ny":1,"output_schema":[]}`})
	if out, _, code := ao(t, "http://127.0.0.1:1", "", "agents", "import", odd, "--dry-run"); code != exitFailed ||
		strings.Count(out, "\n") != 2 || !strings.Contains(out, `/b\nd: can be imported\x1b: not imported: `) {
		t.Errorf("what a folder is called begins no line: %d %q", code, out)
	}
	for where, want := range map[string]string{
		filepath.Join(dir, "notes"): "neither it nor a folder in it has an agent.json",
		"/nowhere":                  "no such file or directory",
	} {
		_, errs, code := ao(t, url, "", "agents", "import", where)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s", where, code, errs)
		}
	}
	if out, _, code := ao(t, "http://127.0.0.1:1", "", "agents", "import", dir); code != exitUnreachable || out != "" {
		t.Errorf("without a coordinator: %d %s", code, out)
	}
}

// TestADryImportChecksAsAnImportDoes: names that are taken, and what the coordinator refuses in a definition.
func TestADryImportChecksAsAnImportDoes(t *testing.T) {
	dir := folders(t, map[string]string{"a/agent.json": `{"name":"a"}`, "b/agent.json": `{"name":"a"}`,
		"c/agent.json": `{"name":"c"}`,
		"d/agent.json": `{"name":"d","output_schema":{"items":{"$ref":"schema:gone"}}}`})
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		w.Header().Set("Content-Type", "application/json")
		answer, code := `{"name":"c"}`, 200
		switch at := req.Method + " " + req.URL.Path; {
		case at == "GET /agents/c":
		case req.Method == http.MethodGet:
			answer, code = `{"error":"not_found","message":"There is no agent"}`, 404
		case at != "POST /agents/preview":
			t.Errorf("unexpected %s", at)
		case strings.HasPrefix(string(raw), `{"definition":{"name":"d"`):
			answer, code = `{"error":"InvalidSchema","message":"no schema gone"}`, 400
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	})
	out, errs, code := ao(t, url, "", "agents", "import", dir, "--dry-run")
	want := strings.ReplaceAll(`a: can be imported
DIR/b: not imported: the name "a" is that of DIR/a, too
DIR/c: not imported: agent "c" exists already
DIR/d: not imported: no schema gone (InvalidSchema)
`, "DIR", dir)
	if out != want || code != exitFailed {
		t.Errorf("%d %s\n%swant\n%s", code, errs, out, want)
	}
	out, errs, code = ao(t, "http://127.0.0.1:1", "", "agents", "import", filepath.Join(dir, "c"), "--dry-run")
	if code != 0 || out != "c: can be imported\n" || !strings.Contains(errs, "without a coordinator") {
		t.Errorf("alone: %d %s%s", code, out, errs)
	}
}
