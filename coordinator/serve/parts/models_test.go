package parts

import (
	"fmt"
	"testing"

	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/run"
)

// TestModelsThatNoProfileAllows: a run is refused where each runner that would take it now refuses its agent's model.
func TestModelsThatNoProfileAllows(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	for name, model := range map[string]string{"small": `,"model":"small-1"`, "large": `,"model":"large-1"`,
		"any": ""} {
		if _, err := c.Agents.CreateAgent(t.Context(),
			[]byte(fmt.Sprintf(`{"name":%q,"max_turns":3%s}`, name, model))); err != nil {
			t.Fatal(err)
		}
	}
	try := func(name, code string) {
		t.Helper()
		body := []byte(fmt.Sprintf(`{"agent_name":%q,"prompt":"x"}`, name))
		_, err := c.Validate(t.Context(), body)
		_, again := c.Submit(t.Context(), body, "", "")
		for _, err := range []error{err, again} {
			if code != "" {
				wantCode(t, err, code)
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	try("large", "") // nobody is there who could say
	r := runner("one")
	r.ExecutorType, r.ExecutorProfile, r.Models = run.Autonomous, "p", agent.Models{"small-*"}
	register(t, c, r)
	try("small", "")
	try("any", "")
	try("large", agent.CodeModel)
	two := runner("two")
	two.Hostname, two.ExecutorType, two.ExecutorProfile, two.Models = "other", run.Autonomous, "q",
		agent.Models{"large-*"}
	register(t, c, two)
	try("large", "")
}
