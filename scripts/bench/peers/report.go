package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The workers of all systems report each job on stdout in 16 bytes: when it was submitted (its number "at"), and when
// it started. Both are in nanoseconds since 1970, little-endian. Two zeros first mean that the worker is ready.

// job returns a job submitted at that time with a text of the given size.
func job(at time.Time, text int) []byte {
	return append(strconv.AppendInt(append(make([]byte, 0, text+48), `{"at":`...), at.UnixNano(), 10),
		`,"text":"`+strings.Repeat("x", text)+`"}`...)
}

func submittedAt(job []byte) int64 {
	_, rest, _ := bytes.Cut(job, []byte(`"at":`))
	rest = bytes.TrimLeft(rest, " ") // PostgreSQL reformats JSON
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	at, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return max(at, 1)
}

// report is the worker's end.
type report chan [2]int64

func newReport() report {
	r := make(report, 1024)
	go func() {
		out := bufio.NewWriter(os.Stdout)
		for pair := range r {
			binary.Write(out, binary.LittleEndian, pair)
			if len(r) == 0 {
				out.Flush()
			}
		}
	}()
	return r
}

func (r report) ready()             { r <- [2]int64{} }
func (r report) started(job []byte) { r <- [2]int64{submittedAt(job), time.Now().UnixNano()} }

// work runs a job: it returns at once, or never in a worker that holds its jobs.
func (r report) work(ctx context.Context, job []byte) error {
	r.started(job)
	if os.Getenv("AO_PEERS_HOLD") != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// tally collects a worker's reports.
type tally struct {
	ready chan struct{}

	mu    sync.Mutex
	count int             // jobs since the start
	took  []time.Duration // since takeDelays: from submission to start
}

func newTally() *tally { return &tally{ready: make(chan struct{})} }

func (t *tally) read(r io.Reader) {
	in := bufio.NewReader(r)
	var pair [16]byte
	for {
		if _, err := io.ReadFull(in, pair[:]); err != nil {
			return
		}
		at, began := int64(binary.LittleEndian.Uint64(pair[:])), int64(binary.LittleEndian.Uint64(pair[8:]))
		if at == 0 && began == 0 {
			close(t.ready)
			continue
		}
		t.mu.Lock()
		t.count++
		t.took = append(t.took, time.Duration(began-at))
		t.mu.Unlock()
	}
}

func (t *tally) started() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

func (t *tally) takeDelays() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := t.took
	t.took = nil
	return took
}
