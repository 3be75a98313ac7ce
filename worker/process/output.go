package process

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"unicode/utf8"
)

// drain reads a pipe to its end.
type drain struct {
	file  *os.File
	keep  headTail
	lines lineSplitter
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (d *drain) run(done chan<- struct{}) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := d.file.Read(buf[:])
		d.keep.add(buf[:n])
		if d.lines.onLine != nil {
			d.lines.add(buf[:n])
		}
		if err != nil {
			if d.lines.onLine != nil {
				d.lines.flush()
			}
			done <- struct{}{}
			return
		}
	}
}

// headTail keeps the first and the last half of its input, limit bytes in total.
type headTail struct {
	limit int
	head  []byte
	tail  []byte // a ring buffer once full
	start int    // start of the ring
	total int64
}

func (k *headTail) add(b []byte) {
	k.total += int64(len(b))
	if n := min(len(b), (k.limit+1)/2-len(k.head)); n > 0 {
		k.head = append(k.head, b[:n]...)
		b = b[n:]
	}
	size := k.limit / 2
	if len(b) > size {
		b = b[len(b)-size:]
	}
	if n := min(len(b), size-len(k.tail)); n > 0 {
		k.tail = append(k.tail, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(k.tail[k.start:], b)
		k.start = (k.start + n) % size
		b = b[n:]
	}
}

// bytes returns what was kept, and how many bytes were not.
func (k *headTail) bytes() (kept []byte, cut int64) {
	cut = k.total - int64(len(k.head)) - int64(len(k.tail))
	tail := append(k.tail[k.start:len(k.tail):len(k.tail)], k.tail[:k.start]...)
	if cut == 0 {
		return append(k.head, tail...), 0
	}
	head, more := trimPartialEnd(k.head), 0
	more += len(k.head) - len(head)
	whole := trimPartialStart(tail)
	more += len(tail) - len(whole)
	cut += int64(more)
	return append(append(head, marker(cut)...), whole...), cut
}

func marker(cut int64) string { return fmt.Sprintf("\n[… %d bytes cut …]\n", cut) }

// Cut returns text unchanged, or its start and end, limit bytes in total, with a line between them that says how many
// bytes were cut.
func Cut(text []byte, limit int) []byte { return CutAgain(text, 0, limit) }

// CutAgain is Cut for a text that was cut before: its line counts those bytes, too. limit is at most half of the
// first limit.
func CutAgain(text []byte, missing int64, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	k := headTail{limit: limit}
	k.add(text)
	if missing > 0 {
		k.total += missing - int64(len(marker(missing)))
	}
	kept, _ := k.bytes()
	return kept
}

// Text keeps the start and the end of what is added to it, Limit bytes in total.
type Text struct {
	Limit int
	keep  headTail
}

// Add appends to the text.
func (t *Text) Add(b []byte) {
	t.keep.limit = t.Limit
	t.keep.add(b)
}

// Bytes returns what was kept, with a line between start and end that says how much was not.
func (t *Text) Bytes() []byte {
	kept, _ := t.keep.bytes()
	return kept
}

// Missing returns how many bytes of the text Bytes leaves out.
func (t *Text) Missing() int64 {
	_, cut := t.keep.bytes()
	return cut
}

// trimPartialEnd returns b without an incomplete character at its end.
func trimPartialEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// trimPartialStart returns b without the rest of an incomplete character at its start.
func trimPartialStart(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	if len(b) < utf8.UTFMax {
		return nil
	}
	return b // not text
}

type lineSplitter struct {
	limit  int
	onLine func([]byte)
	part   []byte
	over   int // bytes of the current line beyond the limit
}

func (l *lineSplitter) add(b []byte) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.append(b)
			return
		}
		l.append(b[:i])
		l.emit()
		b = b[i+1:]
	}
}

func (l *lineSplitter) append(b []byte) {
	n := min(len(b), l.limit-len(l.part))
	l.part = append(l.part, b[:n]...)
	l.over += len(b) - n
}

func (l *lineSplitter) emit() {
	line := bytes.TrimSuffix(l.part, []byte{'\r'})
	if l.over > 0 {
		whole := trimPartialEnd(l.part)
		line = fmt.Appendf(whole, " [… %d bytes cut]", l.over+len(l.part)-len(whole))
	}
	l.onLine(line)
	l.part, l.over = l.part[:0], 0
}

// flush emits a last line without a line end.
func (l *lineSplitter) flush() {
	if len(l.part) > 0 {
		l.emit()
	}
}
