package subject

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the kind of a record.
type Kind uint8

// The kinds of records in RUNS. Unknown is a well-formed subject of a kind from a later version.
const (
	Unknown Kind = iota
	QueuedKind
	SessionKind
	AcceptedKind
	ClaimedKind
	BoundKind
	OfferedKind
	EndedKind
	StoppingKind
	CallbackKind
	NotifiedKind
	DeletedKind
	TreeKind
)

// shapes are the tokens after a kind's word: l task queue (three tokens), s session, r run, k key, n number.
var shapes = [...]struct{ word, tokens string }{
	Unknown:      {"", ""},
	QueuedKind:   {"queued", "lrn"},
	SessionKind:  {"session", "s"},
	AcceptedKind: {"accepted", "sr"},
	ClaimedKind:  {"claimed", "rk"},
	BoundKind:    {"bound", "rk"},
	OfferedKind:  {"offered", "rk"},
	EndedKind:    {"ended", "rk"},
	StoppingKind: {"stopping", "r"},
	CallbackKind: {"callback", "sr"},
	NotifiedKind: {"notified", "rn"},
	DeletedKind:  {"deleted", "s"},
	TreeKind:     {"tree", "sr"},
}

// Keyed reports whether a kind's records are under an attempt's key. Workers may write these, and a worker's
// credential may write them for any run. A record without the right key belongs to nobody.
func (k Kind) Keyed() bool {
	return k == ClaimedKind || k == BoundKind || k == OfferedKind || k == EndedKind
}

func (k Kind) String() string {
	if k == Unknown || int(k) >= len(shapes) {
		return "unknown"
	}
	return shapes[k].word
}

// Record is a parsed subject of RUNS. Fields that its kind does not have are empty. The strings are parts of
// the subject.
type Record struct {
	Kind      Kind
	Partition string
	TaskQueue string // queued
	Session   string // session, accepted, deleted, tree; callback: the parent
	Run       string
	Key       string // claimed, bound, offered, ended
	N         int    // queued: the attempt; notified: the try
}

// Parse parses a subject of RUNS. An unknown kind gives Unknown and no error, so that readers can count and
// skip it. It does not allocate.
func Parse(subject string) (Record, error) {
	rest, ok := strings.CutPrefix(subject, "ao.runs.")
	if !ok {
		return Record{}, fmt.Errorf("subject %q: a record's subject begins with ao.runs", subject)
	}
	var r Record
	var word string
	r.Partition, rest, ok = strings.Cut(rest, ".")
	if ok {
		word, rest, ok = strings.Cut(rest, ".")
	}
	if !ok || r.Partition == "" || word == "" || rest == "" {
		return Record{}, fmt.Errorf("subject %q: too short for a record", subject)
	}
	for k := range shapes {
		if shapes[k].word == word {
			r.Kind = Kind(k)
			return r.read(shapes[k].tokens, rest)
		}
	}
	return r, nil
}

func (r Record) read(tokens, rest string) (Record, error) {
	bad := func() (Record, error) {
		// the subject is left out: it may contain a key
		return Record{}, fmt.Errorf("malformed subject of a %q record", r.Kind)
	}
	for i := range len(tokens) {
		width := 1
		if tokens[i] == 'l' {
			width = 3
		}
		end := tokensEnd(rest, width)
		if end < 0 {
			return bad()
		}
		token := rest[:end]
		switch tokens[i] {
		case 'l':
			r.TaskQueue = token
		case 's':
			r.Session = token
		case 'r':
			r.Run = token
		case 'k':
			r.Key = token
		case 'n':
			n, err := strconv.Atoi(token)
			if err != nil || token[0] < '1' && token != "0" { // no sign or leading zero: each record has one name
				return bad()
			}
			r.N = n
		}
		last := i == len(tokens)-1
		if last != (end == len(rest)) {
			return bad()
		}
		if !last {
			rest = rest[end+1:]
			if rest == "" {
				return bad()
			}
		}
	}
	return r, nil
}

// tokensEnd is where the first tokens of a subject end; -1: there are too few, or an empty one.
func tokensEnd(rest string, width int) int {
	end := 0
	for ; width > 0; width-- {
		if end > 0 {
			end++ // over the dot
		}
		n := strings.IndexByte(rest[end:], '.')
		if n < 0 {
			n = len(rest) - end
		}
		if n == 0 {
			return -1
		}
		end += n
		if end == len(rest) && width > 1 {
			return -1
		}
	}
	return end
}
