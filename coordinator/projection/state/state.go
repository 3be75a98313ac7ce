// Package state is the pure reducer of the RUNS stream: records in, state out. It knows no clock, no lock and no NATS,
// and the same records make the same state in every process. Who reads a State holds the lock of its Projection.
package state

import (
	"time"

	"ao/coordinator/projection/scan"
	"ao/coordinator/projection/text"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/run"
)

// Change is what a record did.
type Change struct {
	Seq           uint64
	Kind          subject.Kind
	RunID         string
	SessionID     string
	Before, After run.Status // Before is empty for a new run; both are empty for a deleted session
	First         bool       // the session's first record
	Live          bool       // the history was loaded before
	Applied       bool       // false: a duplicate, late or irrelevant record; nothing changed

	versionExceeded bool // of EndedKind: caused by a record above the attempt's version

	row    *Row      // of the run
	in     *waitlist // where the run was before; for callbacks, since is the end they report
	since  int64     // nanoseconds since 1970
	runner string    // the runner before, by id
}

// tables are shared by all parts of the state: which runs and sessions there are, and in which order.
type tables struct {
	version         int // newest version of records that this program reads
	runs            map[Ident]*Row
	sessions        map[Ident]*Session
	order           []*Row     // by first; may hold evicted rows
	sorder          []*Session // by first; likewise
	evictedRuns     int
	evictedSessions int
	head            *Row // the open ones, by first
	tail            *Row
	fresh           []*Row            // became eligible since the last call of Eligible
	pending         map[*Session]bool // sessions with pending children
	past            map[*Row][]past   // of runs that were queued more than once
	deleted         map[Ident]uint64  // sessions, with the sequence of their deletion
	retryOf         map[*Row]Ident    // the runs that others repeat
	dirty           *dirtySet         // nil: no checkpoint is being written
	payloads        payloads
	usage           usage
	seq             uint64 // of the last record
	Changes         changes
	Texts           text.Blocks

	waiting, claimed, ended int
}

// State is the state that the records make, applied one after the other: a pure function of them, the same in every
// process. Each part keeps its own state besides the tables. callbacks use trees; the reducer uses all of them.
type State struct {
	*tables
	scan      *scan.Scanner
	Waitlists *waitlists
	Webhooks  *webhooks
	Late      *lateRecords
	Ignored   ignored
	Trees     *trees
	Callbacks *callbacks

	key func(run string, attempt int) string // attempt keys; nil: any key of a run never queued counts
	// reports whether a coordinator checked the result; nil: none has
	checked func(run string, attempt int, mark string) bool
	results []*Row // results reported since the last call of NewResults

	newer        uint64 // sequence of the first record in a newer version; 0: none
	unknownKinds bool   // there were records of unknown kinds, which a newer version may use
	stats        Stats
	lastRead     stream.Tail
}

// past is a queued record of a run that another one followed.
type past struct {
	Queued          uint64 // its sequence
	ClaimedByRunner bool   // a runner claimed that attempt
}

// callbacks are the parents with pending children, and the turns that report children.
type callbacks struct {
	*tables
	trees    *trees
	due      []*Session            // became ready since the last call of NewCallbacks
	recent   []report              // callback records of the last minutes
	reserved map[Ident]reservation // runs that another record carries and that have none of their own yet
}

// webhookState is the state of a run's webhook.
type webhookState uint8

// webhooks are the webhooks of ended runs.
type webhooks struct {
	*tables
	scan  *scan.Scanner
	of    map[*Row]*webhook // not delivered
	Hosts receivers         // of these: with tries left
}

// webhook is a webhook of an ended run that is not delivered.
type webhook struct {
	N      int // of its newest record
	Tries  int
	Next   time.Time // when to try again
	Status int       // of the last answer
	Reason string
	Host   string // its receiver, with the port

	row   *Row
	to    *receiver // nil: dead
	place int       // in to.queue
}

// receiver is a host with webhooks that have tries left.
type receiver struct {
	host  string
	queue timeQueue[*webhook]
	place int // in receivers.first
}

