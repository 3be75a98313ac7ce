package projection

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
)

// A snapshot is written after so many records or, where anything moved, so long.
const (
	snapshotRecords = 200_000
	snapshotEvery   = 10 * time.Minute
	strayAfter      = 7 * 24 * time.Hour // snapshots of other streams, and halves of a program that was killed
)

// shelf is the folder of snapshots. A snapshot only shortens a start: whatever is wrong with it, it is thrown away and the
// whole history is read.
type shelf struct {
	p        *Projection
	source   Source
	log      *slog.Logger
	dir      string
	identity string // of the stream; empty: not known, nothing is kept
	saved    uint64 // sequence of the newest snapshot
	at       time.Time
	newest   atomic.Pointer[SnapshotStats]
}

// open finds out of which stream the snapshots are, and whether the folder can be used.
func (s *shelf) open(ctx context.Context) {
	if s.dir == "" {
		return
	}
	err := os.MkdirAll(s.dir, 0o700)
	if err == nil {
		err = s.usable()
	}
	if err != nil {
		s.log.Warn("no snapshots: every start reads the whole history", "err", err)
		return
	}
	for ctx.Err() == nil {
		if state, err := s.source.State(ctx); err == nil {
			s.identity = subject.Runs + " " + state.Created.UTC().Format(time.RFC3339Nano)
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
	s.identity = ""
}

func (s *shelf) usable() error {
	f, err := os.CreateTemp(s.dir, "fold-*.part")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func (s *shelf) file() string {
	sum := sha256.Sum256([]byte(s.identity))
	return filepath.Join(s.dir, "fold-"+hex.EncodeToString(sum[:8])+".snapshot")
}

// restore makes the fold of the snapshot, if it is of the history that the stream holds; that is then followed behind the last
// of the snapshot's records that is kept.
func (s *shelf) restore(ctx context.Context) (last Record) {
	if s.identity == "" {
		return Record{}
	}
	begin := time.Now()
	raw, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}
	}
	var f *fold
	if err == nil {
		f, err = load(raw, s.identity, read(s.p, func(f *fold) func(string, int) string { return f.key }))
	}
	for err == nil {
		var wrong error
		last, wrong, err = s.check(ctx, f)
		if err == nil && wrong == nil {
			break
		}
		if wrong != nil {
			err = wrong
			break
		}
		if ctx.Err() != nil {
			return Record{}
		}
		s.log.Debug("snapshot not compared yet; trying again", "err", err) // NATS is away
		pause(ctx, 100*time.Millisecond)
		err = nil
	}
	if err != nil {
		s.drop(err)
		return Record{}
	}
	s.p.adopt(f)
	s.saved, s.at = f.seq, time.Now()
	s.log.Info("snapshot read", "seq", f.seq, "runs", len(f.runs), "took", time.Since(begin).Round(time.Millisecond))
	return last
}

// check tells whether the stream goes on from where the snapshot ends, and holds what the snapshot's last records were; it gives
// the last of them that is kept. err: NATS could not say.
func (s *shelf) check(ctx context.Context, f *fold) (last Record, wrong, err error) {
	state, err := s.source.State(ctx)
	if err != nil {
		return last, nil, err
	}
	if f.seq > state.Last {
		return last, fmt.Errorf("it is of record %d, the history ends with %d", f.seq, state.Last), nil
	}
	if state.First > f.seq+1 {
		return last, fmt.Errorf("it is of record %d, the history begins with %d", f.seq, state.First), nil
	}
	for _, p := range lastPrints(f) {
		m, err := s.source.Get(ctx, p.seq)
		if errors.Is(err, stream.ErrNotFound) { // purged
			continue
		}
		if err != nil {
			return last, nil, err
		}
		if now, _ := printOf(m, nil); now != p {
			return last, fmt.Errorf("record %d is another one than it was", p.seq), nil
		}
		last = m
	}
	if last.Seq == 0 {
		return last, errors.New("none of its last records is kept, so nothing tells whether it is of this history"), nil
	}
	return last, nil, nil
}

// drop throws the snapshot away.
func (s *shelf) drop(why error) {
	s.saved = 0
	if s.identity == "" {
		return
	}
	err := os.Remove(s.file())
	if !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("snapshot thrown away; reading the whole history", "why", why, "err", err)
	}
}

// keep writes snapshots until ctx ends.
func (s *shelf) keep(ctx context.Context) {
	if s.identity == "" {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		moved := s.applied() - s.saved
		if s.p.live.Load() && moved > 0 && (moved >= snapshotRecords || time.Since(s.at) >= snapshotEvery) {
			_, err := s.save(func() { pause(ctx, 2*look) })
			if errors.Is(err, errPassOver) {
				continue // with the next tick
			}
			s.at = time.Now() // also in vain: not every second
		}
	}
}

// last writes the snapshot of a clean end.
func (s *shelf) last() {
	if s.identity != "" && s.applied() > s.saved {
		_, _ = s.save(func() {})
	}
}

// Saved is a snapshot that was written.
type SnapshotStats struct {
	Seq     uint64 // of the last record in it
	Bytes   int64
	Took    time.Duration // all of it
	Longest time.Duration // the longest that the fold stood still for it
}

// save writes a snapshot; rest is called between two looks at the fold. What goes wrong is logged here.
func (s *shelf) save(rest func()) (done SnapshotStats, err error) {
	if !read(s.p, worthKeeping) {
		return done, nil
	}
	begin := time.Now()
	part, err := os.CreateTemp(s.dir, "fold-*.part")
	if err == nil {
		done, err = s.fill(part, rest)
		if err != nil {
			os.Remove(part.Name())
		}
	}
	done.Took = time.Since(begin)
	switch {
	case err == nil:
		s.saved, s.at = done.Seq, time.Now()
		s.newest.Store(&done)
		s.log.Info("snapshot written", "seq", done.Seq, "bytes", done.Bytes, "took", done.Took.Round(time.Millisecond), "longest_hold", done.Longest.Round(time.Microsecond))
		s.sweep()
	case !errors.Is(err, errPassOver):
		s.log.Warn("snapshot not written; the next start reads more", "err", err)
	}
	return done, err
}

// fill writes a file and gives it its name: it is whole, or not there.
func (s *shelf) fill(part *os.File, rest func()) (done SnapshotStats, err error) {
	defer part.Close()
	sum := crc32.New(castagnoli)
	done.Seq, done.Longest, err = checkpoint(s.p, s.identity, rest, func(b []byte) error {
		sum.Write(b)
		n, err := part.Write(b)
		done.Bytes += int64(n)
		return err
	})
	if err == nil {
		_, err = part.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	}
	if err == nil {
		err = part.Sync()
	}
	if err == nil {
		err = part.Close()
	}
	if err == nil {
		err = os.Rename(part.Name(), s.file())
	}
	if err != nil {
		return done, err
	}
	folder, err := os.Open(s.dir)
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	return done, err
}

// sweep removes what nobody has written to for long: snapshots of streams that are gone, and unfinished ones.
func (s *shelf) sweep() {
	all, _ := filepath.Glob(filepath.Join(s.dir, "fold-*"))
	for _, name := range all {
		if i, err := os.Stat(name); err == nil && name != s.file() && time.Since(i.ModTime()) > strayAfter {
			os.Remove(name)
		}
	}
}

// applied is the sequence of the last record that was applied.
func (s *shelf) applied() uint64 {
	return read(s.p, func(f *fold) uint64 { return f.seq })
}
