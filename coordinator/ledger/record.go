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

// fields are what the verifier reads of a record of any kind. Parameters, agents and results are skipped.
type fields struct {
	v, attempt, most, n, recordVersion int
	queued                             uint64
	run, session, parent, runner       string
	turn                               string // of a callback record: the turn, if run is another one
	key, mode, agentType, status       string
	children                           []string
	checked                            string
	hasWebhook, hasSchema, suppressed  bool
	next                               bool // it carries the record that follows
	returnable, returned               bool
	callbackTurn                       bool // it is a callback turn, whose list comes first
}

var errNotJSON = errors.New("not valid JSON")

func read(body []byte) (f fields, err error) {
	if !strictjson.Valid(body) { // scanning does not validate
		return f, errNotJSON
	}
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			f.v = int(strictjson.Uint(v))
		case "attempt":
			f.attempt = int(strictjson.Uint(v))
		case "queued":
			f.queued = strictjson.Uint(v)
		case "returnable":
			f.returnable = string(v) == "true"
		case "returned":
			f.returned = string(v) == "true"
		case "record_version":
			f.recordVersion = int(strictjson.Uint(v))
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
			f.hasSchema = string(v) == "true"
		case "callback_turn":
			f.callbackTurn = string(v) == "true"
		case "suppressed":
			f.suppressed = string(v) == "true"
		case "checked":
			f.checked = strictjson.String(v)
		case "callback_url":
			f.hasWebhook = len(strictjson.StringBytes(v)) > 0
		case "next":
			f.next = true
		case "children":
			err = errors.Join(err, json.Unmarshal(v, &f.children))
		}
	})
	return f, err
}

// shared returns a text, without allocating if it is a known one.
func shared(v []byte, known ...string) string {
	for _, k := range known {
		if string(v) == k {
			return k
		}
	}
	return string(v)
}

// session returns the session that a record's subject or body names.
func session(rec subject.Record, f fields) string {
	if rec.Session != "" {
		return rec.Session
	}
	return f.session
}

// ident is an id in 16 bytes.
type ident [16]byte

type index map[ident]uint32

// runIdent parses a run's id; false: no coordinator made it.
func runIdent(id string) (i ident, ok bool) {
	digits, ok := strings.CutPrefix(id, "run_")
	return i, ok && i.parse(digits)
}

// sessionIdent parses a session's id, or hashes one that a caller chose.
func sessionIdent(id string) (i ident) {
	if digits, ok := strings.CutPrefix(id, "ses_"); ok && i.parse(digits) {
		return i
	}
	sum := sha256.Sum256([]byte(id))
	return ident(sum[:16])
}

// parse reads 32 hexadecimal digits in lower case.
func (i *ident) parse(digits string) bool {
	if len(digits) != 2*len(i) {
		return false
	}
	for n := range digits {
		d := digits[n]
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		default:
			return false
		}
		i[n/2] = i[n/2]<<4 | d
	}
	return true
}

func (i ident) runID() string { return "run_" + hex.EncodeToString(i[:]) }

// madeAt returns when an id was made: a UUIDv7 begins with its time in milliseconds. Zero: the id follows from a key,
// and tells no time.
func (i ident) madeAt() time.Time {
	if i[6]>>4 != 7 {
		return time.Time{}
	}
	var ms int64
	for _, b := range i[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// slab is a list that grows without moving its elements.
type slab[T any] struct {
	pages [][]T
}

const page = 256

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

// all calls f with every element but the first, which stands for none.
func (s *slab[T]) all(f func(i uint32, v *T)) {
	for p := range s.pages {
		for j := range s.pages[p] {
			if i := uint32(p*page + j); i > 0 {
				f(i, &s.pages[p][j])
			}
		}
	}
}

// Rules are what cannot be known from records alone. The zero value has none.
type Rules struct {
	// Checked reports whether mark is the signature of a coordinator that checked an attempt's result against the
	// output schema. Without it such a run counts as failed. nil: no mark is valid.
	Checked func(run string, attempt int, mark string) bool
	// Key makes the key of an attempt. Anybody with a worker's credential can write a record under no valid key, so
	// such records are only counted. nil: every key counts.
	Key func(run string, attempt int) string
	// Version is the newest version of records that is read; 0: run.Version.
	Version int
	// Damaged is the last accepted damage, with when it was found and the last sequence that there had been. It
	// explains what is wrong with runs from before.
	Damaged struct {
		At  time.Time
		Seq uint64
	}
}
