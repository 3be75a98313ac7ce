package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// toLog as AO_AUDIT_LOG sends the entries to the program's own log, as msg=audit.
const toLog = "log"

// Limits that nobody needs to change.
const (
	queue      = 8192                   // entries waiting to be written; more are counted and lost
	flushEvery = 200 * time.Millisecond // the longest that an entry waits in memory
	flushAt    = 64 << 10               // bytes that are written at once
	warnEvery  = 30 * time.Second       // between two warnings about lost entries
	countEach  = time.Second            // between two checks of what was only counted
)

// Log is where entries go. A nil Log takes none, and costs nothing.
type Log struct {
	trail *Trail // nil: entries go into no stream

	path string
	log  *slog.Logger
	in   chan Entry    // nil: entries go into no file
	few  refusals      // bounds the refusals in the file
	lost atomic.Uint64 // entries that were never written

	reopen chan chan error
	quit   chan struct{}
	ended  chan struct{}
	close  sync.Once

	// Of the writer alone.
	file       *os.File // nil: to the log
	buf        bytes.Buffer
	encoder    *json.Encoder
	partial    bool   // the file's last line is incomplete
	gapLost    uint64 // lost as reported by the buffer's first line; 0: it reports nothing
	lostInFile uint64 // how much of lost the file reports
	lostInLog  uint64 // how much of lost the log reports
	warnedAt   time.Time
	lastErr    error // of the last failed write
}

// Open opens an audit log. where is toLog, or a file for its owner only, which is appended to; empty: none. Entries go
// to trail, too, unless it is nil. Without either, Open returns nil.
func Open(where string, trail *Trail, log *slog.Logger) (*Log, error) {
	if where == "" {
		if trail == nil {
			return nil, nil
		}
		return &Log{trail: trail}, nil
	}
	l := &Log{
		trail: trail,
		log:   cmp.Or(log, slog.Default()), in: make(chan Entry, queue),
		reopen: make(chan chan error), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	if where != toLog {
		var err error
		l.file, err = open(where)
		if err != nil {
			return nil, err
		}
		l.path = where
	}
	l.encoder = json.NewEncoder(&l.buf)
	l.encoder.SetEscapeHTML(false)
	go l.write()
	return l, nil
}

func open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && info.Mode()&os.ModeCharDevice == 0 {
		return nil, fmt.Errorf("AO_AUDIT_LOG %q is not a file; name one, or %q for the program's own log", path, toLog)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf(
			"AO_AUDIT_LOG %q cannot be opened: %w; name a file in a folder that this user may write to, or %q", path,
			err, toLog)
	}
	return f, nil
}

// Record takes an entry and returns at once. What cannot be written is counted and reported.
func (l *Log) Record(e Entry) {
	if l == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	l.trail.record(e)
	if l.in == nil || !l.few.allow(&e) {
		return
	}
	select {
	case l.in <- e:
	default:
		l.lost.Add(1)
	}
}

// Path returns the file that is written to; empty: none.
func (l *Log) Path() string {
	if l == nil {
		return ""
	}
	return l.path
}

// Reopen writes what waits, and continues in the file that has the name now: a new one after a rotation. If that cannot
// be opened it continues in the old one, and logs why.
func (l *Log) Reopen() {
	if l == nil || l.path == "" {
		return
	}
	done := make(chan error, 1)
	select {
	case l.reopen <- done:
		if err := <-done; err != nil {
			l.log.Error("audit log not reopened; it continues in the old file", "err", err)
			return
		}
		l.log.Info("audit log reopened", "file", l.path)
	case <-l.ended:
	}
}

// Close writes what waits and ends the log. A trail is ended by its own Run.
func (l *Log) Close() {
	if l == nil || l.in == nil {
		return
	}
	l.close.Do(func() { close(l.quit) })
	<-l.ended
}

// write is the only goroutine that writes.
func (l *Log) write() {
	defer close(l.ended)
	timer := time.NewTimer(flushEvery)
	timer.Stop()
	count := time.NewTicker(countEach)
	defer count.Stop()
	for {
		select {
		case e := <-l.in:
			if l.buf.Len() == 0 {
				timer.Reset(flushEvery)
			}
			l.add(e)
			if l.buf.Len() >= flushAt {
				l.flush()
			}
		case <-timer.C:
			l.flush()
		case <-count.C:
			l.count(false)
		case done := <-l.reopen:
			l.drain()
			f, err := open(l.path)
			if err == nil {
				_ = l.file.Close()
				l.file, l.partial = f, false
			}
			done <- err
		case <-l.quit:
			l.finish()
			return
		}
	}
}

// drain writes what waits now.
func (l *Log) drain() {
	for range len(l.in) {
		l.add(<-l.in)
		if l.buf.Len() >= flushAt {
			l.flush()
		}
	}
	l.flush()
}

// finish writes what waits, and reports what was lost.
func (l *Log) finish() {
	l.drain()
	l.count(true)
	l.warnedAt = time.Time{}
	l.warnLost()
	if l.file != nil {
		_ = l.file.Sync() // devices cannot be synced
		if err := l.file.Close(); err != nil {
			l.log.Error("audit log", "err", err)
		}
	}
}

// count writes how many refusals were only counted; all: also for kinds reported a moment ago.
func (l *Log) count(all bool) {
	summaries := l.few.omitted(time.Now().UTC(), all)
	for _, e := range summaries {
		l.add(e)
	}
	if len(summaries) > 0 {
		l.flush()
	}
}

// add puts a line into the buffer, after one for a gap if there is one. Entries for the log are written at once.
func (l *Log) add(e Entry) {
	if l.file == nil {
		l.log.LogAttrs(context.Background(), slog.LevelInfo, "audit", e.attrs()...)
		l.warnLost()
		return
	}
	if l.buf.Len() == 0 {
		if l.partial {
			l.buf.WriteByte('\n')
		}
		l.gapLost = 0
		if n := l.lost.Load(); n > l.lostInFile {
			l.gapLost = n
			l.encode(Entry{Time: e.Time, Action: Lost, Count: n - l.lostInFile})
		}
	}
	l.encode(e)
}

func (l *Log) encode(e Entry) {
	if err := l.encoder.Encode(e); err != nil {
		l.log.Error("audit entry cannot be encoded", "action", e.Action, "err", err)
	}
}

// flush writes the buffer. Lines that the disk does not take are lost: waiting for room would block others.
func (l *Log) flush() {
	if raw := l.buf.Bytes(); len(raw) > 0 {
		n, err := l.file.Write(raw)
		whole := bytes.LastIndexByte(raw[:n], '\n') + 1
		if n > 0 {
			l.partial = whole < n
		}
		missing := bytes.Count(raw[whole:], []byte{'\n'})
		if whole == 0 && raw[0] == '\n' { // the end of a partial line is no line
			missing--
		}
		switch {
		case l.gapLost == 0:
		case whole > 1: // more than the end of a partial line
			l.lostInFile = l.gapLost
		default:
			missing--
		}
		if missing > 0 {
			l.lost.Add(uint64(missing))
			l.lastErr = err
		}
		l.buf.Reset()
	}
	l.warnLost()
}

// warnLost logs what was lost, at most every half a minute.
func (l *Log) warnLost() {
	lost := l.lost.Load()
	if lost == l.lostInLog || time.Since(l.warnedAt) < warnEvery {
		return
	}
	l.log.Error("audit entries lost; their requests were carried out", "file", l.path,
		"count", lost-l.lostInLog, "err", l.lastErr)
	l.lostInLog, l.warnedAt = lost, time.Now()
}
