// Package text keeps the texts by which runs are found, in compressed blocks (decision 0041).
package text

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"

	"ao/shared/run"

	"github.com/klauspost/compress/zstd"
)

// Besides ids, runs are found by the first bytes of their prompt or parameters, and of their error's code and message,
// in lower case. Full blocks of these texts are compressed to half their size or less.
const (
	MaxBytes   = 256
	blockTexts = 128

	mostOfBlock = 1 << 20 // bytes of an opened block; a damaged one may ask for any number
)

// Blocks use zstd at its fastest level: a quarter smaller than s2, for a microsecond a run. Encoder and decoder are
// safe for concurrent use.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil { // the options are valid
			panic(err)
		}
		return w
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(mostOfBlock))
		if err != nil {
			panic(err)
		}
		return r
	})
)

// Ref is where a text is; no 0: there is none.
type Ref struct {
	Block uint32
	No    uint8
}

// Blocks are blocks by number.
type Blocks struct {
	blocks map[uint32]*textBlock
	last   uint32 // the one being filled
}

// textBlock is a sequence of texts. Once packed, only the number of its texts in use changes.
type textBlock struct {
	raw    []byte
	ends   []uint16 // of each text in raw
	packed []byte   // instead of both
	live   int
}

// Keep stores a text in the newest block.
func (t *Blocks) Keep(text string) Ref {
	if text == "" {
		return Ref{}
	}
	b := t.blocks[t.last]
	if b == nil || b.packed != nil {
		if t.blocks == nil {
			t.blocks = map[uint32]*textBlock{}
		}
		t.last++
		b = &textBlock{raw: make([]byte, 0, blockTexts*MaxBytes/4), ends: make([]uint16, 0, blockTexts)}
		t.blocks[t.last] = b
	}
	b.raw = append(b.raw, text...)
	b.ends = append(b.ends, uint16(len(b.raw)))
	b.live++
	at := Ref{t.last, uint8(len(b.ends))}
	if len(b.ends) == blockTexts {
		b.packed, b.raw, b.ends = b.pack(), nil, nil
	}
	return at
}

// Drop releases a text. A packed block goes with its last one.
func (t *Blocks) Drop(at Ref) {
	b := t.blocks[at.Block]
	if at.No == 0 || b == nil {
		return
	}
	b.live--
	if b.live == 0 && b.packed != nil {
		delete(t.blocks, at.Block)
	}
}

// Put adds a block from a checkpoint.
func (t *Blocks) Put(no uint32, packed []byte) {
	if t.blocks == nil {
		t.blocks = map[uint32]*textBlock{}
	}
	t.blocks[no], t.last = &textBlock{packed: packed}, max(t.last, no)
}

// Use counts a text of a checkpoint.
func (t *Blocks) Use(at Ref) {
	if b := t.blocks[at.Block]; b != nil && at.No > 0 {
		b.live++
	}
}

// Saved returns the blocks in use, for a checkpoint.
func (t *Blocks) Saved() (all []Saved) {
	for no, b := range t.blocks {
		if b.live > 0 {
			all = append(all, Saved{no, b.pack()})
		}
	}
	return all
}

func (b *textBlock) pack() []byte {
	if b.packed != nil {
		return b.packed
	}
	all := make([]byte, 0, len(b.raw)+2*len(b.ends)+2)
	all = binary.AppendUvarint(all, uint64(len(b.ends)))
	for _, end := range b.ends {
		all = binary.LittleEndian.AppendUint16(all, end)
	}
	return bytes.Clone(packer().EncodeAll(append(all, b.raw...), nil))
}

// open returns the texts of a block and where each ends; nil: it is damaged.
func (b *textBlock) open() (raw []byte, ends []uint16) {
	if b.packed == nil {
		return b.raw, b.ends
	}
	all, err := unpacker().DecodeAll(b.packed, nil)
	n, used := binary.Uvarint(all)
	if err != nil || used <= 0 || n > blockTexts || len(all) < used+2*int(n) {
		return nil, nil
	}
	all = all[used:]
	for i := range int(n) {
		ends = append(ends, binary.LittleEndian.Uint16(all[2*i:]))
	}
	return all[2*n:], ends
}

// openBlock is a block that a search has open.
type openBlock struct {
	of   *textBlock
	raw  []byte
	ends []uint16
}

// Cache keeps the last blocks that a search used open.
type Cache struct {
	recent [4]openBlock
	next   int
}

// Text returns a text; empty: there is none.
func (o *Cache) Text(t *Blocks, at Ref) []byte {
	b := t.blocks[at.Block]
	if at.No == 0 || b == nil {
		return nil
	}
	for i := range o.recent {
		if o.recent[i].of == b {
			return o.recent[i].at(at.No)
		}
	}
	raw, ends := b.open()
	one := openBlock{b, raw, ends}
	if b.packed != nil { // one that is being filled is open, and grows
		o.recent[o.next] = one
		o.next = (o.next + 1) % len(o.recent)
	}
	return one.at(at.No)
}

func (o *openBlock) at(no uint8) []byte {
	if int(no) > len(o.ends) {
		return nil
	}
	from := 0
	if no > 1 {
		from = int(o.ends[no-2])
	}
	to := int(o.ends[no-1])
	if from > to || to > len(o.raw) {
		return nil
	}
	return o.raw[from:to]
}

// Short returns the beginning of a text in lower case.
func Short(s string) string {
	if len(s) > MaxBytes {
		s = s[:MaxBytes]
		for i := 0; i < utf8.UTFMax && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && len(s) > 0; i++ {
			s = s[:len(s)-1]
		}
	}
	s = strings.ToLower(s)
	if len(s) > MaxBytes { // some letters grow
		s = s[:MaxBytes]
	}
	return s
}

// OfSpec returns the text by which a run is found: its prompt, else its parameters as sent.
func OfSpec(s *run.Spec) string {
	if s.Input == nil {
		return ""
	}
	rest, isPrompt := bytes.CutPrefix(s.Parameters, []byte(`{"prompt":"`))
	if !isPrompt {
		return Short(string(s.Parameters[:min(len(s.Parameters), 2*MaxBytes)]))
	}
	end := 0
	for end < len(rest) && end < 6*MaxBytes && rest[end] != '"' { // an escaped character takes at most six bytes
		end++
		if rest[end-1] == '\\' {
			end++
		}
	}
	if end >= len(rest) {
		return ""
	}
	raw := rest[:end]
	if bytes.IndexByte(raw, '\\') < 0 {
		return Short(string(raw))
	}
	var text string
	for cut := end; cut > max(0, end-12); cut-- { // not inside an escape
		if json.Unmarshal(append(append([]byte{'"'}, rest[:cut]...), '"'), &text) == nil {
			break
		}
	}
	return Short(text)
}

// Saved is a block of texts in a checkpoint.
type Saved struct {
	No     uint32
	Packed []byte
}
