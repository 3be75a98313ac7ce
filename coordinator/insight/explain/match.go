package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ao/shared/runnerapi"
)

// Candidate is a runner as seen by a run that waits: why it may not take it, or who has its slots.
type Candidate struct {
	ID string `json:"runner_id"`
	runnerapi.Identity
	Status     string     `json:"status"`
	Why        string     `json:"why,omitempty"` // it takes no runs
	Slots      int        `json:"max_concurrent_runs"`
	Running    int        `json:"running"`
	Mismatches []Mismatch `json:"mismatches"`      // empty: it may take the run
	Holds      []Holder   `json:"holds,omitempty"` // what has its slots, the oldest first
}

// Mismatch is one thing in which a runner is not what a run wants.
type Mismatch struct {
	// status, executor_type, executor_profile, hostname, project_dir, tags, require_matching_tags, agent, model
	Field   string `json:"field"`
	Wanted  any    `json:"wanted"`
	Has     any    `json:"has"`
	Message string `json:"message"` // the same in a few words
}

// mismatch is one, with its words.
func mismatch(field string, wanted, has any) Mismatch {
	m := Mismatch{Field: field, Wanted: wanted, Has: has}
	switch field {
	case "tags":
		m.Message = fmt.Sprintf("tags %v lack %v", has, wanted)
	case "require_matching_tags":
		m.Message = fmt.Sprintf("it takes only runs that ask for one of its tags %v", has)
	case "model":
		m.Message = fmt.Sprintf("models %v do not include %v", has, wanted)
	case "agent":
		m.Message = fmt.Sprintf("agent %v is not registered as it was when the run was accepted", wanted)
	default:
		m.Message = fmt.Sprintf("%s is %v, not %v", field, has, wanted)
	}
	return m
}

// notTaking is why a runner takes no runs at all.
func notTaking(one Candidate) Mismatch {
	m := mismatch("status", runnerapi.Online, one.Status)
	if one.Why != "" {
		m.Message += " (" + one.Why + ")"
	}
	return m
}

// Holder is a run that has a slot.
type Holder struct {
	RunID string    `json:"run_id"`
	Agent string    `json:"agent_name"`
	Since time.Time `json:"since"`
}

// Limits of listed runners, the closest first, and of the oldest runs of each.
const (
	mostCandidates = 50
	mostHolders    = 20
)

// mismatches returns all things in which a runner is not what a run wants: none where Runner.Matches is true.
func mismatches(r runnerapi.Runner, w runnerapi.RoutingKey) []Mismatch {
	all := []Mismatch{}
	for _, m := range []struct{ field, want, have string }{
		{"executor_type", w.Type, r.ExecutorType}, {"executor_profile", w.Profile, r.ExecutorProfile},
		{"hostname", w.Hostname, r.Hostname}, {"project_dir", w.ProjectDir, r.ProjectDir},
	} {
		if m.want != m.have && (m.want != "" || m.field == "executor_type") {
			all = append(all, mismatch(m.field, m.want, m.have))
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(w.Tags), func(t string) bool {
		return slices.Contains(r.Tags, t)
	}); len(missing) > 0 {
		all = append(all, mismatch("tags", missing, orNone(r.Tags)))
	} else if len(w.Tags) == 0 && r.RequireMatchingTags {
		all = append(all, mismatch("require_matching_tags", []string{}, orNone(r.Tags)))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Agents)) {
		switch {
		case r.Serves(name, w.Agents[name]):
		case r.AgentHashes[name] == "":
			all = append(all, mismatch("agent", name, nil))
		default:
			all = append(all, mismatch("agent", name, "another definition"))
		}
	}
	return all
}

func orNone(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// crowd is all runners as seen by a run that waits.
type crowd struct {
	all        []Candidate
	more       int // that are not among all
	registered int
	online     int
	matching   int // of these: that may take the run
	slots      int // of these
	taken      int // of these
}

// Candidates returns how runners match a run, at most 50, the closest first. A runner whose profile does not allow the
// model does not match: it would fail the run. Empty: any model.
func (x *Explainer) Candidates(w runnerapi.RoutingKey, model string) []Candidate {
	return x.look(w, model).all
}

// look looks at every runner, the closest first. It costs what there are of runners and of runs under way.
func (x *Explainer) look(w runnerapi.RoutingKey, model string) (all crowd) {
	holders := map[string][]Holder{}
	for a := range x.History.Claimed() {
		if a.UnverifiedSeq == 0 && a.Claim.RunnerID != "" { // else its slot is free again
			holders[a.Claim.RunnerID] = append(holders[a.Claim.RunnerID],
				Holder{a.Spec.ID, a.Spec.Agent, a.Claim.At.UTC()})
		}
	}
	for _, m := range x.Members() {
		if m.Status == runnerapi.Left {
			continue
		}
		held := holders[m.ID]
		one := Candidate{ID: m.ID, Identity: m.Identity, Status: m.Shown(), Why: m.Why(), Slots: m.MaxConcurrentRuns,
			Running: len(held), Mismatches: mismatches(m.Runner, w)}
		if !m.Models.Allow(model) {
			one.Mismatches = append(one.Mismatches, mismatch("model", model, orNone(m.Models)))
		}
		if !m.TakesRuns() {
			one.Mismatches = append(one.Mismatches, notTaking(one))
		} else {
			all.online++
		}
		if len(one.Mismatches) == 0 {
			one.Holds = held[:min(len(held), mostHolders)]
			all.matching++
			all.slots += one.Slots
			all.taken += min(one.Running, one.Slots)
		}
		all.all = append(all.all, one)
	}
	all.registered = len(all.all)
	slices.SortStableFunc(all.all, func(a, b Candidate) int {
		return cmp.Compare(len(a.Mismatches), len(b.Mismatches))
	})
	all.more = max(0, len(all.all)-mostCandidates)
	all.all = all.all[:len(all.all)-all.more]
	return all
}
