package serve_test

import (
	"testing"

	"ao/coordinator/projection/query"
	"ao/shared/run"
)

// Lists of runs are narrowed by runner and to roots, and counted by the same filters.
func TestListsOfRuns(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	top := s.submit(`{"agent_name":"mind","prompt":"x"}`)
	s.until(top.RunID, run.Completed)
	child := s.submit(`{"agent_name":"mind","prompt":"x","parent_session_id":"` + top.SessionID + `"}`)
	runner := s.until(child.RunID, run.Completed).RunnerID
	waits := s.submit(`{"agent_name":"mind","prompt":"x","additional_demands":{"tags":["nowhere"]}}`)
	for filter, want := range map[string][]string{
		"":                                            {waits.RunID, child.RunID, top.RunID},
		"runner_id=" + runner:                         {child.RunID, top.RunID},
		"roots=true":                                  {waits.RunID, top.RunID},
		"roots=true&status=completed":                 {top.RunID},
		"roots=false&status=completed":                {child.RunID, top.RunID},
		"runner_id=rnr_nobody":                        {},
		"parent_session_id=" + top.SessionID:          {child.RunID},
		"q=" + top.RunID:                              {top.RunID},
		"q=ses_&roots=true":                           {waits.RunID, top.RunID},
		"q=MIND&status=completed":                     {child.RunID, top.RunID},
		"q=nothing":                                   {},
		"created_after=2300-01-01T00:00:00Z":          {},
		"created_after=1600-01-01T00:00:00Z":          {waits.RunID, child.RunID, top.RunID},
		"retry_of=" + top.RunID:                       {},
		"session_id=" + top.SessionID + "&roots=true": {top.RunID},
	} {
		p := into[query.Page](s.get("/runs?"+filter), 200)
		n := into[query.Count](s.get("/runs/count?"+filter), 200)
		var got []string
		for _, r := range p.Runs {
			got = append(got, r.ID)
			if r.ID == top.RunID && filter == "roots=true" && r.Children != 1 {
				t.Errorf("the root has %d runs below", r.Children)
			}
		}
		if len(got) != len(want) || n.N != len(want) || !n.Exact {
			t.Errorf("%s: %v and %+v, want %v", filter, got, n, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", filter, got, want)
			}
		}
	}
}
