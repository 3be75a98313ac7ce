package subject

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a record says.
type Kind uint8

// The kinds of record in RUNS. Unknown is a well-formed subject of a kind that a later version writes.
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

// shapes says which tokens follow a kind's word: l a lane (three tokens), s session, r run, k key, n number.
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

// Keyed tells whether a kind's records stand under an attempt's key: workers may write these, and whoever has a worker's
// credential may write them for any run. Without the right key such a record is nobody's.
func (k Kind) Keyed() bool {
	return k == ClaimedKind || k == BoundKind || k == OfferedKind || k == EndedKind
}

func (k Kind) String() string {
	if k == Unknown || int(k) >= len(shapes) {
		return "unknown"
	}
	return shapes[k].word
}

// Record is a subject of RUNS, taken apart. Fields that its kind does not have are empty; the strings are
// parts of the subject.
type Record struct {
	Kind      Kind
	Partition string
	TaskQueue string // queued
	Session   string // session, accepted, deleted, tree; callback: the parent
	Run       string
	Key       string // claimed, bound, offered, ended
	N         int    // queued: the attempt; notified: the try
}

// Parse takes a subject of RUNS apart. A kind that it doesn't know gives Unknown and no error, so that readers
// can count and skip it. It allocates nothing.
func Parse(subject string) (Record, error) {
	rest, ok := strings.CutPrefix(subject, "ao.runs.")
	if !ok {
		return Record{}, fmt.Errorf("subject %q: a record's begins with ao.runs", subject)
	}
	var r Record
	var word string
	if r.Partition, rest, ok = strings.Cut(rest, "."); ok {
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
		return Record{}, fmt.Errorf("not what the subject of a %q record looks like", r.Kind) // it may hold a key, which no log shows
	}
	for i := range len(tokens) {
		width := 1
		if tokens[i] == 'l' {
			width = 3
		}
		end := endOf(rest, width)
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
			if err != nil || token[0] < '1' && token != "0" { // a sign or a zero in front: no record has two names
				return bad()
			}
			r.N = n
		}
		last := i == len(tokens)-1
		if last != (end == len(rest)) {
			return bad()
		}
		if !last {
			if rest = rest[end+1:]; rest == "" {
				return bad()
			}
		}
	}
	return r, nil
}

// endOf is where so many tokens end that a subject begins with; -1: it has not so many, or an empty one.
func endOf(rest string, width int) int {
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
		if end += n; end == len(rest) && width > 1 {
			return -1
		}
	}
	return end
}