// receivers are ordered by the time of their first webhook. So a look at what is due skips whatever is dead or waits,
// and a receiver with a long queue hides no other. The zero value is empty.
type receivers struct {
	of    map[string]*receiver
	first timeQueue[*receiver]
}

// timeQueue is a heap of elements that have a time and know their position.
type timeQueue[T timed] []T

type timed interface {
	when() time.Time
	put(place int)
}

// TreeStop is why a run is to be stopped: it belongs to a stopped tree.
type TreeStop struct {
	Seq     uint64 // of the record that stops the tree; 0: there is none
	Session string // whose tree it is
}

// tree is a session whose tree is stopped.
type tree struct {
	Seq  uint64
	Root Ident // the session's newest claimed run at that time
}

// trees are the sessions whose tree is stopped, and what is below them.
type trees struct {
	*tables
	stopped     map[Ident]tree       // sessions whose tree is stopped, and that have not continued
	below       map[Ident][]*Session // by session: its children that matter to a stop of its tree
	Children    childIndex
	parents     map[Ident]Ident     // of deleted sessions, so that a tree shows what is below them
	stopping    map[*Row]bool       // open runs that are to be stopped with their tree
	suppressing map[*Session][]*Row // ended children whose callback is suppressed, until a record says so
	changed     bool                // there are more since the last call of StoppingTrees
}

// waitlist is a queue of runs that wait for the same thing: their turn, a runner of one task queue, or their end. Every
// open run is in exactly one, so the cost of a look depends on the waitlist only.
type waitlist struct {
	queue       string
	n           int
	first, last *Row
	waits       *waits // that its runs count to; nil: they do not wait
}

// waitlists are all of them.
type waitlists struct {
	queues   map[string]*waitlist // by task queue
	unqueued waitlist             // runs that are not queued
	claimed  waitlist             // claimed runs
	waits    waits
}

// reservation is a run that another record carries, and that has none of its own yet.
type reservation struct {
	seq      uint64 // of the record that carries it
	session  string
	children []*Row // of a callback turn: what it reports
}

// binding is what an executor bound: the model side's session id and the profile that knows it. It has the host if the
// model side has the session on one machine only.
type binding struct{ Model, Host, Profile string }

// Active is a run that has not ended: a snapshot that never changes.
type Active struct {
	Spec          *run.Spec  // as accepted
	Status        run.Status // running comes from the overlay of heartbeats
	FirstSeq      uint64     // of the run's first record
	QueuedSeq     uint64     // of the current attempt's queued record; 0: not queued yet
	ClaimSeq      uint64     // of the current attempt's claim; 0: unclaimed
	UnverifiedSeq uint64     // of the worker's unverified result, which ends its lease; 0: none
	CarriedEndSeq uint64     // of the coordinator's record that carries the attempt's end record; 0: none
	Queue         string     // where it is queued
	Attempt       int        // the current one, from 1; 0: not queued yet
	Key           string     // the current attempt's
	// RecordVersion is the newest version that records under the current attempt's key may have; 0 means 1.
	RecordVersion int
	Returnable    bool       // the current attempt's runner may give it back
	ReturnedBy    []string   // the runners that gave attempts back, in that order
	Claim         *run.Claim // nil: unclaimed
	Stopping      bool       // it is to be stopped
	TreeStop      TreeStop   // with its tree; Seq 0: it is not
	NotBefore     time.Time  // when the next attempt may be queued; zero: at once
	Started       *time.Time // its executor runs since, as its runner reports
}

