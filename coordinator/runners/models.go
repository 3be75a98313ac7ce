package runners

import (
	"slices"

	"ao/shared/agent"
	"ao/shared/runnerapi"
)

// Permit refuses a model that no online runner allows which would take the run. Without such a runner it allows any:
// the worker that claims the run checks again.
func (r *Registry) Permit(w runnerapi.RoutingKey, model string) error {
	if model == "" {
		return nil
	}
	some, all := false, agent.Models{}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if !m.takes(r, w) {
			continue
		}
		if m.Models.Allow(model) {
			return nil
		}
		some, all = true, append(all, m.Models...)
	}
	if !some {
		return nil
	}
	slices.Sort(all)
	return slices.Compact(all).Refused(model, "any online runner that would take the run").With("field", "model")
}
