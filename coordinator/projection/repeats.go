package projection

// repeats has the runs that repeat another one.
type repeats struct {
	of map[*row]ident
}

// add notes that a run repeats another one; an empty id: it does not.
func (p *repeats) add(r *row, of string) {
	if of == "" {
		return
	}
	if p.of == nil {
		p.of = map[*row]ident{}
	}
	p.of[r] = identOf(runPrefix, of)
}

func (p *repeats) drop(r *row) { delete(p.of, r) }

// is reports whether a run repeats that one.
func (p *repeats) is(r *row, of string) bool {
	id, is := p.of[r]
	return is && id == identOf(runPrefix, of)
}