// Row is a run in the index, and all that is kept of an ended one. The rest is read from the stream by these sequences.
type Row struct {
	Ident   Ident
	session *Session
	next    *Row // of the session
	Agent   string
	Runner  string
	Parent  string
	Dir     string // project directory

	First uint64 // sequence of its first record
	// of its newest record that holds the whole spec: the current attempt's queued record, else the first
	Full       uint64
	Claim, End uint64 // of the claim that counts, and of the end record
	Events     uint64 // sequence in EVENTS of its last event; 0: unknown or none

	Created, Claimed, Started, Ended int64 // nanoseconds since 1970; 0: not yet

	turn *Row // the parent's turn that reports it; nil: none, or no longer known

	AgentHash uint64 // of the definition that it was accepted with; 0: unknown

	Text    text.Ref // the searchable beginning of its prompt or parameters
	Failure text.Ref // likewise of its error

	Caller          uint32 // whose share its records count to: the beginning of its run.Spec's
	Bytes           uint32 // what its records take of RUNS
	Timeout         int32
	Records         uint16 // how many they are
	Attempt         uint16
	Deliveries      uint16 // how many callback records reported it
	StatusIndex     uint8  // index in run.Statuses, without the overlay
	ModeIndex       uint8  // index in modes
	Depth           uint8  // how many sessions are above its own; 0 also in records of older versions
	Webhook         webhookState
	Callback        bool // its parent session is to be called back
	Reported        bool // a callback record reports it
	ClaimedByRunner bool // a runner has claimed one of its attempts
	VersionExceeded bool // end is a record above its attempt's version, which is not read
	Evicted         bool // no longer in the index
	Proven          bool // the events of all its attempts are proven
	EventsUnknown   bool // its end record does not say which event was its last
	Suppressed      bool // its parent is not called back: one of the two was stopped with its tree
	Resume          bool // it continues its session

	live *live // nil: ended
}

// live is what only an open run has.
type live struct {
	snap       *Active
	prev, next *Row // all open runs, by first
	fresh      bool // noted as eligible

	in             *waitlist // the waitlist it is in, its neighbours there, and since when (nanoseconds since 1970)
	before, behind *Row
	since          int64

	caller, tree string // whose share it counts to while it waits: its caller's, and that of the session at the top

	children []*Row // of an unclaimed callback turn: what it reports
}

// Session is a session in the index.
type Session struct {
	Ident          Ident
	Agent          string
	AgentType      string
	Parent         string
	Dir            string
	First          uint64 // sequence of its first run's first record
	Modified       int64
	firstRow, last *Row // its runs, linked in stream order
	lastEnded      *Row
	live           []*Row   // open ones, in that order
	pending        []*Row   // ended children whose callback is pending, in the order of their ends
	Bound          *binding // what its executor bound last, nil: nothing
	open           int32    // how many of live are queued or claimed
	runs           int32
	place          int32  // among its parent's children
	placeBelow     int32  // among its parent's children that matter to a stop, from 1; 0: it is none of them
	Misses         uint16 // callback turns in a row that ended unclaimed, up to its maximum
	due            bool   // noted as ready for a callback
	tree           *Used  // what the runs of its whole tree take; nil: it is alone
}

// Ident is a compact id: the ids that coordinators make are a prefix and 32 hexadecimal digits.
type Ident struct {
	Hi, Lo uint64 // the digits
	Odd    string // a caller's own id
}

// Stats counts records since the start.
type Stats struct {
	Applied    uint64 // changed something
	Ignored    uint64 // duplicates, late records, records of runs that are no longer kept
	Unknown    uint64 // of kinds that this version does not know
	Unreadable uint64
}

// report is the time and sequence of a callback record.
type report struct {
	Seq uint64
	At  time.Time
}

// lateRecords are the late records that are not purged.
type lateRecords struct{ all []LateRecord } // by sequence

// dirtySet is what changed during a checkpoint, and is written again.
type dirtySet struct {
	rows     map[*Row]bool
	sessions map[*Session]bool
}

// LateRecord is a record that changes nothing, but would start its run again if only that record were kept. It may be
// the queued record of an attempt that was already claimed or over. A coordinator dispatched it late into another
// queue, which still delivers it. Or it is an accepted record of a run that was queued before: a request was
// repeated late.
type LateRecord struct {
	Seq     uint64
	Subject string

	First uint64 // of its run: if history is truncated beyond that, the claim may be missing
}

// Ident returns the id of the run.
func (ch *Change) Ident() Ident { return ch.row.Ident }

// Spec returns what the run was accepted with; nil: it has ended.
func (ch *Change) Spec() *run.Spec {
	if ch.row.live == nil {
		return nil
	}
	return ch.row.live.snap.Spec
}

// Record is a message of a stream, independent of what carried it.
type Record = stream.Message
