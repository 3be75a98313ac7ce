package projection

import (
	"fmt"

	"ao/shared/run"
)

// stored is what a run keeps in the object store.
type stored struct {
	Caller        string // whose share it counts to: run.Spec's
	Input, Output string // the payloads' names; empty: there is none, or it was removed
	In, Out       int64  // their sizes in bytes
}

// payloads are the runs that keep something in the object store, and what they keep in all.
type payloads struct {
	of    map[*row]*stored
	bytes int64
}

func newPayloads() payloads { return payloads{of: map[*row]*stored{}} }

// input notes what a run was accepted with.
func (p *payloads) input(r *row, s *run.Spec) {
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
func (p *payloads) output(r *row, s *run.Spec, body *run.Payload) {
	if body == nil {
		return
	}
	of := p.entry(r, s.Caller)
	p.bytes += max(body.Size, 0) - of.Out
	of.Output, of.Out = body.Name, max(body.Size, 0)
}

func (p *payloads) entry(r *row, caller string) *stored {
	of := p.of[r]
	if of == nil {
		of = &stored{Caller: caller}
		p.of[r] = of
	}
	return of
}

// removeInput notes that a run's input is removed.
func (p *payloads) removeInput(r *row) {
	if of := p.of[r]; of != nil {
		p.bytes -= of.In
		of.Input, of.In = "", 0
	}
}

// drop forgets a run.
func (p *payloads) drop(r *row) {
	if of := p.of[r]; of != nil {
		p.bytes -= of.In + of.Out
		delete(p.of, r)
	}
}

// treeRoot returns the session at the top of a session's tree, as far as sessions are kept.
func treeRoot(t *tables, session string) ident {
	id := identOf(sessionPrefix, session)
	for range maxDepth {
		s := t.sessions[id]
		if s == nil || s.Parent == "" {
			break
		}
		id = identOf(sessionPrefix, s.Parent)
	}
	return id
}

// Payloads are what runs keep in the object store.
type Payloads struct{ p *Projection }

// Stored is how many bytes of payloads the records name.
type Stored struct{ All, Caller, Tree int64 }

// StoredBytes returns how many bytes of payloads are kept in all. Its cost does not depend on them.
func (x *Payloads) StoredBytes() int64 {
	return read(x.p, func(f *reducer) int64 { return f.payloads.bytes })
}

// StoredBy returns how many bytes of payloads are kept, by all, by a caller, and below the top of a session's tree.
func (x *Payloads) StoredBy(caller, session string) Stored {
	return read(x.p, func(f *reducer) (n Stored) {
		root := treeRoot(f.tables, session)
		n.All = f.payloads.bytes
		for r, of := range f.payloads.of {
			if of.Caller == caller {
				n.Caller += of.In + of.Out
			}
			if treeRoot(f.tables, r.session.sessionID()) == root {
				n.Tree += of.In + of.Out
			}
		}
		return n
	})
}

// SameTree reports whether two sessions belong to one tree.
func (x *Payloads) SameTree(a, b string) bool {
	return read(x.p, func(f *reducer) bool { return treeRoot(f.tables, a) == treeRoot(f.tables, b) })
}

// Holder returns whose run it is, as far as it is kept: the first eight digits of its caller's hash, and its session.
func (x *Payloads) Holder(id string) (caller, session string, ok bool) {
	ok = read(x.p, func(f *reducer) bool {
		r := f.run(id)
		if r == nil {
			return false
		}
		caller, session = fmt.Sprintf("%08x", r.Caller), r.session.sessionID()
		return true
	})
	return caller, session, ok
}

// NamesPayload reports whether a record of a run names that payload.
func (x *Payloads) NamesPayload(id, name string) bool {
	return read(x.p, func(f *reducer) bool {
		of := f.payloads.of[f.run(id)]
		return of != nil && (of.Input == name || of.Output == name)
	})
}

// EndedInput is the input of an ended run, in the object store.
type EndedInput struct {
	RunID, Name string
	Size        int64
}

// ExcessInputs returns inputs of ended runs that have to make room. They are those of callers that are short, the
// oldest first, as many as end that.
func (x *Payloads) ExcessInputs(short func(caller string, all, of int64) bool) []EndedInput {
	return read(x.p, func(f *reducer) (out []EndedInput) {
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
			out = append(out, EndedInput{r.runID(), s.Input, s.In})
			all, of[s.Caller] = all-s.In, of[s.Caller]-s.In
		}
		return out
	})
}

// ForgetInputs notes which inputs of ended runs are not kept any more. kept reports what was there, at a time when the
// records up to seq had been applied.
func (x *Payloads) ForgetInputs(seq uint64, kept func(name string) bool) {
	x.p.changing(func(f *reducer) {
		for r, s := range f.payloads.of {
			if s.Input != "" && r.live == nil && r.Full <= seq && !kept(s.Input) {
				f.payloads.removeInput(r)
				f.dirty.add(r)
			}
		}
	})
}
