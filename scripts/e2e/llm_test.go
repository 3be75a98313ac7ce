package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// probe is an MCP server with one tool, which prints its environment.
const probe = `#!/bin/sh
server='"serverInfo":{"name":"probe","version":"1"},"capabilities":{"tools":{}}'
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
  *'"initialize"'*) reply "{\"protocolVersion\":\"2025-06-18\",$server}";;
  *'"tools/list"'*) reply '{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}';;
  *'"tools/call"'*) reply "{\"content\":[{\"type\":\"text\",\"text\":\"$(env | tr -d '\\"' | tr '\n' ' ')\"}]}";;
  esac
done
`

// fakeModel is a Chat Completions endpoint. The prompt "look" makes it call the tool, and "stall" makes it stall in the
// middle of an answer. It answers anything else with the number of the request.
type fakeModel struct {
	url     string
	stalled chan struct{} // receives once an answer stalls

	mu    sync.Mutex
	asked []string
	keys  []string
}

func newFakeModel(t *testing.T) *fakeModel {
	m := &fakeModel{stalled: make(chan struct{}, 1)}
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var ask struct {
			Messages []struct{ Role, Content string }
		}
		_ = json.Unmarshal(body, &ask)
		m.mu.Lock()
		m.asked, m.keys = append(m.asked, string(body)), append(m.keys, r.Header.Get("Authorization"))
		n := len(m.asked)
		m.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta, finish string) {
			fmt.Fprintf(w, `data: {"model":"m-1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta,
				finish)
			w.(http.Flusher).Flush()
		}
		switch last := ask.Messages[len(ask.Messages)-1]; {
		case last.Role == "user" && last.Content == "look":
			say(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"probe__look","arguments":"{}"}}]}`,
				`"tool_calls"`)
		case last.Role == "user" && last.Content == "stall":
			// so long that its first lines are reported while it comes
			say(fmt.Sprintf(`{"content":%q}`, strings.Repeat("a line\n", 3000)+"I begin"), "null")
			m.stalled <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-end:
			}
			return
		default:
			say(fmt.Sprintf(`{"content":"answer %d"}`, n), `"stop"`)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(func() { close(end); server.Close() })
	m.url = server.URL
	return m
}

// TestLLMExecutor: ao-llm-exec is a program that the worker finds and starts. It alone gets the model's key and the
// worker's proxies. A session continues on another worker, also after a stop in the middle of an answer.
func TestLLMExecutor(t *testing.T) {
	t.Parallel()
	m, s := newFakeModel(t), up(t)
	s.write("profiles/mind.json", fmt.Sprintf(`{"type":"autonomous","command":"ao-llm-exec",`+
		`"config":{"base_url":%q,"model":"m","api_key_env":"MODEL_KEY"}}`, m.url))
	s.write("probe", probe)
	if r := s.post("/agents", fmt.Sprintf(`{"name":"mind","description":"of a story","type":"autonomous",`+
		`"executor_profile":"mind","mcp_servers":{"probe":{"command":%q}}}`, filepath.Join(s.dir, "probe"))); r.code !=
		201 {
		t.Fatal(r.code, r.text)
	}
	env := []string{"AO_PROFILES=mind", "MODEL_KEY=sk-of-the-model", "NO_PROXY=127.0.0.1,no-such-host",
		"UNRELATED=secret"}

	without := exec.Command(filepath.Join(bin, "worker"))
	without.Env = append(append(os.Environ(), s.env...), env...)
	if out, err := without.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "go build -o bin/ ./worker/llm/cmd/ao-llm-exec") {
		t.Errorf("a worker without the program: %v\n%s", err, out)
	}

	programs := t.TempDir()
	buildProgram(t, programs, "./worker/llm/cmd/ao-llm-exec")
	env = append(env, "PATH="+programs+":"+os.Getenv("PATH"))
	one := s.worker(env...)
	r := s.sync("mind", `{"prompt":"look"}`)
	s.has(r, 200, "completed", "answer 2")
	session := r.at("session_id")
	m.mu.Lock()
	seen := m.asked[1]
	for i, key := range m.keys {
		if key != "Bearer sk-of-the-model" {
			t.Errorf("request %d has the credential %q", i, key)
		}
	}
	m.mu.Unlock()
	if !strings.Contains(seen, "AGENT_ORCHESTRATOR_RUN_ID=") {
		t.Errorf("the model did not get what the tool returned: %s", seen)
	}
	for _, secret := range []string{"sk-of-the-model", "no-such-host", "UNRELATED", "AGENT_ORCHESTRATOR_GRANT"} {
		if strings.Contains(seen, secret) {
			t.Errorf("the tool saw %s: %s", secret, seen)
		}
	}

	stopped := s.post("/runs", fmt.Sprintf(`{"session_id":%q,"type":"resume_session","parameters":{"prompt":"stall"}}`,
		session))
	<-m.stalled
	s.until("the answer has arrived", func() bool { // else a stop may be sooner
		return strings.Contains(s.get("/sessions/"+session+"/events?limit=1000").text, "a line")
	})
	s.post("/runs/"+stopped.at("run_id")+"/stop", "")
	s.status(stopped.at("run_id"), "stopped")
	if r := s.get("/runs/" + stopped.at("run_id") + "/result"); !strings.Contains(r.text, "I begin") {
		t.Errorf("the result of the stopped run: %d %.300s", r.code, r.text)
	}
	if r := s.get("/sessions/" + session + "/events?limit=1000"); !strings.Contains(r.text, "I begin") {
		t.Errorf("the events do not have the end of the stopped answer: %.300s", r.text)
	}
	one.stop()
	s.worker(env...)
	s.has(s.post("/runs", fmt.Sprintf(`{"session_id":%q,"type":"resume_session","parameters":{"prompt":"go on"},`+
		`"mode":"sync"}`, session)), 200, "completed", "answer 4")
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, want := range []string{"look", "answer 2", "stall", `I begin\n\n[Cut off: the run was stopped]`, "go on"} {
		if !strings.Contains(m.asked[3], want) {
			t.Errorf("the model did not get %q: %s", want, m.asked[3])
		}
	}
}
