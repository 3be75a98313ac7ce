package follow

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/coordinator/projection/text"
)

// errDamaged says that a checkpoint is not what was written.
var errDamaged = errors.New("it is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkpointHeader is the first line of a checkpoint. Parts in the format of encoding/gob follow, and a CRC-32C of all.
func checkpointHeader(identity string) string {
	return fmt.Sprintf("checkpoint %d of %s\n", state.CheckpointVersion, identity)
}

// checkpointWriter writes a checkpoint while records are applied. Under the lock it only copies, one part at a time.
type checkpointWriter struct {
	p       *projection.Projection
	to      *gob.Encoder
	size    int    // sessions, runs or texts of a part
	rest    func() // called between two locks
	longest time.Duration
}

// writeCheckpoint writes a checkpoint without its checksum. It returns the checkpoint's sequence and the longest time
// that the lock was held.
func writeCheckpoint(p *projection.Projection, identity string, to io.Writer, size int, rest func()) (
	seq uint64, longest time.Duration, err error,
) {
	if _, err := io.WriteString(to, checkpointHeader(identity)); err != nil {
		return 0, 0, err
	}
	w := &checkpointWriter{p: p, to: gob.NewEncoder(to), size: size, rest: rest}
	seq, err = w.write()
	return seq, w.longest, err
}

func (w *checkpointWriter) write() (seq uint64, err error) {
	var c *state.Saving
	w.p.Updating(func(f *state.State) { c = state.StartSaving(f) })
	defer w.p.Updating(func(*state.State) { c.Stop() })
	var p state.Part
	for more := true; ; {
		w.p.Reading(func(f *state.State) {
			begin := time.Now()
			more, err = c.Next(f, &p, w.size)
			w.held(begin)
		})
		if err == nil && more {
			err = w.encode(p)
		}
		if err != nil {
			return 0, err
		}
		if !more {
			return w.end(c)
		}
		w.rest()
	}
}

// held notes that the lock was held since begin.
func (w *checkpointWriter) held(begin time.Time) { w.longest = max(w.longest, time.Since(begin)) }

// end writes the texts, what changed since the checkpoint began, and the rest of the state.
func (w *checkpointWriter) end(c *state.Saving) (seq uint64, err error) {
	var last state.Part
	var texts []text.Saved
	w.p.Updating(func(f *state.State) {
		begin := time.Now()
		last, texts, err = c.Last(f)
		w.held(begin)
	})
	if err != nil {
		return 0, err
	}
	last.Sort()
	for some := range slices.Chunk(texts, w.size) {
		if err := w.encode(state.Part{Texts: some}); err != nil {
			return 0, err
		}
	}
	return last.End.Seq, w.encode(last)
}

// encode writes a part.
func (w *checkpointWriter) encode(p state.Part) error {
	if err := p.EncodeSpecs(); err != nil {
		return err
	}
	return w.to.Encode(p)
}

// load builds the state from a checkpoint of a size. It decodes nothing whose checksum is wrong.
func load(file io.ReaderAt, size int64, identity string, key func(string, int) string) (*state.State, error) {
	content := io.NewSectionReader(file, 0, max(0, size-crc32.Size))
	sum, want := crc32.New(castagnoli), make([]byte, crc32.Size)
	_, err := io.Copy(sum, content)
	if err == nil {
		_, err = file.ReadAt(want, content.Size())
	}
	if err != nil || !bytes.Equal(sum.Sum(nil), want) {
		return nil, errors.Join(errDamaged, err)
	}
	from := bufio.NewReader(io.NewSectionReader(content, 0, content.Size()))
	header := checkpointHeader(identity)
	if got, _ := from.ReadString('\n'); got != header {
		return nil, fmt.Errorf("it has another version, or belongs to another stream: %.99q instead of %q", got, header)
	}
	l, d := state.NewLoader(key), gob.NewDecoder(from)
	for p := (state.Part{}); ; p.Clear() {
		err := d.Decode(&p)
		var f *state.State
		if err == nil {
			f, err = l.Add(&p)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		if f != nil {
			return f, nil
		}
	}
}
