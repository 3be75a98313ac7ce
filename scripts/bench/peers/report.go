package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What a worker process reports is the same for all systems: on stdout 16 bytes for each job, when the job was handed in (the
// number "at" in it) and when it began, in nanoseconds since 1970, little-endian. Two zeros first: it takes jobs from now on.

// job is one that was handed in at that time, with so many bytes of text: in pieces that arguments of a command hold.
func job(at time.Time, text int) []byte {
	b := fmt.Appendf(make([]byte, 0, text+text/piece*16+48), `{"at":%d,"text":"%s"`, at.UnixNano(), filler(min(text, piece)))
	for n := 1; n*piece < text; n++ {
		b = fmt.Appendf(b, `,"text%d":"%s"`, n, filler(min(text-n*piece, piece)))
	}
	return append(b, '}')
}

const piece = 64 << 10

var fillers sync.Map

func filler(n int) string {
	if v, ok := fillers.Load(n); ok {
		return v.(string)
	}
	s := strings.Repeat("x", n)
	fillers.Store(n, s)
	return s
}

func submittedAt(job []byte) int64 {
	_, rest, _ := bytes.Cut(job, []byte(`"at":`))
	rest = bytes.TrimLeft(rest, " ") // PostgreSQL writes JSON anew
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	at, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return max(at, 1)
}

// report is the worker's side.
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

// work is what a job is: nothing, or in a worker that holds its jobs, no end.
func (r report) work(ctx context.Context, job []byte) error {
	r.started(job)
	if os.Getenv("AO_PEERS_HOLD") != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// tally is what a worker has reported.
type tally struct {
	ready chan struct{}

	mu    sync.Mutex
	count int             // jobs since the start
	took  []time.Duration // since last taken: from handing in until it began
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
