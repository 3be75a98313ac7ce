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

// toLog as AO_AUDIT_LOG: the entries go into the program's own log, as msg=audit.
const toLog = "log"

// Limits that nobody needs to change.
const (
	queue      = 8192                   // entries that wait to be written; more are counted and lost
	flushEvery = 200 * time.Millisecond // the longest that an entry waits in memory
	flushAt    = 64 << 10               // bytes that are written at once
	remindEach = 30 * time.Second       // between two words about what was lost
	countEach  = time.Second            // between two looks at what was only counted
)

// Log is where entries go. A nil Log takes none, and costs nothing.
type Log struct {
	trail *Trail // nil: entries go into no stream

	path string
	log  *slog.Logger
	in   chan Entry    // nil: entries go into no file
	few  refusals      // bounds how many of them the file has
	lost atomic.Uint64 // entries that were not written, ever

	again chan chan error
	quit  chan struct{}
	ended chan struct{}
	close sync.Once

	// of the writer alone
	file    *os.File // nil: to the log
	buf     bytes.Buffer
	encoder *json.Encoder
	torn    bool   // the file's last line is not whole
	gap     uint64 // what lost was when the buffer's first line told of it; 0: it does not
	filed   uint64 // of lost: told in the file
	said    uint64 // of lost: told in the log
	saidAt  time.Time
	why     error // of the last write that failed
}

// Open begins a record: where is toLog or a file, which is appended to and made readable by its owner alone. Empty: none. trail
// takes the entries too; nil: there is none. Where there is neither, nil is given.
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
		again: make(chan chan error), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	if where != toLog {
		var err error
		if l.file, err = open(where); err != nil {
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
		return nil, fmt.Errorf("AO_AUDIT_LOG %q is no file; name one, or %q for the program's own log", path, toLog)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("AO_AUDIT_LOG %q cannot be opened: %w; name a file in a folder that this user may write to, or %q", path, err, toLog)
	}
	return f, nil
}

// Note takes an entry and returns at once: what cannot be written is counted and told, and stops nobody.
func (l *Log) Record(e Entry) {
	if l == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	l.trail.note(e)
	if l.in == nil || !l.few.takes(&e) {
		return
	}
	select {
	case l.in <- e:
	default:
		l.lost.Add(1)
	}
}

// Path is the file that is written to; empty: there is none.
func (l *Log) Path() string {
	if l == nil {
		return ""
	}
	return l.path
}

// Reopen writes what there is and goes on in the file that has the name now: after a rotation, a new one. Where that cannot be
// opened, it goes on in the old one, and the log says why.
func (l *Log) Reopen() {
	if l == nil || l.path == "" {
		return
	}
	done := make(chan error, 1)
	select {
	case l.again <- done:
		if err := <-done; err != nil {
			l.log.Error("the audit log goes on in the file it had", "err", err)
			return
		}
		l.log.Info("audit log opened again", "file", l.path)
	case <-l.ended:
	}
}

// Close writes what there is and ends the record. A trail is ended by its own Run.
func (l *Log) Close() {
	if l == nil || l.in == nil {
		return
	}
	l.close.Do(func() { close(l.quit) })
	<-l.ended
}

// write is the one goroutine that writes.
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
			if l.add(e); l.buf.Len() >= flushAt {
				l.flush()
			}
		case <-timer.C:
			l.flush()
		case <-count.C:
			l.count(false)
		case done := <-l.again:
			l.drain()
			f, err := open(l.path)
			if err == nil {
				_ = l.file.Close()
				l.file, l.torn = f, false
			}
			done <- err
		case <-l.quit:
			l.finish()
			return
		}
	}
}

// drain writes what waits at this moment.
func (l *Log) drain() {
	for range len(l.in) {
		if l.add(<-l.in); l.buf.Len() >= flushAt {
			l.flush()
		}
	}
	l.flush()
}

// finish writes what still waits, and says what was lost and not told yet.
func (l *Log) finish() {
	l.drain()
	l.count(true)
	l.saidAt = time.Time{}
	l.tell()
	if l.file != nil {
		_ = l.file.Sync() // devices have no such thing
		if err := l.file.Close(); err != nil {
			l.log.Error("audit log", "err", err)
		}
	}
}

// count writes how many refusals were only counted; all: also those of a moment ago.
func (l *Log) count(all bool) {
	told := l.few.omitted(time.Now().UTC(), all)
	for _, e := range told {
		l.add(e)
	}
	if len(told) > 0 {
		l.flush()
	}
}

// add puts a line into the buffer, after one that tells of a gap where there is one; lines of the log go out at once.
func (l *Log) add(e Entry) {
	if l.file == nil {
		l.log.LogAttrs(context.Background(), slog.LevelInfo, "audit", e.attrs()...)
		l.tell()
		return
	}
	if l.buf.Len() == 0 {
		if l.torn {
			l.buf.WriteByte('\n')
		}
		l.gap = 0
		if n := l.lost.Load(); n > l.filed {
			l.gap = n
			l.encode(Entry{Time: e.Time, Action: Lost, Count: n - l.filed})
		}
	}
	l.encode(e)
}

func (l *Log) encode(e Entry) {
	if err := l.encoder.Encode(e); err != nil {
		l.log.Error("audit entry cannot be encoded", "action", e.Action, "err", err)
	}
}

// flush writes the buffer. Lines that the disk does not take are lost: who waited for room would keep others from working.
func (l *Log) flush() {
	if raw := l.buf.Bytes(); len(raw) > 0 {
		n, err := l.file.Write(raw)
		whole := bytes.LastIndexByte(raw[:n], '\n') + 1
		if n > 0 {
			l.torn = whole < n
		}
		missing := bytes.Count(raw[whole:], []byte{'\n'})
		if whole == 0 && raw[0] == '\n' { // the end of a torn line is none
			missing--
		}
		switch {
		case l.gap == 0:
		case whole > 1: // more than the end of a torn line
			l.filed = l.gap
		default:
			missing--
		}
		if missing > 0 {
			l.lost.Add(uint64(missing))
			l.why = err
		}
		l.buf.Reset()
	}
	l.tell()
}

// tell says in the log what was lost, at most every half a minute.
func (l *Log) tell() {
	lost := l.lost.Load()
	if lost == l.said || time.Since(l.saidAt) < remindEach {
		return
	}
	l.log.Error("audit entries are lost; what they were about was done all the same", "file", l.path, "count", lost-l.said, "err", l.why)
	l.said, l.saidAt = lost, time.Now()
}
