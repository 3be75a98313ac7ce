package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// fields are what the book reads of a record, of whatever kind. Parameters, agents and results are stepped over.
type fields struct {
	v, attempt, most, n, bound   int
	run, session, parent, runner string
	turn                         string // of a callback record: the turn, where run is another
	key, mode, agentType, status string
	children                     []string
	checked                      string
	hooked, contract, suppressed bool
	next                         bool // it carries the record that is to follow
	reports                      bool // it is a callback turn, whose list precedes
}

var errNotJSON = errors.New("not valid JSON")

func read(body []byte) (f fields, err error) {
	if !strictjson.Valid(body) { // to step over is not to check
		return f, errNotJSON
	}
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			f.v = int(strictjson.Uint(v))
		case "attempt":
			f.attempt = int(strictjson.Uint(v))
		case "record_version":
			f.bound = int(strictjson.Uint(v))
		case "max_attempts":
			f.most = int(strictjson.Uint(v))
		case "n":
			f.n = int(strictjson.Uint(v))
		case "run_id":
			f.run = strictjson.String(v)
		case "turn_id":
			f.turn = strictjson.String(v)
		case "session_id":
			f.session = strictjson.String(v)
		case "parent_session_id":
			f.parent = strictjson.String(v)
		case "runner_id":
			f.runner = strictjson.String(v)
		case "key":
			f.key = strictjson.String(v)
		case "mode":
			f.mode = shared(strictjson.StringBytes(v), run.AsyncPoll, run.Sync, run.AsyncCallback)
		case "agent_type":
			f.agentType = shared(strictjson.StringBytes(v), run.Autonomous, run.Procedural)
		case "status":
			f.status = strictjson.String(v)
		case "contract":
			f.contract = string(v) == "true"
		case "callback_turn":
			f.reports = string(v) == "true"
		case "suppressed":
			f.suppressed = string(v) == "true"
		case "checked":
			f.checked = strictjson.String(v)
		case "callback_url":
			f.hooked = len(strictjson.StringBytes(v)) > 0
		case "next":
			f.next = true
		case "children":
			err = errors.Join(err, json.Unmarshal(v, &f.children))
		}
	})
	return f, err
}

// shared is a text, without memory of its own where it is one of these.
func shared(v []byte, known ...string) string {
	for _, k := range known {
		if string(v) == k {
			return k
		}
	}
	return string(v)
}

// session is the session that a record is of: what its subject or its body names.
func session(rec subject.Record, f fields) string {
	if rec.Session != "" {
		return rec.Session
	}
	return f.session
}

// ident is an id in 16 bytes.
type ident [16]byte

type index map[ident]uint32

// runIdent reads a run's id; false: no coordinator made it.
func runIdent(id string) (i ident, ok bool) {
	digits, ok := strings.CutPrefix(id, "run_")
	if !ok || len(digits) != 32 || strings.ToLower(digits) != digits {
		return i, false
	}
	_, err := hex.Decode(i[:], []byte(digits))
	return i, err == nil
}

// sessionIdent is a session's id, or, of one that a caller chose, what it hashes to.
func sessionIdent(id string) (i ident) {
	if digits, ok := strings.CutPrefix(id, "ses_"); ok && len(digits) == 32 && strings.ToLower(digits) == digits {
		if _, err := hex.Decode(i[:], []byte(digits)); err == nil {
			return i
		}
	}
	sum := sha256.Sum256([]byte(id))
	return ident(sum[:16])
}

func (i ident) runID() string { return "run_" + hex.EncodeToString(i[:]) }

// born is when an id was made: a UUIDv7 begins with that, in milliseconds.
func (i ident) born() time.Time {
	var ms int64
	for _, b := range i[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// slab is a list that grows without moving what it holds.
type slab[T any] struct {
	pages [][]T
}

const page = 4096

func (s *slab[T]) add(v T) uint32 {
	last := len(s.pages) - 1
	if last < 0 || len(s.pages[last]) == page {
		s.pages = append(s.pages, make([]T, 0, page))
		last++
	}
	s.pages[last] = append(s.pages[last], v)
	return uint32(last*page + len(s.pages[last]) - 1)
}

func (s *slab[T]) at(i uint32) *T { return &s.pages[i/page][i%page] }

// all calls f with everything but the first, which stands for none.
func (s *slab[T]) all(f func(i uint32, v *T)) {
	for p := range s.pages {
		for j := range s.pages[p] {
			if i := uint32(p*page + j); i > 0 {
				f(i, &s.pages[p][j])
			}
		}
	}
}

// Rules are what a book cannot know of the records alone; the zero value has none.
type Rules struct {
	// Checked tells whether a mark is that of a coordinator that checked the result of an attempt against the run's
	// output schema: without a valid one such a run has not completed, whatever its last word says, but failed. nil: no
	// mark is valid.
	Checked func(run string, attempt int, mark string) bool
	// Key makes the key of an attempt. A record under none of its run's keys may be written by whoever has a worker's
	// credential: it is counted, and says nothing. nil: every key counts.
	Key func(run string, attempt int) string
	// Version is the newest version of records that is read; 0: run.Version.
	Version int
}
