package projection

import (
	"context"
	"slices"

	"ao/shared/run"
)

// Trace is where the records of a run are, for who tells its story: the index keeps no times of what is over.
type Trace struct {
	Run       run.Run // without parameters
	AgentType string
	HasSchema bool // it has an output schema
	// sequences of the records that hold all of it, oldest first: its first one, and those that queued it
	Whole []uint64
	Claim uint64 // sequence of the claim that counts; 0: none
	End   uint64 // … of its last word; 0: it has not ended
	// … of the first record of the parent's turn that tells of it; 0: none, or it is not known any more
	Turn uint64
}

// Trace finds a run's records. An unknown id is NotFound.
func (x *Reader) Trace(ctx context.Context, id string) (Trace, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return Trace{}, err
	}
	spec, err := x.spec(ctx, s, false)
	if err != nil {
		return Trace{}, x.gone(id, err)
	}
	r, err := x.view(ctx, s, false)
	if err != nil {
		return Trace{}, err
	}
	r.Parameters = nil
	t := Trace{Run: r, AgentType: spec.AgentType, HasSchema: spec.HasOutputSchema, Claim: s.claim, End: s.end,
		Whole: []uint64{s.first, s.whole}}
	x.p.reading(func(f *fold) {
		if row := f.runs[identOf(runPrefix, id)]; row != nil {
			for _, p := range f.past[row] {
				t.Whole = append(t.Whole, p.queued)
			}
			if row.by != nil && !row.by.gone {
				t.Turn = row.by.first
			}
		}
	})
	slices.Sort(t.Whole)
	t.Whole = slices.Compact(t.Whole)
	return t, nil
}
