package ledger

import (
	"time"

	"ao/coordinator/highwater"
)

// Report is what the records add up to, at one place in the stream.
type Report struct {
	Sequence    uint64             `json:"sequence"`          // the last record that counts
	Before      uint64             `json:"truncated_before"`  // the first record that is kept
	Records     uint64             `json:"records"`           // that were read
	Unknown     uint64             `json:"unknown_records"`   // of kinds that this version does not know
	Foreign     uint64             `json:"foreign_records"`   // under none of their runs' keys: without effect
	ForeignSeqs []uint64           `json:"foreign_sequences"` // the first maxForeign of these
	Runs        Runs               `json:"runs"`
	Attempts    Attempts           `json:"attempts"`
	Callbacks   Callbacks          `json:"callbacks"`
	Webhooks    Webhooks           `json:"webhooks"`
	Sessions    int                `json:"sessions"`
	Damages     []highwater.Damage `json:"damages"` // losses of records, also accepted ones
	OK          bool               `json:"ok"`
	Count       int                `json:"wrong_count"`
	Wrong       []Wrong            `json:"wrong"` // the first maxWrong
}

// Runs are counted by their records, each kind independently; the sum must be right.
type Runs struct {
	Accepted  int `json:"accepted"`
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
	Ended     int `json:"ended"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Stopped   int `json:"stopped"`
}

// Attempts are those that runners claimed.
type Attempts struct {
	Claimed int `json:"begun"`
	Ended   int `json:"ended"`
	Retried int `json:"retried"` // claimed again after an attempt that failed
}

// Callbacks are ended runs that call a parent session back.
type Callbacks struct {
	Owed          int `json:"owed"` // all of them
	Delivered     int `json:"delivered"`
	Waiting       int `json:"waiting"`
	Undeliverable int `json:"undeliverable"`
	Suppressed    int `json:"suppressed"` // stopped with a tree: no callback
}

// Webhooks are ended runs with a callback_url.
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
	kindMismatch     = "record_mismatch" // a record contradicts its subject or its run
	kindUnknownRun   = "unknown_run"     // records of a run that was never accepted
	kindUnclaimed    = "ended_unclaimed"
	kindClaimedTwice = "begun_twice"
	kindTwoEnds      = "two_last_words"
	kindAfterEnd     = "begun_after_end"
	kindAttempt      = "attempt_out_of_turn" // unqueued, before the previous one failed, or beyond max_attempts
	kindKey          = "wrong_key"
	kindStranger     = "wrong_runner"
	kindTwoAtOnce    = "two_at_once" // a session ran two runs
	kindOrder        = "out_of_order"
	kindUnreported   = "completed_unoffered" // with an output schema, and without a reported result
	kindUnchecked    = "offer_overdue"       // a result was reported, and no coordinator wrote the end record
	kindUnfinished   = "claimed_to_end"      // claimed by a coordinator, and not ended
	kindCallback     = "callback_wrong"
	kindTwice        = "callback_twice"
	kindOverdue      = "callback_overdue"
	kindWebhook      = "webhook_wrong"
	kindSum          = "sum"
	kindDamage       = "history_damaged" // records are missing that the stream held
)

const (
	maxWrong   = 100
	maxForeign = 100
	// overdue is how long a record may be without its follower, and how long an idle parent may have a pending
	// callback. After a turn that ended unclaimed, further turns come ever more slowly.
	overdue       = 30 * time.Second
	overdueMissed = overdue + time.Minute
	// overdueResult is how long a result may wait for its check, including the time in which a payload may
	// still appear.
	overdueResult = overdue + time.Minute
	// skew is how far clocks may differ: ids have the coordinator's time, records the server's.
	skew = 10 * time.Second
)

// accept lets damages that an admin has accepted explain what is wrong.
func (r *Rules) accept(damages []highwater.Damage) {
	for _, d := range damages {
		if d.AcceptedAt != nil {
			r.Damaged.At, r.Damaged.Seq = d.FoundAt, max(r.Damaged.Seq, d.Ends, d.Reached)
		}
	}
}

// addDamages adds what the comparison with the high-water mark has found.
func (r *Report) addDamages(damages []highwater.Damage) {
	r.Damages = append([]highwater.Damage{}, damages...)
	for _, d := range damages {
		if d.AcceptedAt == nil {
			r.OK, r.Count = false, r.Count+1
			r.Wrong = append([]Wrong{{Kind: kindDamage, Sequence: d.Ends, Message: d.Message}}, r.Wrong...)
		}
	}
	r.Wrong = r.Wrong[:min(len(r.Wrong), maxWrong)]
}
