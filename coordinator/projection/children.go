package projection

// offspring are the sessions by whom they name as their parent, whether that exists or not; those of one parent in no order.
type offspring map[ident][]*session

// add puts a session among the children of its parent.
func (o offspring) add(s *session) {
	if s.parent == "" {
		return
	}
	id := identOf(sessionPrefix, s.parent)
	s.place = int32(len(o[id]))
	o[id] = append(o[id], s)
}

// drop takes a session out of the children of its parent.
func (o offspring) drop(s *session) {
	if s.parent == "" {
		return
	}
	id := identOf(sessionPrefix, s.parent)
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

// runs is how many runs the children of a session have.
func (o offspring) runs(s *session) (n int) {
	for _, child := range o[s.id] {
		n += int(child.runs)
	}
	return n
}

// hasParent reports whether the session that a session names as its parent exists.
func hasParent(f *fold, s *session) bool {
	return s.parent != "" && f.sessions[identOf(sessionPrefix, s.parent)] != nil
}
