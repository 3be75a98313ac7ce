package projection

import "hash/crc32"

// add notes that a row changed. A nil set, without a checkpoint in progress, ignores it.
func (p *dirtySet) add(r *row) {
	if p != nil && r != nil {
		p.rows[r] = true
		p.sessions[r.session] = true
	}
}

func (p *dirtySet) addSession(s *session) {
	if p != nil {
		p.sessions[s] = true
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
