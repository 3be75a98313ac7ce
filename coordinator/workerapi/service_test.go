package workerapi

import (
	"strings"
	"testing"

	"ao/coordinator/runners"
	"ao/shared/fault"
	"ao/shared/run"
)

// Too many agents are refused before they are read.
func TestTooManyAgentsAreNotRead(t *testing.T) {
	t.Parallel()
	body := []byte(`{"executor_type":"` + run.Procedural + `","agents":[` +
		strings.Repeat("{},", runners.MaxAgents) + `{}]}`)
	if err := checkAgentCount(body); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}
