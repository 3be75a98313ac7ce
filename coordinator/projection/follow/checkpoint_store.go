package follow

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/clock"
)

// A checkpoint is written after so many records or, if anything changed, so long.
const (
	snapshotRecords = 200_000
	snapshotEvery   = 10 * time.Minute
	partSize        = 1024               // sessions, runs or texts that are copied under one lock
	strayAge        = 7 * 24 * time.Hour // checkpoints of other streams, and unfinished ones of a killed program
)

// checkpointStore is the folder of checkpoints. A checkpoint only shortens a start: if anything is wrong with it, it is
// discarded and the whole history is read.
type checkpointStore struct {
	p        *projection.Projection
	source   Source
	log      *slog.Logger
	dir      string
	identity string // of the stream; empty: unknown, nothing is stored
	saved    uint64 // sequence of the newest checkpoint
	at       time.Time
	newest   atomic.Pointer[SnapshotStats]
}

// open makes the folder, and finds out which stream the checkpoints belong to.
func (s *checkpointStore) open(ctx context.Context) {
	if s.dir == "" {
		return
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		s.log.Warn("no checkpoints: every start reads the whole history", "err", err)
		return
	}
	for ctx.Err() == nil {
		if state, err := s.source.State(ctx); err == nil {
			s.identity = subject.Runs + " " + state.Created.UTC().Format(time.RFC3339Nano)
			return
		}
		clock.Sleep(ctx, 100*time.Millisecond)
	}
	s.identity = ""
}

func (s *checkpointStore) file() string {
	sum := sha256.Sum256([]byte(s.identity))
	return filepath.Join(s.dir, "fold-"+hex.EncodeToString(sum[:8])+".snapshot")
}

// restore loads the checkpoint if it belongs to the stream's history.
func (s *checkpointStore) restore(ctx context.Context) {
	if s.identity == "" {
		return
	}
	begin := time.Now()
	f, err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for away := err == nil; away; {
		var noAnswer error
		err, noAnswer = s.check(ctx, f)
		away = noAnswer != nil
		if away {
			s.log.Debug("checkpoint not compared yet, retrying", "err", noAnswer)
			clock.Sleep(ctx, 100*time.Millisecond)
		}
		if ctx.Err() != nil {
			return
		}
	}
	if err != nil {
		if f != nil { // it is readable, and of another history
			projection.KeepFormer(s.p, f)
		}
		s.discard(err)
		return
	}
	s.p.Restore(f)
	s.saved, s.at = state.LastSeq(f), time.Now()
	runs, _ := state.Kept(f)
	s.log.Info("checkpoint read", "seq", state.LastSeq(f), "runs", runs,
		"took", time.Since(begin).Round(time.Millisecond))
}

// read reads the checkpoint.
func (s *checkpointStore) read() (*state.State, error) {
	file, err := os.Open(s.file())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	return load(file, size, s.identity, projection.Read(s.p, state.KeysOf))
}

// check returns why the stream does not continue from the checkpoint, or does not hold its last records. err: NATS did
// not answer.
func (s *checkpointStore) check(ctx context.Context, f *state.State) (wrong, err error) {
	held, err := s.source.State(ctx)
	if err != nil {
		return nil, err
	}
	if state.LastSeq(f) > held.Last {
		return fmt.Errorf("it ends at record %d, the history ends at %d", state.LastSeq(f), held.Last), nil
	}
	if held.First > state.LastSeq(f)+1 {
		return fmt.Errorf("it ends at record %d, the history begins at %d", state.LastSeq(f), held.First), nil
	}
	switch kept, changed, err := stream.Compare(ctx, s.source, state.LastFingerprints(f)); {
	case err != nil:
		return nil, err
	case changed != 0:
		return fmt.Errorf("record %d has changed", changed), nil
	case kept.Seq == 0:
		return errors.New("none of its last records is kept, so it cannot be matched with this history"), nil
	}
	return nil, nil
}

// discard removes the checkpoint.
func (s *checkpointStore) discard(why error) {
	s.saved = 0
	if s.identity == "" {
		return
	}
	err := os.Remove(s.file())
	if !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("checkpoint discarded; reading the whole history", "why", why, "err", err)
	}
}

// run writes checkpoints until ctx ends.
func (s *checkpointStore) run(ctx context.Context) {
	if s.identity == "" {
		return
	}
	for clock.Sleep(ctx, time.Second) {
		moved := s.applied() - s.saved
		if s.p.Live.Load() && moved > 0 && (moved >= snapshotRecords || time.Since(s.at) >= snapshotEvery) {
			_, err := s.save(func() { clock.Sleep(ctx, time.Millisecond) })
			if errors.Is(err, state.ErrInterrupted) {
				continue // with the next tick
			}
			s.at = time.Now() // also after a failure: not every second
		}
	}
}

// saveFinal writes the checkpoint of a clean shutdown.
func (s *checkpointStore) saveFinal() {
	if s.identity != "" && s.applied() > s.saved {
		_, _ = s.save(func() {})
	}
}

// SnapshotStats describes a checkpoint that was written.
type SnapshotStats struct {
	Seq     uint64 // of the last record in it
	Bytes   int64
	Took    time.Duration // total time
	Longest time.Duration // the longest time that the lock was held
}

// save writes a checkpoint. rest is called between two locks. Errors are logged here.
func (s *checkpointStore) save(rest func()) (done SnapshotStats, err error) {
	if !projection.Read(s.p, state.CanCheckpoint) {
		return done, nil
	}
	begin := time.Now()
	part, err := os.CreateTemp(s.dir, "fold-*.part")
	if err == nil {
		done, err = s.writeFile(part, rest)
		if err != nil {
			os.Remove(part.Name())
		}
	}
	done.Took = time.Since(begin)
	switch {
	case err == nil:
		s.saved, s.at = done.Seq, time.Now()
		s.newest.Store(&done)
		s.log.Info("checkpoint written", "seq", done.Seq, "bytes", done.Bytes, "took",
			done.Took.Round(time.Millisecond), "longest_lock", done.Longest.Round(time.Microsecond))
		s.removeStrays()
	case !errors.Is(err, state.ErrInterrupted):
		s.log.Warn("checkpoint not written; the next start reads more", "err", err)
	}
	return done, err
}

// writeFile writes the file and then gives it its name: it is complete, or not there.
func (s *checkpointStore) writeFile(part *os.File, rest func()) (done SnapshotStats, err error) {
	defer part.Close()
	sum, to := crc32.New(castagnoli), bufio.NewWriter(part)
	done.Seq, done.Longest, err = writeCheckpoint(s.p, s.identity, io.MultiWriter(to, sum), partSize, rest)
	if err != nil {
		return done, err
	}
	to.Write(sum.Sum(nil)) // Flush has its error
	err = errors.Join(to.Flush(), part.Sync())
	if err == nil {
		done.Bytes, err = part.Seek(0, io.SeekCurrent)
	}
	err = errors.Join(err, part.Close())
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

// removeStrays removes old checkpoints of other streams, and unfinished ones.
func (s *checkpointStore) removeStrays() {
	all, _ := filepath.Glob(filepath.Join(s.dir, "fold-*"))
	for _, name := range all {
		if i, err := os.Stat(name); err == nil && name != s.file() && time.Since(i.ModTime()) > strayAge {
			os.Remove(name)
		}
	}
}

// applied returns the sequence of the last applied record.
func (s *checkpointStore) applied() uint64 {
	return projection.Read(s.p, state.LastSeq)
}
