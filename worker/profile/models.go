package profile

import (
	"encoding/json"
	"slices"

	"ao/shared/agent"
	"ao/shared/fault"
)

// AllowedModels returns the models that agents may name: those of models and the profile's own. nil: any.
func (p Profile) AllowedModels() agent.Models {
	if p.Models == nil {
		return nil
	}
	var own struct {
		Model string `json:"model"`
	}
	all := slices.Clone(p.Models)
	if json.Unmarshal(p.Config, &own) == nil && own.Model != "" && !slices.Contains(all, own.Model) {
		all = append(all, own.Model)
	}
	return all
}

// CheckModel checks that the profile allows the blueprint's model; the fault is the run's error.
func (p Profile) CheckModel(blueprint json.RawMessage) *fault.Fault {
	all := p.AllowedModels()
	if all == nil {
		return nil
	}
	var b struct {
		Model string `json:"model"`
	}
	if len(blueprint) > 0 && json.Unmarshal(blueprint, &b) != nil {
		return nil // the executor reports what is wrong with it
	}
	if !all.Allow(b.Model) {
		return all.Refused(b.Model, "the executor profile "+p.Name).With("executor_profile", p.Name)
	}
	return nil
}
