package projection

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"ao/nats/stream"
	"ao/shared/run"
)

// errDamaged says that a checkpoint is not what was written.
var errDamaged = errors.New("it is damaged")

// load builds the state from a checkpoint of a size. It decodes nothing whose checksum is wrong.
func load(file io.ReaderAt, size int64, identity string, key func(string, int) string) (*reducer, error) {
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
	l := &checkpointReader{f: newReducer(key), sessions: map[uint64]*session{}, turns: map[*row]uint64{},
		children: map[*row][]uint64{}, pending: map[*session][]uint64{}}
	var p part
	for d := gob.NewDecoder(from); ; {
		clear(p.Sessions) // gob leaves fields alone that were zero
		clear(p.Runs)
		p = part{Sessions: p.Sessions[:0], Runs: p.Runs[:0]} // memory is used again
		err := d.Decode(&p)
		if err == nil {
			err = l.add(&p)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		if p.End != nil {
			l.join()
			return l.f, nil
		}
	}
}

// checkpointReader builds a state from parts. Its maps hold links until everything is read.
type checkpointReader struct {
	f        *reducer
	sessions map[uint64]*session // by first
	turns    map[*row]uint64
	children map[*row][]uint64
	pending  map[*session][]uint64
}

// add takes over a part. What the last part has again replaces what was before.
func (l *checkpointReader) add(p *part) error {
	for i := range p.Sessions {
		l.session(&p.Sessions[i])
	}
	for i := range p.Runs {
		if err := l.run(&p.Runs[i]); err != nil {
			return err
		}
	}
	for _, b := range p.Texts {
		l.f.texts.put(b.No, b.Packed)
	}
	if p.End != nil {
		l.end(p.End)
	}
	return nil
}

func (l *checkpointReader) session(saved *savedSession) {
	s := l.sessions[saved.Session.First]
	if s == nil {
		if saved.Runs == 0 {
			return
		}
		s = &session{}
		l.sessions[saved.Session.First] = s
		l.f.sorder = append(l.f.sorder, s)
	}
	*s = saved.Session
	s.runs = saved.Runs
	for _, name := range []*string{&s.Agent, &s.AgentType, &s.Dir} {
		*name = l.f.scan.name([]byte(*name))
	}
	put(l.pending, s, saved.Pending, len(saved.Pending) > 0)
}

func (l *checkpointReader) run(saved *savedRun) error {
	f := l.f
	r := l.rowAt(saved.Run.First)
	if r == nil {
		if saved.Run.Evicted {
			return nil
		}
		r = &row{}
		f.order = append(f.order, r)
	}
	*r = saved.Run
	r.session = l.sessions[saved.Session]
	for _, name := range []*string{&r.Agent, &r.Runner, &r.Dir} {
		*name = f.scan.name([]byte(*name))
	}
	put(l.turns, r, saved.Turn, saved.Turn != 0)
	put(l.children, r, saved.Children, len(saved.Children) > 0)
	put(f.retryOf, r, saved.RetryOf, saved.RetryOf != ident{})
	put(f.past, r, saved.Past, len(saved.Past) > 0)
	f.payloads.drop(r)
	if saved.Stored != nil {
		f.payloads.of[r] = saved.Stored
		f.payloads.bytes += saved.Stored.In + saved.Stored.Out
	}
	put(f.webhooks.of, r, saved.Webhook, saved.Webhook != nil)
	if saved.Webhook != nil {
		saved.Webhook.row = r
	}
	if saved.Active == nil {
		return nil
	}
	q, err := run.DecodeQueued(saved.Spec, f.scan.name)
	saved.Active.Spec = &q.Spec
	r.live = &live{snap: saved.Active}
	r.show()
	return err
}

// put sets or deletes an element of a map.
func put[K comparable, V any](m map[K]V, k K, v V, is bool) {
	if is {
		m[k] = v
	} else {
		delete(m, k)
	}
}

func (l *checkpointReader) end(e *savedEnd) {
	f := l.f
	f.seq, f.callbacks.recent, f.late.all = e.Seq, e.Recent, e.Late
	f.changes.lost = e.Seq // earlier changes are unknown
	maps.Copy(f.deleted, e.Deleted)
	maps.Copy(f.trees.parents, e.Parents)
	maps.Copy(f.trees.stopped, e.Stopped)
	f.lastRead = stream.TailOf(e.Fingerprints)
	for _, p := range e.Reserved {
		f.callbacks.reserved[p.Run] = reservation{p.Seq, p.Session, l.rowsAt(p.Children)}
	}
}

// join links everything, and notes the work that is due.
func (l *checkpointReader) join() {
	f := l.f
	f.sorder = slices.DeleteFunc(f.sorder, func(s *session) bool { return s.runs == 0 })
	f.order = slices.DeleteFunc(f.order, func(r *row) bool { return r.Evicted })
	f.sessions, f.runs = make(map[ident]*session, len(f.sorder)), make(map[ident]*row, len(f.order))
	for _, s := range f.sorder {
		s.runs = 0 // link counts them
		f.sessions[s.Ident] = s
		f.trees.children.add(s)
	}
	for _, s := range f.sorder {
		joinTree(f.tables, s, maxDepth)
	}
	for _, r := range f.order {
		f.runs[r.Ident] = r
		link(f, r)
		f.usage.add(r, 1)
		f.texts.use(r.Text)
		f.texts.use(r.Failure)
		if first, is := l.turns[r]; is {
			r.turn = l.rowAt(first)
		}
		if first, is := l.children[r]; is {
			r.live.children = l.rowsAt(first)
		}
		if h := f.webhooks.of[r]; h != nil && r.Webhook == webhookPending {
			f.webhooks.hosts.add(h)
		}
	}
	f.waitlists.rebuild(f.head, f.trees)
	for _, s := range f.sorder {
		for _, child := range l.rowsAt(l.pending[s]) {
			if child.Suppressed {
				f.trees.suppressing[s] = append(f.trees.suppressing[s], child)
				continue
			}
			s.pending = append(s.pending, child)
			f.pending[s] = true
		}
		f.trees.indexBelow(s)
		f.settle(s)
		f.callbacks.noteReady(s)
	}
}

// rowAt returns the row with this first record; nil: there is none.
func (l *checkpointReader) rowAt(first uint64) *row {
	if n := len(l.f.order); n == 0 || l.f.order[n-1].First < first {
		return nil
	}
	i, found := slices.BinarySearchFunc(l.f.order, first, func(r *row, n uint64) int { return cmp.Compare(r.First, n) })
	if !found {
		return nil
	}
	return l.f.order[i]
}

// rowsAt returns the rows with these first records that are kept.
func (l *checkpointReader) rowsAt(firsts []uint64) (all []*row) {
	for _, first := range firsts {
		if r := l.rowAt(first); r != nil && !r.Evicted {
			all = append(all, r)
		}
	}
	return all
}
