//go:build newcomer

package newcomer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/scripts/rules"
	"ao/worker/claudecode/standin"
)

// printed has, for each command of a page, what it prints. A command that is not here fails the test.
var printed = map[string]string{
	`ao run security-scanner --prompt "Look through src"`:               `"issues"`,
	"ao run content-writer --param topic=tea --param format=essay":      "tea",
	`ao run summarizer --prompt '@json {"wrong":1}'`:                    `"summary"`,
	`ao run --resume ses_… --prompt "and now?"`:                         `"summary"`,
	`ao run summarizer --prompt "part 1" --parent ses_… --call-back -d`: "run_",
	"chmod +x minds/echo":          "",
	"ao conformance -- minds/echo": "",
	`ao agents create '{"name":"thinker","description":"thinks","executor_profile":"echo"}'`: "thinker created",
	`ao run thinker --prompt "hello"`:              "I was asked",
	"ao tokens create --help":                      "Usage",
	"ao dashboard":                                 "http",
	"ao agents import config/agents --dry-run":     "can be imported",
	"ao agents import config/agents":               "poet: imported",
	"bin/ao run text-stats --param file=README.md": "words",
}

// follow runs the commands of a section, one after the other. Those that begin with a key of special are run by it.
func (r *reader) follow(path, heading string, special map[string]func(line string)) {
	r.t.Helper()
commands:
	for _, c := range r.commands(path, heading) {
		if why := rules.NotRun(c); why != "" {
			r.t.Logf("NOT RUN HERE: %s: %s", c.Text, why)
			continue
		}
		for prefix, run := range special {
			if strings.HasPrefix(c.Text, prefix) {
				run(c.Text)
				continue commands
			}
		}
		want, known := printed[c.Text]
		if !known {
			r.t.Errorf("%s has a new command, and this test does not know what it prints: %s", path, c.Text)
			continue
		}
		r.run(c.Text, want, time.Minute)
		if strings.HasPrefix(c.Text, "ao run ") {
			r.session = r.lastSession()
		}
	}
}

// lastSession returns the newest session.
func (r *reader) lastSession() string {
	r.t.Helper()
	_, body, _ := strings.Cut(r.get("/sessions?limit=1", "session_id", time.Minute), "{")
	var list struct {
		Sessions []struct {
			ID string `json:"session_id"`
		}
	}
	if err := json.Unmarshal([]byte("{"+body), &list); err != nil || len(list.Sessions) == 0 {
		r.t.Fatalf("no session in {%s: %v", body, err)
	}
	return list.Sessions[0].ID
}

// block returns the indented block of a page that begins with these words.
func (r *reader) block(path, begin string) string {
	r.t.Helper()
	_, rest, ok := strings.Cut(r.page(path), "\n    "+begin)
	if !ok {
		r.t.Fatalf("%s has no block that begins with %s", path, begin)
	}
	block, _, _ := strings.Cut("    "+begin+rest, "\n\n")
	return strings.ReplaceAll("\n"+block, "\n    ", "\n")[1:] + "\n"
}

// write writes a file of the clone.
func (r *reader) write(path, text string, mode os.FileMode) {
	r.t.Helper()
	path = filepath.Join(r.clone, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

// collector is an OpenTelemetry collector that looks for the trace of tracing.md's caller.
type collector struct {
	addr       string
	requests   atomic.Int32
	found      atomic.Bool
	traceBytes []byte
}

func newCollector(t *testing.T, trace string) *collector {
	t.Helper()
	id, err := hex.DecodeString(trace)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{traceBytes: id}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil && req.URL.Path == "/v1/traces" {
			c.requests.Add(1)
			if bytes.Contains(body, c.traceBytes) {
				c.found.Store(true)
			}
		}
	}))
	t.Cleanup(s.Close)
	c.addr = s.Listener.Addr().String()
	return c
}

