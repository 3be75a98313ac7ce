package projection

import (
	"cmp"
	"math"
	"slices"
)

// belowStep is how many sessions Below reads at most before it lets changes in.
const belowStep = 256

// Below counts the open runs below a session, and returns the oldest most of them. It releases the lock between steps:
// what changes meanwhile may be counted or not.
func (x *Index) Below(id string, most int) (n int, oldest []string) {
	type openRun struct {
		first uint64 // a row's own may change without the lock
		run   *row
	}
	var runs []openRun // the oldest seen so far
	root := read(x.p, func(f *reducer) *session { return f.session(id) })
	seen := map[*session]bool{root: true}
	for above := []*session{root}; root != nil && len(above) > 0; {
		s := above[len(above)-1]
		above = above[:len(above)-1]
		for i := math.MaxInt; i > 0; { // backwards: a removal moves the last one to its place
			x.p.reading(func(f *reducer) {
				all := f.trees.below[s.Ident]
				end := min(i, len(all))
				i = max(0, end-belowStep)
				for _, below := range all[i:end] {
					if seen[below] {
						continue
					}
					seen[below] = true
					n += len(below.live)
					for _, r := range below.live[:min(len(below.live), most)] {
						runs = append(runs, openRun{r.First, r})
					}
					if len(f.trees.below[below.Ident]) > 0 {
						above = append(above, below)
					}
				}
			})
			slices.SortFunc(runs, func(a, b openRun) int { return cmp.Compare(a.first, b.first) })
			runs = runs[:min(len(runs), most)]
		}
	}
	for _, r := range runs {
		oldest = append(oldest, r.run.runID())
	}
	return n, oldest
}
