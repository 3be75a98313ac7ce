package state

import (
	"cmp"
	"maps"
	"slices"

	"ao/nats/stream"
	"ao/shared/run"
)

// Loader builds a state from parts. Its maps hold links until everything is read.
type Loader struct {
	f        *State
	sessions map[uint64]*Session // by first
	turns    map[*Row]uint64
	children map[*Row][]uint64
	pending  map[*Session][]uint64
}

// NewLoader returns a reader of parts.
func NewLoader(key func(run string, attempt int) string) *Loader {
	return &Loader{f: newReducer(key), sessions: map[uint64]*Session{}, turns: map[*Row]uint64{},
		children: map[*Row][]uint64{}, pending: map[*Session][]uint64{}}
}

// Add takes over a part. What the last part has again replaces what was before. It returns the state with the last one.
func (l *Loader) Add(p *Part) (*State, error) {
	for i := range p.Sessions {
		l.session(&p.Sessions[i])
	}
	for i := range p.Runs {
		if err := l.run(&p.Runs[i]); err != nil {
			return nil, err
		}
	}
	for _, b := range p.Texts {
		l.f.Texts.Put(b.No, b.Packed)
	}
	if p.End == nil {
		return nil, nil
	}
	l.end(p.End)
	l.join()
	return l.f, nil
}

func (l *Loader) session(saved *savedSession) {
	s := l.sessions[saved.Session.First]
	if s == nil {
		if saved.Runs == 0 {
			return
		}
		s = &Session{}
		l.sessions[saved.Session.First] = s
		l.f.sorder = append(l.f.sorder, s)
	}
	*s = saved.Session
	s.runs = saved.Runs
	for _, name := range []*string{&s.Agent, &s.AgentType, &s.Dir} {
		*name = l.f.scan.Name([]byte(*name))
	}
	put(l.pending, s, saved.Pending, len(saved.Pending) > 0)
}

func (l *Loader) run(saved *savedRun) error {
	f := l.f
	r := l.rowAt(saved.Run.First)
	if r == nil {
		if saved.Run.Evicted {
			return nil
		}
		r = &Row{}
		f.order = append(f.order, r)
	}
	*r = saved.Run
	r.session = l.sessions[saved.Session]
	for _, name := range []*string{&r.Agent, &r.Runner, &r.Dir} {
		*name = f.scan.Name([]byte(*name))
	}
	put(l.turns, r, saved.Turn, saved.Turn != 0)
	put(l.children, r, saved.Children, len(saved.Children) > 0)
	put(f.retryOf, r, saved.RetryOf, saved.RetryOf != Ident{})
	put(f.past, r, saved.Past, len(saved.Past) > 0)
	f.payloads.drop(r)
	if saved.Stored != nil {
		f.payloads.of[r] = saved.Stored
		f.payloads.bytes += saved.Stored.In + saved.Stored.Out
	}
	put(f.Webhooks.of, r, saved.Webhook, saved.Webhook != nil)
	if saved.Webhook != nil {
		saved.Webhook.row = r
	}
	if saved.Active == nil {
		return nil
	}
	q, err := run.DecodeQueued(saved.Spec, f.scan.Name)
	saved.Active.Spec = &q.Spec
	r.live = &live{snap: saved.Active}
	r.show()
	return err
}

// put sets or deletes an element of a map.
func put[K comparable, V any](m map[K]V, k K, v V, is bool) {
	if is {
		m[k] = v
	} else {
		delete(m, k)
	}
}

func (l *Loader) end(e *savedEnd) {
	f := l.f
	f.seq, f.Callbacks.recent, f.Late.all = e.Seq, e.Recent, e.Late
	f.Changes.lost = e.Seq // earlier changes are unknown
	maps.Copy(f.deleted, e.Deleted)
	maps.Copy(f.Trees.parents, e.Parents)
	maps.Copy(f.Trees.stopped, e.Stopped)
	f.lastRead = stream.TailOf(e.Fingerprints)
	for _, p := range e.Reserved {
		f.Callbacks.reserved[p.Run] = reservation{p.Seq, p.Session, l.rowsAt(p.Children)}
	}
}

// join links everything, and notes the work that is due.
func (l *Loader) join() {
	f := l.f
	f.sorder = slices.DeleteFunc(f.sorder, func(s *Session) bool { return s.runs == 0 })
	f.order = slices.DeleteFunc(f.order, func(r *Row) bool { return r.Evicted })
	f.sessions, f.runs = make(map[Ident]*Session, len(f.sorder)), make(map[Ident]*Row, len(f.order))
	for _, s := range f.sorder {
		s.runs = 0 // link counts them
		f.sessions[s.Ident] = s
		f.Trees.Children.add(s)
	}
	for _, s := range f.sorder {
		joinTree(f.tables, s, maxDepth)
	}
	for _, r := range f.order {
		f.runs[r.Ident] = r
		link(f, r)
		f.usage.add(r, 1)
		f.Texts.Use(r.Text)
		f.Texts.Use(r.Failure)
		if first, is := l.turns[r]; is {
			r.turn = l.rowAt(first)
		}
		if first, is := l.children[r]; is {
			r.live.children = l.rowsAt(first)
		}
		if h := f.Webhooks.of[r]; h != nil && r.Webhook == webhookPending {
			f.Webhooks.Hosts.add(h)
		}
	}
	f.Waitlists.rebuild(f.head, f.Trees)
	for _, s := range f.sorder {
		for _, child := range l.rowsAt(l.pending[s]) {
			if child.Suppressed {
				f.Trees.suppressing[s] = append(f.Trees.suppressing[s], child)
				continue
			}
			s.pending = append(s.pending, child)
			f.pending[s] = true
		}
		f.Trees.indexBelow(s)
		f.settle(s)
		f.Callbacks.noteReady(s)
	}
}

// rowAt returns the row with this first record; nil: there is none.
func (l *Loader) rowAt(first uint64) *Row {
	if n := len(l.f.order); n == 0 || l.f.order[n-1].First < first {
		return nil
	}
	i, found := slices.BinarySearchFunc(l.f.order, first, func(r *Row, n uint64) int { return cmp.Compare(r.First, n) })
	if !found {
		return nil
	}
	return l.f.order[i]
}

// rowsAt returns the rows with these first records that are kept.
func (l *Loader) rowsAt(firsts []uint64) (all []*Row) {
	for _, first := range firsts {
		if r := l.rowAt(first); r != nil && !r.Evicted {
			all = append(all, r)
		}
	}
	return all
}
