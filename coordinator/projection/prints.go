package projection

import "hash/crc32"

// touch notes that a row changed, touchSession likewise. Where no snapshot is being written nobody wants to know.
func (p *pass) touch(r *row) {
	if p != nil && r != nil {
		p.rows[r] = true
		p.sessions[r.session] = true
	}
}

func (p *pass) touchSession(s *session) {
	if p != nil {
		p.sessions[s] = true
	}
}

func printOf(m Record, scratch []byte) (print, []byte) {
	scratch = append(scratch[:0], m.Subject...)
	return print{m.Seq, m.Time.UnixNano(), crc32.Update(crc32.Checksum(scratch, castagnoli), castagnoli, m.Body)}, scratch
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
