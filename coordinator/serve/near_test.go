package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ao/coordinator/serve"
	"ao/nats/natstest"
)

// TestUnknownAgentSuggestsSimilarNames: the error names up to three active agents with similar names, and to scope
// admin the folders that were read.
func TestUnknownAgentSuggestsSimilarNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := secure(t, func(c *serve.Config) { c.Coordinator.AgentsDirs = []string{dir} })
	for _, name := range []string{"summarizer", "summarise", "summarized", "summariser-2", "review"} {
		s.post("/agents", fmt.Sprintf(`{"name":%q}`, name), s.admin).want(201)
	}
	s.post("/agents", `{"name":"summarizing","status":"inactive"}`, s.admin).want(201)
	folder := filepath.Join(dir, "reviews")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "agent.json"), []byte(`{"name":"reviews"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the file is read", func() bool { return s.get("/agents/reviews", s.read).status == 200 })

	for _, tt := range []struct{ name, near, list string }{
		{"Summarizer", "; did you mean summarizer, summarized, summarise?", `["summarizer","summarized","summarise"]`},
		{"revjew", "; did you mean review, reviews?", `["review","reviews"]`},
		{"nothing-like-it", ";", ""},
		{"x", ";", ""},
	} {
		body, near := fmt.Sprintf(`{"agent_name":%q,"prompt":"x"}`, tt.name), ""
		if tt.list != "" {
			near = `,"near":` + tt.list
		}
		start := fmt.Sprintf(`{"error":"not_found","message":"There is no agent \"%s\"%s GET /agents lists them",`+
			`"agent_name":%q%s`, tt.name, tt.near, tt.name, near)
		literal(t, s.post("/runs", body, s.run), 404, start+`,"field":"agent_name"}`)
		literal(t, s.post("/runs", body, s.admin), 404, start+fmt.Sprintf(`,"field":"agent_name","folders":[%q]}`, dir))
		literal(t, s.get("/agents/"+tt.name, s.read), 404, start+`}`)
	}
}
