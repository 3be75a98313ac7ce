package state

// childIndex has sessions by the parent they name, whether it exists or not, in no order.
type childIndex map[Ident][]*Session

// add puts a session among its parent's children.
func (o childIndex) add(s *Session) {
	if s.Parent == "" {
		return
	}
	id := IdentOf(SessionPrefix, s.Parent)
	s.place = int32(len(o[id]))
	o[id] = append(o[id], s)
}

// drop removes a session from its parent's children.
func (o childIndex) drop(s *Session) {
	if s.Parent == "" {
		return
	}
	id := IdentOf(SessionPrefix, s.Parent)
	all := o[id]
	last := len(all) - 1
	if last < int(s.place) || all[s.place] != s {
		return
	}
	all[s.place] = all[last]
	all[s.place].place = s.place
	all[last] = nil
	o[id] = all[:last]
	if last == 0 {
		delete(o, id)
	}
}

// Runs returns how many runs a session's children have.
func (o childIndex) Runs(s *Session) (n int) {
	for _, child := range o[s.Ident] {
		n += int(child.runs)
	}
	return n
}

// HasParent reports whether the parent that a session names exists.
func HasParent(f *State, s *Session) bool { return s.Parent != "" && f.Session(s.Parent) != nil }
