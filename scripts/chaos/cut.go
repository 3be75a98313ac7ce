package main

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// ids are those of runs and sessions in a record, wherever in it.
var ids = regexp.MustCompile(`(?:run|ses)_[0-9A-Za-z_-]+`)

// cut takes 8 to 64 KiB from the end of the newest file of RUNS, some records at least, and notes what the records were about that are
// gone with it. It gives how many bytes and how many whole records these were.
func (j *judge) cut(rng *rand.Rand) (n int64, records int, err error) {
	files, err := filepath.Glob(j.s.path("nats", "1", "jetstream", "*", "streams", "RUNS", "msgs", "*.blk"))
	if err != nil {
		return 0, 0, err
	}
	newest, most := "", -1
	for _, f := range files {
		if n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk")); err == nil && n > most {
			newest, most = f, n
		}
	}
	if newest == "" {
		return 0, 0, errors.New("RUNS has no file")
	}
	raw, err := os.ReadFile(newest)
	if err != nil {
		return 0, 0, err
	}
	n = min(int64(len(raw)), 8<<10+rng.Int64N(56<<10))
	left := int64(len(raw)) - n
	_, all := whole(raw, int64(len(raw)))
	end, kept := whole(raw, left)
	for _, id := range ids.FindAll(raw[end:], -1) {
		j.torn[string(id)] = true
	}
	return n, all - kept, os.Truncate(newest, left)
}

// whole is where the last whole record ends within so many bytes of a file of NATS, and how many there are up to it: each begins with
// its length in four bytes, whose highest bit is a mark. Where that makes no sense nothing is taken for whole.
func whole(raw []byte, within int64) (end int64, records int) {
	const header = 22
	for {
		if end+header > int64(len(raw)) {
			return end, records
		}
		length := int64(binary.LittleEndian.Uint32(raw[end:]) &^ (1 << 31))
		switch {
		case length < header:
			return 0, 0
		case end+length > within:
			return end, records
		}
		end, records = end+length, records+1
	}
}

// gaps are what a ledger may find in a history whose end was cut off, in a session of which something was cut off: words about runs,
// attempts or claims that are gone, what workers who knew them still said next, and claims that are made again (how often anything was
// begun is told by the executors). What else is done, twice or wrongly, is not among them.
var gaps = map[string]bool{
	"unknown_run": true, "ended_unclaimed": true, "begun_twice": true, "begun_after_end": true, "two_last_words": true, "attempt_out_of_turn": true,
	"wrong_key": true, "wrong_runner": true, "two_at_once": true, "out_of_order": true, "callback_wrong": true, "callback_twice": true,
}

// gap tells whether a finding may be one. The sums, which are of no run, are not even then.
func (j *judge) gap(w defect) bool {
	return w.Kind == "sum" || gaps[w.Kind] && j.touched(w.Run)
}

// touched tells whether something of a run, or of its session, was cut off.
func (j *judge) touched(id string) bool {
	if j.torn[id] || j.torn[j.runs[id].Session] {
		return true
	}
	for _, e := range j.b.accepted() {
		if e.run == id {
			return j.torn[e.session]
		}
	}
	return false
}
