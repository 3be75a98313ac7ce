package ledger

import (
	"time"
)

// Report is what the records add up to, at one place in the stream.
type Report struct {
	Sequence  uint64    `json:"sequence"`          // the last record that counts
	Before    uint64    `json:"truncated_before"`  // the first record that is kept
	Records   uint64    `json:"records"`           // that were read
	Unknown   uint64    `json:"unknown_records"`   // of them of kinds that this version does not know
	Foreign   uint64    `json:"foreign_records"`   // … under none of their runs' keys: nobody's, and of no effect
	Strays    []uint64  `json:"foreign_sequences"` // of these, the first maxForeign
	Runs      Runs      `json:"runs"`
	Attempts  Attempts  `json:"attempts"`
	Callbacks Callbacks `json:"callbacks"`
	Webhooks  Webhooks  `json:"webhooks"`
	Sessions  int       `json:"sessions"`
	OK        bool      `json:"ok"`
	Count     int       `json:"wrong_count"`
	Wrong     []Wrong   `json:"wrong"` // the first maxWrong
}

// Runs are counted by their records, each kind for itself; the sum must be right.
type Runs struct {
	Accepted  int `json:"accepted"`
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
	Ended     int `json:"ended"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Stopped   int `json:"stopped"`
}

// Attempts are those that runners began.
type Attempts struct {
	Begun   int `json:"begun"`
	Ended   int `json:"ended"`
	Retried int `json:"retried"` // begun again after an attempt that failed
}

// Callbacks are runs that have ended and that a parent session is to be told of.
type Callbacks struct {
	Owed          int `json:"owed"` // all of them
	Delivered     int `json:"delivered"`
	Waiting       int `json:"waiting"`
	Undeliverable int `json:"undeliverable"`
	Suppressed    int `json:"suppressed"` // stopped with a tree: nobody is told
}

// Webhooks are runs that have ended and have a callback_url.
type Webhooks struct {
	Owed      int `json:"owed"` // all of them
	Delivered int `json:"delivered"`
	Waiting   int `json:"waiting"`
	Dead      int `json:"dead"`
}

// Wrong is a broken promise.
type Wrong struct {
	Kind     string `json:"kind"`
	RunID    string `json:"run_id,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"` // of the record that shows it
	Message  string `json:"message"`
}

// What can be wrong.
const (
	kindUnreadable   = "unreadable_record"
	kindVersion      = "unknown_version"
	kindMismatch     = "record_mismatch" // a record contradicts its subject, or the run it is of
	kindUnknownRun   = "unknown_run"     // records of a run that nobody accepted
	kindUnclaimed    = "ended_unclaimed"
	kindBegunTwice   = "begun_twice"
	kindTwoLastWords = "two_last_words"
	kindAfterEnd     = "begun_after_end"
	kindAttempt      = "attempt_out_of_turn" // unqueued, before the one before it failed, or beyond max_attempts
	kindKey          = "wrong_key"
	kindStranger     = "wrong_runner"
	kindTwoAtOnce    = "two_at_once" // a session that ran two runs
	kindOrder        = "out_of_order"
	kindUnoffered    = "completed_unoffered" // with an output schema, and without an offer
	kindUnchecked    = "offer_overdue"       // a result was offered, and no coordinator said the last word
	kindUnfinished   = "claimed_to_end"      // by a coordinator, and not ended
	kindCallback     = "callback_wrong"
	kindTwice        = "callback_twice"
	kindOverdue      = "callback_overdue"
	kindWebhook      = "webhook_wrong"
	kindSum          = "sum"
)

const (
	maxWrong   = 100
	maxForeign = 100
	// overdue is how long a record may be without what is to follow it, and how long a parent may be idle before what
	// it is owed is overdue; after a turn that nobody began, further turns are tried ever more slowly.
	overdue       = 30 * time.Second
	overdueMissed = overdue + time.Minute
	// overdueOffer is how long a result may wait for its check: what is not found at first is looked for so long.
	overdueOffer = overdue + time.Minute
	// skew is how far clocks may differ: ids have the coordinator's, records the server's.
	skew = 10 * time.Second
)
