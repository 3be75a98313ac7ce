package state

import "ao/shared/run"

// stored is what a run keeps in the object store.
type stored struct {
	Caller        string // whose share it counts to: run.Spec's
	Input, Output string // the payloads' names; empty: there is none, or it was removed
	In, Out       int64  // their sizes in bytes
}

// payloads are the runs that keep something in the object store, and what they keep in all.
type payloads struct {
	of    map[*Row]*stored
	bytes int64
}

func newPayloads() payloads { return payloads{of: map[*Row]*stored{}} }

// input notes what a run was accepted with.
func (p *payloads) input(r *Row, s *run.Spec) {
	if s.Body == nil {
		if p.of[r] != nil { // a changed definition made it small
			p.removeInput(r)
		}
		return
	}
	of := p.entry(r, s.Caller)
	p.bytes += max(s.Body.Size, 0) - of.In
	of.Input, of.In = s.Body.Name, max(s.Body.Size, 0)
}

// output notes a run's result.
func (p *payloads) output(r *Row, s *run.Spec, body *run.Payload) {
	if body == nil {
		return
	}
	of := p.entry(r, s.Caller)
	p.bytes += max(body.Size, 0) - of.Out
	of.Output, of.Out = body.Name, max(body.Size, 0)
}

func (p *payloads) entry(r *Row, caller string) *stored {
	of := p.of[r]
	if of == nil {
		of = &stored{Caller: caller}
		p.of[r] = of
	}
	return of
}

// removeInput notes that a run's input is removed.
func (p *payloads) removeInput(r *Row) {
	if of := p.of[r]; of != nil {
		p.bytes -= of.In
		of.Input, of.In = "", 0
	}
}

// drop forgets a run.
func (p *payloads) drop(r *Row) {
	if of := p.of[r]; of != nil {
		p.bytes -= of.In + of.Out
		delete(p.of, r)
	}
}

// TreeRoot returns the session at the top of a session's tree, as far as sessions are kept.
func TreeRoot(f *State, session string) Ident {
	id := IdentOf(SessionPrefix, session)
	for range maxDepth {
		s := f.sessions[id]
		if s == nil || s.Parent == "" {
			break
		}
		id = IdentOf(SessionPrefix, s.Parent)
	}
	return id
}

// Stored is how many bytes of payloads the records name.
type Stored struct{ All, Caller, Tree int64 }

// StoredBytes returns how many bytes of payloads are kept in all.
func StoredBytes(f *State) int64 { return f.payloads.bytes }

// StoredBy returns how many bytes of payloads are kept, by all, by a caller, and below the top of a session's tree.
func StoredBy(f *State, caller, session string) (n Stored) {
	root := TreeRoot(f, session)
	n.All = f.payloads.bytes
	for r, of := range f.payloads.of {
		if of.Caller == caller {
			n.Caller += of.In + of.Out
		}
		if TreeRoot(f, r.session.ID()) == root {
			n.Tree += of.In + of.Out
		}
	}
	return n
}

// NamesPayload reports whether a record of a run names that payload.
func NamesPayload(f *State, id, name string) bool {
	of := f.payloads.of[f.Run(id)]
	return of != nil && (of.Input == name || of.Output == name)
}

// EndedInput is the input of an ended run, in the object store.
type EndedInput struct {
	RunID, Name string
	Size        int64
}

// ExcessInputs returns inputs of ended runs that have to make room. They are those of callers that are short, the
// oldest first, as many as end that.
func ExcessInputs(f *State, short func(caller string, all, of int64) bool) (out []EndedInput) {
	all, of := f.payloads.bytes, map[string]int64{}
	for _, s := range f.payloads.of {
		of[s.Caller] += s.In + s.Out
	}
	over := false
	for caller, n := range of {
		over = over || short(caller, all, n)
	}
	if !over {
		return nil
	}
	for _, r := range f.order {
		s := f.payloads.of[r]
		if s == nil || r.live != nil || s.Input == "" || !short(s.Caller, all, of[s.Caller]) {
			continue
		}
		out = append(out, EndedInput{r.ID(), s.Input, s.In})
		all, of[s.Caller] = all-s.In, of[s.Caller]-s.In
	}
	return out
}

// ForgetInputs notes which inputs of ended runs are not kept any more. kept reports what was there, at a time when the
// records up to seq had been applied.
func ForgetInputs(f *State, seq uint64, kept func(name string) bool) {
	for r, s := range f.payloads.of {
		if s.Input != "" && r.live == nil && r.Full <= seq && !kept(s.Input) {
			f.payloads.removeInput(r)
			f.dirty.add(r)
		}
	}
}
