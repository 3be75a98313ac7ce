package projection

import "encoding/binary"

// encoder writes a checkpoint's bytes. Repeated names are written once, sequences and times as differences to the entry
// before.
type encoder struct {
	buf           []byte
	names         map[string]uint64
	first, before uint64
	created, last int64
}

func (e *encoder) take() []byte {
	b := e.buf
	e.buf = e.buf[:0:cap(e.buf)]
	return b
}

func (e *encoder) u(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) i(v int64)  { e.buf = binary.AppendVarint(e.buf, v) }

// opt writes a number near another one; 0 means missing.
func (e *encoder) opt(v, near int64) {
	if v == 0 {
		e.u(0)
		return
	}
	d := uint64(v-near)<<1 ^ uint64((v-near)>>63)
	e.u(d + 1)
}

func (e *encoder) bytes(b []byte) {
	e.u(uint64(len(b)))
	e.buf = append(e.buf, b...)
}

func (e *encoder) text(s string) {
	e.u(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

// name writes a text that is often repeated.
func (e *encoder) name(s string) {
	if n, ok := e.names[s]; ok {
		e.u(n)
		return
	}
	e.u(0)
	e.text(s)
	if e.names == nil {
		e.names = map[string]uint64{}
	}
	if len(e.names) < maxNames {
		e.names[s] = uint64(len(e.names) + 1)
	}
}

func (e *encoder) id(i ident) {
	e.text(i.odd)
	if i.odd == "" {
		e.buf = append(e.buf, i.made[:]...)
	}
}

func (e *encoder) bool(b bool) {
	var v byte
	if b {
		v = 1
	}
	e.buf = append(e.buf, v)
}

func (e *encoder) header(identity string) {
	e.buf = append(e.buf, snapshotMagic...)
	e.u(snapshotVersion)
	e.text(identity)
}
