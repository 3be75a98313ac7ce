package projection

import (
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// Change is what a record did.
type Change struct {
	Seq           uint64
	Kind          subject.Kind
	RunID         string
	SessionID     string
	Before, After run.Status // Before is empty for a new run; both are for a deleted session
	First         bool       // the session's first record
	Live          bool       // all was read that history held at the beginning
	Applied       bool       // false: a duplicate, late, or of no concern; nothing changed

	overstep bool // of EndedKind: by a record above the attempt's version, of whatever kind

	row *row // of the run
	// where that stood before the record, since then, and who had begun it; of callbacks since is the end that they
	// tell of
	in     *line
	since  int64  // nanoseconds since 1970
	runner string // … by id
}

// tables are what all parts of the fold share: who there is, in which order.
type tables struct {
	version  int // the newest version of records that this program reads
	runs     map[ident]*row
	sessions map[ident]*session
	order    []*row     // by first; may hold rows that are gone
	sorder   []*session // by first; likewise
	goneRuns int
	goneSess int
	head     *row // the live ones, by first
	tail     *row
	fresh    []*row            // became eligible since it was asked last
	owing    map[*session]bool // sessions with children that they are to be told of
	past     map[*row][]past   // of runs that were queued more than once
	deleted  map[ident]uint64  // sessions, with the sequence of their deletion
	pass     *pass             // nil: no snapshot is being written
	seq      uint64            // of the last record
	changes  changes
	texts    texts
	repeats  repeats

	waiting, begun, ended int
}

// fold is the state that the records make, one after the other. It is a pure function of them: the same in every
// process. Each part keeps what is its own beside the tables; debts ask trees, and the fold asks all of them.
type fold struct {
	*tables
	scan     *scanner
	lines    *lines
	webhooks *webhooks
	late     *lateness
	trees    *trees
	debts    *debts

	// the attempts' keys; nil: any key of a run never queued counts
	key func(run string, attempt int) string
	// whether a coordinator has checked a result against its schema; nil: none has
	checked func(run string, attempt int, mark string) bool
	offers  []*row // results were offered since it was asked last

	newer   uint64 // sequence of the first record of a newer version that counts; 0: none
	strange bool   // there were records of unknown kinds: a newer version may make something of them
	stats   Stats
	prints  [prints]print // of the last records, in a ring
	printed uint64        // how many there have been
	scratch []byte
}

// past is a queued record of a run that another followed.
type past struct {
	queued uint64 // its sequence
	begun  bool   // a runner began that attempt
}

// debts are the parents that are to be told of ended children, and the turns that tell them.
type debts struct {
	*tables
	trees *trees
	// sessions that became idle, or got their first child to be told of, since it was asked last
	due      []*session
	recent   []report          // callback records of the last minutes
	promised map[ident]promise // runs that another record carries, and that have none of their own yet
}

// hookState is where a run's HTTP callback stands.
type hookState uint8

// webhooks are the HTTP callbacks of ended runs.
type webhooks struct {
	*tables
	scan  *scanner
	of    map[*row]*hook // those that are not delivered
	hosts receivers      // of these: those with tries left
}

// hook is an HTTP callback of an ended run that is not delivered.
type hook struct {
	n      int // of its newest record
	tries  int
	next   time.Time // when to try again
	status int       // of the last answer
	reason string
	host   string // whom it goes to, with the port

	row   *row
	to    *receiver // nil: dead, no time will come
	place int       // in to.owed
}

// receiver is a host with callbacks that have tries left.
type receiver struct {
	host  string
	owed  queue[*hook]
	place int // in receivers.first
}

// receivers are all of them, the one whose time comes first before the others: who looks for what is due sees neither
// what is dead nor what waits, however many there are, and one with a long queue hides nobody. The zero value has none.
type receivers struct {
	of    map[string]*receiver
	first queue[*receiver]
}

// queue is a heap of what has a time and knows its place.
type queue[T timed] []T

type timed interface {
	when() time.Time
	put(place int)
}

// Halt is why a run is to be stopped: it belongs to a tree that was stopped.
type TreeStop struct {
	Seq     uint64 // of the record that says so; 0: there is none
	Session string // whose tree it is
}

// tree is a session whose tree is stopped.
type tree struct {
	seq  uint64
	root ident // the run that was the session's newest begun one then
}

// trees are the sessions whose tree is stopped, and what is below them.
type trees struct {
	*tables
	stopped  map[ident]tree              // sessions whose tree is stopped, and that have not gone on since
	below    map[ident]map[*session]bool // by session: those right below it that matter to a stop of its tree
	children offspring
	parents  map[ident]ident // of deleted sessions, so that a tree shows what is below them where it stood
	halting  map[*row]bool   // runs that are to be stopped with their tree and have not ended
	// children that ended, of whom the session is not to be told, until a record says so
	suppressing map[*session][]*row
	halted      bool // there is more of these since Halting was asked last
}

// line is runs that stand one behind the other for the same thing: for their turn or a runner, in one lane, or under
// way. Every run that has not ended is in exactly one, so that a look at one costs what is in it.
type line struct {
	lane        string
	n           int
	first, last *row
}

// lines are all of them.
type lines struct {
	lanes    map[string]*line // those that wait in a lane
	apart    line             // those that are not queued
	underway line             // those that are begun
}

// promise is a run that another record carries, and that has none of its own yet.
type promise struct {
	seq      uint64 // of the record that carries it
	session  string
	children []*row // of a callback turn: what it reports
}

// bond is what an executor bound: the model side's own session id, the profile that knows it and, where the model side
// has that session in one place alone, the host.
type bond struct{ model, host, profile string }

// Active is a run that has not ended, as the fold has it: a snapshot that never changes.
type Active struct {
	Spec      *run.Spec  // as accepted
	Status    run.Status // running is an overlay of the beats
	FirstSeq  uint64     // of the run's first record
	QueuedSeq uint64     // of its current attempt's queued record; 0: accepted and not yet queued
	ClaimSeq  uint64     // of the claim of its current attempt; 0: nobody has begun it
	// of what its worker has offered as the result: its lease is over, a coordinator checks that; 0: nothing
	UnverifiedSeq uint64
	// of a coordinator's claim, or what it put in an offer's place, which carries the attempt's last word; 0: none does
	CarriedEndSeq uint64
	Queue         string // where it is queued
	Attempt       int    // the current one, from 1; 0: not yet queued
	Key           string // the current attempt's
	// RecordVersion is the newest version that records under the current attempt's key may have; 0: 1.
	RecordVersion int
	Claim         *run.Claim // nil: nobody has begun it
	Stopping      bool       // somebody wants it stopped
	TreeStop      TreeStop   // … with its tree; Seq 0: not so
	NotBefore     time.Time  // an attempt failed and another is left: when it may be queued; zero: at once
	Started       *time.Time // its executor runs since, as its runner says
}

// row is a run in the index: all that is kept of an ended one. The rest is read from the stream, by these sequences.
type row struct {
	id      ident
	session *session
	next    *row // of the session
	agent   string
	runner  string
	parent  string
	dir     string // project directory

	first      uint64 // sequence of its first record
	whole      uint64 // of its newest record that holds all of it: the current attempt's queued, else the first
	claim, end uint64 // of the claim that counts, and of the last word
	events     uint64 // sequence in EVENTS of its last event; 0: not known, or none

	created, claimed, started, ended int64 // nanoseconds since 1970; 0: not yet

	by *row // the parent's turn that reports it; nil: none, or it is not known any more

	text    textRef // its prompt or parameters, as far as it is found by them
	failure textRef // likewise its error

	timeout    int32
	attempt    uint16
	tellings   uint16 // how often a callback record reported it
	status     uint8  // index in run.Statuses, without the overlay
	mode       uint8  // index in modes
	depth      uint8  // how many sessions are above its own; 0 also in records of older versions
	hook       hookState
	callback   bool // its parent session is to be told of its end
	told       bool // a callback record reports it
	begun      bool // a runner has begun one of its attempts
	overstep   bool // end is a record above its attempt's version, of whatever kind; it is not read
	gone       bool // no longer in the index
	proven     bool // the events of all its attempts are proven
	mute       bool // its end does not say which event was its last
	suppressed bool // its parent is not told of its end: one of the two was stopped with its tree
	resume     bool // it goes on with its session

	live *live // nil: ended
}

// live is what a run has as long as it has not ended.
type live struct {
	snap       *Active
	prev, next *row // all of them, by first
	fresh      bool // noted as eligible

	in             *line // where it stands, between these, since then (nanoseconds since 1970)
	before, behind *row
	since          int64

	children []*row // of a callback turn that nobody has begun: what it reports
}

// session is a session in the index.
type session struct {
	id             ident
	agent          string
	agentType      string
	parent         string
	dir            string
	first          uint64 // sequence of its first run's first record
	modified       int64
	firstRow, last *row // its runs, linked in the order of the stream
	lastEnded      *row
	live           []*row // those that have not ended, in that order
	owed           []*row // ended children that it is yet to be told of, in the order of their ends
	bound          *bond  // what its executor bound last, nil: nothing
	open           int32  // how many of these are queued or claimed
	runs           int32
	place          int32  // among the children of its parent
	misses         uint16 // callback turns in a row that ended before a runner claimed them, as far as it goes
	due            bool   // noted as ready for its callbacks
}

// ident is an id in little room: the ids that coordinators make are a prefix and 32 hexadecimal digits.
type ident struct {
	made [16]byte
	odd  string // a caller's own id, whole
}

// Stats counts records since the start.
type Stats struct {
	Applied    uint64 // changed something
	Ignored    uint64 // duplicates, late words, records of runs that are no longer kept
	Unknown    uint64 // of kinds that this version doesn't know
	Unreadable uint64
}

// report is a callback record, and when it was written.
type report struct {
	seq uint64
	at  time.Time
}

// lateness is the late records that are not purged.
type lateness struct{ all []LateRecord } // by sequence

// print is the fingerprint of a record.
type print struct {
	seq  uint64
	time int64
	sum  uint32
}

// pass is a snapshot that is being written: what changes meanwhile is written once more.
type pass struct {
	rows     map[*row]bool
	sessions map[*session]bool
}

// prints is how many records are remembered by their fingerprints.
const prints = 16

// Late is a queued record of an attempt that had been begun, or was over: a coordinator's delayed dispatch into another
// lane. It changes nothing. But its lane still delivers it, and only the attempt's claim keeps a worker from beginning
// it again.
type LateRecord struct {
	Seq     uint64
	Subject string

	first uint64 // of its run: truncated beyond that, the history may lack the claim
}
