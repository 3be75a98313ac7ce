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
	keep  keep
	lines lines
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (d *drain) run(done chan<- struct{}) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := d.file.Read(buf[:])
		d.keep.add(buf[:n])
		if d.lines.each != nil {
			d.lines.add(buf[:n])
		}
		if err != nil {
			if d.lines.each != nil {
				d.lines.flush()
			}
			done <- struct{}{}
			return
		}
	}
}

// keep keeps the first and the last half of what it is given, limit bytes together.
type keep struct {
	limit int
	head  []byte
	tail  []byte // a ring once it is full
	at    int    // where the ring begins
	total int64
}

func (k *keep) add(b []byte) {
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
		n := copy(k.tail[k.at:], b)
		k.at = (k.at + n) % size
		b = b[n:]
	}
}

// bytes gives what was kept, and how much was not.
func (k *keep) bytes() (kept []byte, cut int64) {
	cut = k.total - int64(len(k.head)) - int64(len(k.tail))
	tail := append(k.tail[k.at:len(k.tail):len(k.tail)], k.tail[:k.at]...)
	if cut == 0 {
		return append(k.head, tail...), 0
	}
	head, more := wholeEnd(k.head), 0
	more += len(k.head) - len(head)
	whole := wholeStart(tail)
	more += len(tail) - len(whole)
	cut += int64(more)
	return append(append(head, marker(cut)...), whole...), cut
}

// marker stands where bytes were cut out.
func marker(cut int64) string { return fmt.Sprintf("\n[… %d bytes cut …]\n", cut) }

// Cut gives text as it is, or its beginning and end, limit bytes together, with a line between them that says how
// many bytes were cut.
func Cut(text []byte, limit int) []byte { return CutAgain(text, 0, limit) }

// CutAgain is Cut of a text that lacks bytes already: its line counts them, too. limit is at most half of the text's first limit.
func CutAgain(text []byte, missing int64, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	k := keep{limit: limit}
	k.add(text)
	if missing > 0 {
		k.total += missing - int64(len(marker(missing)))
	}
	kept, _ := k.bytes()
	return kept
}

// Text keeps the beginning and the end of what is added to it, Limit bytes together.
type Text struct {
	Limit int
	keep  keep
}

// Add adds to the text.
func (t *Text) Add(b []byte) {
	t.keep.limit = t.Limit
	t.keep.add(b)
}

// Bytes gives what was kept, with a line between beginning and end that says how much was not.
func (t *Text) Bytes() []byte {
	kept, _ := t.keep.bytes()
	return kept
}

// Missing is how many bytes of the text Bytes leaves out.
func (t *Text) Missing() int64 {
	_, cut := t.keep.bytes()
	return cut
}

// wholeEnd is b without a character that is cut off at its end.
func wholeEnd(b []byte) []byte {
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

// wholeStart is b without the rest of a character whose beginning is cut off.
func wholeStart(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	if len(b) < utf8.UTFMax {
		return nil
	}
	return b // no text at all
}

// lines cuts a stream into lines and gives them away one by one.
type lines struct {
	limit int
	each  func([]byte)
	part  []byte
	over  int // bytes of the current line beyond the limit
}

func (l *lines) add(b []byte) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.take(b)
			return
		}
		l.take(b[:i])
		l.tell()
		b = b[i+1:]
	}
}

func (l *lines) take(b []byte) {
	n := min(len(b), l.limit-len(l.part))
	l.part = append(l.part, b[:n]...)
	l.over += len(b) - n
}

func (l *lines) tell() {
	line := bytes.TrimSuffix(l.part, []byte{'\r'})
	if l.over > 0 {
		whole := wholeEnd(l.part)
		line = fmt.Appendf(whole, " [… %d bytes cut]", l.over+len(l.part)-len(whole))
	}
	l.each(line)
	l.part, l.over = l.part[:0], 0
}

// flush gives the last line, where it has no end.
func (l *lines) flush() {
	if len(l.part) > 0 {
		l.tell()
	}
}
