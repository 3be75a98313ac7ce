package query

import (
	"fmt"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
)

// Payloads are what runs keep in the object store.
type Payloads struct{ p *projection.Projection }

// StoredBytes returns how many bytes of payloads are kept in all. Its cost does not depend on them.
func (x *Payloads) StoredBytes() int64 { return projection.Read(x.p, state.StoredBytes) }

// StoredBy returns how many bytes of payloads are kept, by all, by a caller, and below the top of a session's tree.
func (x *Payloads) StoredBy(caller, session string) state.Stored {
	return projection.Read(x.p, func(f *state.State) state.Stored { return state.StoredBy(f, caller, session) })
}

// SameTree reports whether two sessions belong to one tree.
func (x *Payloads) SameTree(a, b string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return state.TreeRoot(f, a) == state.TreeRoot(f, b) })
}

// Holder returns whose run it is, as far as it is kept: the first eight digits of its caller's hash, and its session.
func (x *Payloads) Holder(id string) (caller, session string, ok bool) {
	ok = projection.Read(x.p, func(f *state.State) bool {
		r := f.Run(id)
		if r == nil {
			return false
		}
		caller, session = fmt.Sprintf("%08x", r.Caller), r.Session().ID()
		return true
	})
	return caller, session, ok
}

// NamesPayload reports whether a record of a run names that payload.
func (x *Payloads) NamesPayload(id, name string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return state.NamesPayload(f, id, name) })
}

// ExcessInputs returns inputs of ended runs that have to make room. They are those of callers that are short, the
// oldest first, as many as end that.
func (x *Payloads) ExcessInputs(short func(caller string, all, of int64) bool) []state.EndedInput {
	return projection.Read(x.p, func(f *state.State) []state.EndedInput { return state.ExcessInputs(f, short) })
}

// ForgetInputs notes which inputs of ended runs are not kept any more. kept reports what was there, at a time when the
// records up to seq had been applied.
func (x *Payloads) ForgetInputs(seq uint64, kept func(name string) bool) {
	x.p.Updating(func(f *state.State) { state.ForgetInputs(f, seq, kept) })
}
