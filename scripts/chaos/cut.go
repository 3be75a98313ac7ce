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

	"ao/scripts/try"
)

// idPattern matches ids of runs and sessions anywhere in a record.
var idPattern = regexp.MustCompile(`(?:run|ses)_[0-9A-Za-z_-]+`)

// maxCut is the most that is cut off, in bytes.
const maxCut = 64 << 10

// cut removes 8 to 64 KiB from the end of the newest file of RUNS, at least some records. It marks the runs and
// sessions of the removed records. With inside it cuts between two records of one batch, if the last 64 KiB have such a
// place.
func (j *verifier) cut(rng *rand.Rand, inside bool) (c cutResult, err error) {
	defer try.Catch(&err)
	files := try.Must(filepath.Glob(j.s.path("nats", "1", "jetstream", "*", "streams", "RUNS", "msgs", "*.blk")))
	newest, last := "", -1
	for _, f := range files {
		if n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk")); err == nil && n > last {
			newest, last = f, n
		}
	}
	if newest == "" {
		return c, errors.New("RUNS has no file")
	}
	raw := try.Must(os.ReadFile(newest))
	size := int64(len(raw))
	left := size - min(size, 8<<10+rng.Int64N(maxCut-8<<10))
	if places := batchSeams(raw, size-maxCut); inside && len(places) > 0 {
		left, c.inside = places[rng.IntN(len(places))], true
	}
	_, all := wholeRecords(raw, size)
	end, kept := wholeRecords(raw, left)
	for _, id := range idPattern.FindAll(raw[end:], -1) {
		j.torn[string(id)] = true
	}
	c.bytes, c.records = size-left, all-kept
	return c, os.Truncate(newest, left)
}

// cutResult describes what was cut off.
type cutResult struct {
	bytes   int64
	records int  // whole ones
	inside  bool // between two records of one batch
}

// batchID matches the header with a record's batch id, as NATS stores it.
var batchID = regexp.MustCompile(`Nats-Batch-Id: ?([0-9A-Za-z]+)\r\n`)

// batchSeams returns the offsets, from an offset on, between two records of one batch.
func batchSeams(raw []byte, from int64) (places []int64) {
	var before string
	for at, next := int64(0), int64(0); ; at = next {
		n := recordLength(raw, at)
		if n == 0 {
			return places
		}
		next = at + n
		var id string
		if m := batchID.FindSubmatch(raw[at:next]); m != nil {
			id = string(m[1])
		}
		if id != "" && id == before && at >= from {
			places = append(places, at)
		}
		before = id
	}
}

// wholeRecords returns where the last whole record ends within the first bytes of a NATS file, and the number of
// records up to it. It is 0 if the file cannot be parsed.
func wholeRecords(raw []byte, within int64) (end int64, records int) {
	for end+minRecord <= int64(len(raw)) {
		switch n := recordLength(raw, end); {
		case n == 0 && binary.LittleEndian.Uint32(raw[end:])&^(1<<31) < minRecord:
			return 0, 0
		case n == 0, end+n > within:
			return end, records
		default:
			end, records = end+n, records+1
		}
	}
	return end, records
}

// minRecord is the size of the smallest record, in bytes.
const minRecord = 22

// recordLength returns the length of the record at an offset; 0: there is no whole one. A record begins with its
// length in four bytes, whose highest bit is a flag.
func recordLength(raw []byte, at int64) int64 {
	if at+minRecord > int64(len(raw)) {
		return 0
	}
	n := int64(binary.LittleEndian.Uint32(raw[at:]) &^ (1 << 31))
	if n < minRecord || at+n > int64(len(raw)) {
		return 0
	}
	return n
}

// expectedGaps are the violations that a ledger may find in a session whose records were cut off. They concern lost
// runs, attempts or claims, and claims made again. The executors' log counts the starts. Anything else is a real
// violation.
var expectedGaps = map[string]bool{
	"unknown_run": true, "ended_unclaimed": true, "begun_twice": true, "begun_after_end": true, "two_last_words": true,
	"attempt_out_of_turn": true,
	"wrong_key":           true, "wrong_runner": true, "two_at_once": true, "out_of_order": true,
	"callback_wrong": true, "callback_twice": true,
}

// isExpectedGap reports whether a violation is expected after a cut. The sums, which belong to no run, never match
// then.
func (j *verifier) isExpectedGap(w ledgerViolation) bool {
	return w.Kind == "sum" || expectedGaps[w.Kind] && j.wasTorn(w.Run)
}

// wasTorn reports whether records of a run or its session were cut off.
func (j *verifier) wasTorn(id string) bool {
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
