package query

import (
	"cmp"
	"math"
	"slices"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
)

// belowStep is how many sessions Below reads at most before it lets changes in.
const belowStep = 256

// Below counts the open runs below a session, and returns the oldest most of them. It releases the lock between steps:
// what changes meanwhile may be counted or not.
func (x *Index) Below(id string, most int) (n int, oldest []string) {
	type openRun struct {
		first uint64 // a row's own may change without the lock
		run   *state.Row
	}
	var runs []openRun // the oldest seen so far
	root := projection.Read(x.p, func(f *state.State) *state.Session { return f.Session(id) })
	seen := map[*state.Session]bool{root: true}
	for above := []*state.Session{root}; root != nil && len(above) > 0; {
		s := above[len(above)-1]
		above = above[:len(above)-1]
		for i := math.MaxInt; i > 0; { // backwards: a removal moves the last one to its place
			x.p.Reading(func(f *state.State) {
				all := state.OpenBelow(f, s)
				end := min(i, len(all))
				i = max(0, end-belowStep)
				for _, below := range all[i:end] {
					if seen[below] {
						continue
					}
					seen[below] = true
					n += len(below.OpenRuns())
					for _, r := range below.OpenRuns()[:min(len(below.OpenRuns()), most)] {
						runs = append(runs, openRun{r.First, r})
					}
					if len(state.OpenBelow(f, below)) > 0 {
						above = append(above, below)
					}
				}
			})
			slices.SortFunc(runs, func(a, b openRun) int { return cmp.Compare(a.first, b.first) })
			runs = runs[:min(len(runs), most)]
		}
	}
	for _, r := range runs {
		oldest = append(oldest, r.run.ID())
	}
	return n, oldest
}
