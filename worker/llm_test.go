package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"ao/nats/natstest"
	"ao/shared/run"
	"ao/worker/profile"
)

// TestLLMSession: a conversation of ao-llm-exec continues on a worker of another host, from what the orchestrator
// keeps.
func TestLLMSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		asked = append(asked, string(body))
		n := len(asked)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w,
			`data: {"model":"m-1","choices":[{"index":0,"delta":{"content":"answer %d"},"finish_reason":"stop"}]}`+
				"\n\ndata: [DONE]\n\n", n)
	}))
	t.Cleanup(model.Close)
	s := newFakeCoordinator(t, natstest.Bus(t))
	begin := func(host string) runningWorker {
		return start(t, s.b, nil, func(c *Config) {
			c.Executor, c.Host = nil, host
			c.Profile = profile.Profile{Name: "p", Type: run.Autonomous, Command: profile.LLMExec, MaxConcurrentRuns: 4,
				Config: json.RawMessage(fmt.Sprintf(`{"base_url":%q,"model":"m","api_key_env":""}`, model.URL))}
		})
	}
	prompt := func(text string) func(*run.Queued) {
		return func(q *run.Queued) {
			q.AgentType, q.Input = run.Autonomous,
				&run.Input{Parameters: json.RawMessage(fmt.Sprintf(`{"prompt":%q}`, text))}
		}
	}
	said := func(e run.Ended) string {
		if e.Result == nil || e.Result.Text == nil {
			return fmt.Sprint(e.Status, " ", e.Error)
		}
		return *e.Result.Text
	}
	w := begin("one")
	q := s.enqueue(prompt("first"))
	if got := said(s.waitEnded(q)); got != "answer 1" {
		t.Fatalf("got %s", got)
	}
	w.end(t)
	begin("two")
	if got := said(s.waitEnded(s.enqueue(s.nextTurn(q), prompt("second")))); got != "answer 2" {
		t.Fatalf("the second turn: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{`"first"`, `"answer 1"`, `"second"`} {
		if !strings.Contains(asked[1], want) {
			t.Errorf("the model was not told %s: %s", want, asked[1])
		}
	}
}
