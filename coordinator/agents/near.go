package agents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ao/shared/agent"
	"ao/shared/fault"
)

const (
	maxNear  = 3 // names in an error
	maxEdits = 3 // between a name and one that was meant
)

// None is the cause of an error about an unknown agent.
type None struct{ Dirs []string } // the folders that were read

func (*None) Error() string { return "no such agent" }

// errNone returns the error for an unknown name. It names active agents whose names are near. Whoever may name an agent
// may also list them.
func errNone(a *Catalog, name string) *fault.Fault {
	text, near := fmt.Sprintf("There is no agent %q", name), near(a, name)
	if len(near) > 0 {
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	} else {
		text += ";"
	}
	f := fault.Wrap(fault.NotFound, "", text+" GET /agents lists them", &None{a.cfg.Dirs}).With("agent_name", name)
	if len(near) > 0 {
		f = f.With("near", near)
	}
	return f
}

// near returns the names of active agents that are at most maxEdits from name, the nearest first.
func near(a *Catalog, name string) []string {
	all, err := a.Agents(agent.Active)
	if err != nil {
		return nil
	}
	distance := map[string]int{}
	for _, b := range all {
		d := edits(strings.ToLower(name), strings.ToLower(b.Name), maxEdits)
		if d <= maxEdits && d < len(b.Name) && d < max(len(name), 2) {
			distance[b.Name] = d
		}
	}
	names := make([]string, 0, len(distance))
	for n := range distance {
		names = append(names, n)
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(distance[x], distance[y]), cmp.Compare(x, y))
	})
	return names[:min(len(names), maxNear)]
}

// edits returns how many bytes are to be inserted, deleted or replaced to make b of a; limit+1 if that is more than
// limit.
func edits(a, b string, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, replace)
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
