package query

import (
	"context"
	"slices"

	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// Trace is where a run's records are: the index keeps no times of past steps.
type Trace struct {
	Run       run.Run // without parameters
	AgentType string
	HasSchema bool // it has an output schema
	// sequences of the records with the whole spec, oldest first: the first one, and those that queued it
	Full  []uint64
	Claim uint64 // sequence of the claim that counts; 0: none
	End   uint64 // sequence of its end record; 0: it has not ended
	Turn  uint64 // first sequence of the parent's turn that reports it; 0: none, or no longer known
}

// Trace returns where a run's records are. An unknown id is NotFound.
func (x *Reader) Trace(ctx context.Context, id string) (Trace, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return Trace{}, err
	}
	spec, err := x.spec(ctx, s, false)
	if err != nil {
		return Trace{}, x.notKept(id, err)
	}
	r, err := x.view(ctx, s, false)
	if err != nil {
		return Trace{}, err
	}
	r.Parameters = nil
	t := Trace{Run: r, AgentType: spec.AgentType, HasSchema: spec.HasOutputSchema, Claim: s.Claim, End: s.End,
		Full: []uint64{s.First, s.Full}}
	x.p.Reading(func(f *state.State) {
		if row := f.Run(id); row != nil {
			t.Full = append(t.Full, state.QueuedBefore(f, row)...)
			if turn := row.Turn(); turn != nil && !turn.Evicted {
				t.Turn = turn.First
			}
		}
	})
	slices.Sort(t.Full)
	t.Full = slices.Compact(t.Full)
	return t, nil
}