// claude runs a line that adds a coordinator to Claude Code, which then has to reach it. The user's own settings are
// left alone. A line with a token is for a coordinator that asks for one.
func (r *reader) claude(line string) {
	r.t.Run("claude", func(t *testing.T) {
		at := *r
		at.t = t
		if strings.Contains(line, "$AO_TOKEN") {
			at.guarded()
		}
		standin.Each(t, func(t *testing.T, program string) {
			own, home := at, t.TempDir()
			own.t = t
			own.env = append(slices.Clone(at.env), "HOME="+home, "CLAUDE_CONFIG_DIR="+home,
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
			own.run(line, "orchestrator", time.Minute)
			own.run("claude mcp list", "✔ Connected", time.Minute)
		})
	})
}

// guarded starts another coordinator in the clone, which asks for tokens. The reader has one.
func (r *reader) guarded() {
	r.t.Helper()
	data := r.t.TempDir()
	r.http, r.nats = natstest.FreeAddr(r.t), natstest.FreeAddr(r.t)
	r.env = append(slices.Clone(r.env), "AO_HTTP_ADDR="+r.http, "AO_NATS_LISTEN="+r.nats, "AO_URL=http://"+r.http,
		"AO_DATA_DIR="+data, "AO_API_TOKENS="+filepath.Join(data, "tokens"))
	token, err := r.command("ao tokens create --name reader --scope run").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	r.env = append(r.env, "AO_TOKEN="+strings.TrimSpace(string(token)))
	r.up("scripts/up")
}

// TestThePages: the commands of the pages about agents, their executors and their traces, in one clone, as they stand
// there.
func TestThePages(t *testing.T) {
	const docs = "shared/docs/"
	r := newReader(t)
	spans := newCollector(t, "0af7651916cd43dd8448eb211c80319c")
	r.otlp = spans.addr
	r.follow(docs+"tracing.md", "## Try it", map[string]func(string){"OTEL_": func(line string) { r.up(line) }})
	r.exports = []string{"export PATH=$PWD/bin:$PATH"}
	ran := func(want string) func(string) {
		return func(line string) { r.run(line, want, time.Minute) }
	}
	r.follow(docs+"tracing.md", "## For callers", map[string]func(string){"curl ": ran(`"run_id"`)})
	natstest.Until(t, "the collector gets the caller's trace", spans.found.Load)

	worker := func(line string) { // beside scripts/up, in a terminal of its own
		profile := strings.Fields(line)[3]
		r.start("AO_NATS_URL=nats://" + r.nats + " " + line)
		r.get("/runners", `"executor_profile":"`+profile+`"`, time.Minute)
	}
	r.follow(docs+"agents.md", "## Autonomous agents", nil)
	r.write("minds/echo.json", r.block(docs+"agents.md", `{"type": "autonomous", "command": "./echo"`), 0o644)
	r.write("minds/echo", r.block(docs+"agents.md", "#!/bin/sh"), 0o644)
	r.follow(docs+"agents.md", "## Executors", map[string]func(string){"ao worker -x ": worker})

	r.write("config/agents/poet/agent.json", `{"name":"poet","description":"d","hooks":{}}`, 0o644)
	r.follow(docs+"from-claude-agent-orchestrator.md", "## Bring your agents", nil)

	claude := map[string]func(string){"curl ": ran("completed"), "claude mcp add ": r.claude}
	r.follow(docs+"agents.md", "## Agents that call agents", claude)
	r.follow(docs+"mcp.md", "## Connecting", claude)
	r.follow(docs+"http.md", "# HTTP: how to call the API", map[string]func(string){"curl ": ran(`"completed"`)})
	r.follow(docs+"metrics.md", "# Metrics: what to scrape, and what to do about an alert",
		map[string]func(string){"curl ": ran("ao_ready 1")})
	if _, err := exec.LookPath("nats"); err == nil {
		r.follow(docs+"protocol.md", "# Protocol: what goes over NATS", map[string]func(string){
			"nats ": func(line string) { r.run(line+" --server "+r.nats, `"status":"pending"`, time.Minute) }})
	}

	r.follow("coordinator/dashboard/ui/pages/login.js", "CodeLine", nil)

	door := "#!/bin/sh\n"
	r.follow(docs+"gateway.md", "# The gateway: HTTP for the programs of a run",
		map[string]func(string){"curl ": func(line string) { door += line + "\n" }})
	r.write("doors/door.json", `{"type":"autonomous","command":"./door"}`, 0o644)
	r.write("doors/door", door, 0o755)
	worker("ao worker -x door --profiles-dir doors")
	r.run(`ao agents create '{"name":"keeper","executor_profile":"door"}'`, "keeper", time.Minute)
	r.run("ao run keeper --prompt x", `"files"`, time.Minute)
	r.run("ao events "+r.lastSession(), "12 of 40 files", time.Minute)
}
