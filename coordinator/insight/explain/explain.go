// Package explain tells why a run waits, or why it ended so. It writes nothing.
package explain

import (
	"context"
	"fmt"
	"time"

	"ao/coordinator/projection"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// Explanation is why a run waits, or why it ended so, for a person and for a program.
type Explanation struct {
	RunID       string     `json:"run_id"`
	SessionID   string     `json:"session_id"`
	Agent       string     `json:"agent_name"`
	Status      run.Status `json:"status"`
	Attempt     int        `json:"attempt"`
	MaxAttempts int        `json:"max_attempts"`
	Summary     string     `json:"summary"`              // one sentence
	WaitsFor    *Obstacle  `json:"waits_for"`            // null: nothing, it has ended
	Story       []Step     `json:"story"`                // what happened, in order
	Incomplete  string     `json:"incomplete,omitempty"` // why the story lacks something
}

// Step is something that happened to a run. Its time is that of the record on the stream, but for started: that is the worker's.
type Step struct {
	At       time.Time `json:"at"`
	Attempt  int       `json:"attempt,omitempty"`
	What     string    `json:"what"` // one of the constants below
	Detail   string    `json:"detail"`
	Sequence uint64    `json:"sequence,omitempty"` // of the record of RUNS that says so; none: no record does
}

// What can happen to a run.
const (
	StepAccepted      = "accepted"
	StepQueued        = "queued"
	StepMoved         = "moved" // into another lane
	StepClaimed       = "claimed"
	StepStarted       = "started"
	StepBound         = "bound"
	StepRejected      = "rejected" // an answer that does not match the output schema: the session is asked again, where it may be
	StepOffered       = "offered"
	StepChecked       = "checked"
	StepStopping      = "stopping"
	StepAttemptFailed = "attempt_failed" // another follows
	StepAttemptLost   = "attempt_lost"   // likewise
	StepCompleted     = "completed"
	StepFailed        = "failed"
	StepStopped       = "stopped"
	StepLost          = "lost" // failed, since its runner was
	StepCallback      = "callback"
	StepWebhook       = "webhook"
	StepLeftOut       = "left_out" // the story is too long
)

// History is the fold, as far as explanations go.
type History interface {
	Seq() uint64
	Trace(ctx context.Context, id string) (projection.Trace, error)
	Active(id string) (projection.Active, bool)
	Open(session string) []projection.Active
	Home(session string) run.Demands
	Ahead(id string) (n int, since time.Time, ok bool)
	Begun(f func(projection.Active) bool)
}

// Explainer tells why runs wait, and why they ended so.
type Explainer struct {
	Source
	History History
	Past    interface{ Current(ctx context.Context) }
	Runners interface {
		Matches(w fleet.Want) bool
	}
	Queues interface {
		HasRoom(w fleet.Want, caller string) bool
	}
	Waits interface {
		Want(a projection.Active) fleet.Want
		UnmatchedSince(id, lane string) (time.Time, bool)
	}
	Heard interface {
		Of(key string) (heard, ends time.Time, ok bool)
	}
	Members func() []fleet.Member
	Parting func(agent string) (left, until time.Time, ok bool) // the last runner that had an agent
	Ready   func() error
	NoMatch time.Duration // after so long a run fails that no online runner matches
	Most    int           // queues of demands
}

// Explain tells why a run waits, or why it ended so. To an executor's session (inside) other runs and the runners are not shown: it may
// read itself and what is below it, no more. An unknown id is NotFound. While NATS is away it tells what is known here.
func (x *Explainer) Explain(ctx context.Context, id string, inside bool) (Explanation, error) {
	for tries := 1; ; tries++ {
		known := x.History.Seq()
		t, err := x.History.Trace(ctx, id)
		if err == nil && tries == 1 && !t.Run.Status.Final() { // it may be old; an end never changes
			x.Past.Current(ctx)
			known = x.History.Seq()
			t, err = x.History.Trace(ctx, id)
		}
		if err != nil {
			return Explanation{}, err
		}
		e, whole, err := x.account(ctx, t, known, inside)
		if err != nil || whole || tries == 3 {
			return e, err
		}
	}
}

// account explains a run by what the index had of it when it had read as far as known. Not whole: the run has ended meanwhile.
func (x *Explainer) account(ctx context.Context, t projection.Trace, known uint64, inside bool) (e Explanation, whole bool, err error) {
	r := t.Run
	e = Explanation{
		RunID: r.ID, SessionID: r.SessionID, Agent: r.Agent, Status: r.Status, Attempt: r.Attempt, MaxAttempts: max(1, r.MaxAttempts),
	}
	n := narrator{Source: x.Source, t: t, upTo: known, keyed: map[int][]keyed{}, bounds: map[int]int{}}
	e.Story, err = n.tell(ctx)
	if kind := fault.KindOf(err); err != nil && kind != fault.Unavailable || ctx.Err() != nil {
		return Explanation{}, false, err
	}
	if err != nil {
		e.Incomplete = "NATS does not answer, so records of the run could not be read"
	}
	a, live := x.History.Active(r.ID)
	if live && !r.Status.Final() {
		e.WaitsFor, e.Summary = x.obstacle(r, a, inside)
	} else {
		e.Summary = conclusion(t, e.Story)
	}
	return e, live || r.Status.Final(), nil
}

// conclusion says in a sentence how a run ended.
func conclusion(t projection.Trace, story []Step) string {
	r := t.Run
	say := "It " + string(r.Status)
	if r.Status == run.Stopped {
		say = "It was stopped"
	}
	switch {
	case lost(r.Error):
		say = fmt.Sprintf("It failed because its runner %s was lost", r.RunnerID)
		if why, _ := field(r.Error, "detail"); why != "" {
			say += ": " + brief(why, 200)
		}
	case r.Status == run.Failed && r.Error != nil && r.Error.Message != "":
		say += ": " + brief(r.Error.Message, 200) + " (" + r.Error.Code + ")"
	case r.Status == run.Failed && r.Error != nil:
		say += ": " + r.Error.Code
	}
	begun := r.ClaimedAt
	for _, s := range story { // by one clock, where the records are to be had
		if s.What == StepClaimed {
			begun = &s.At
		}
	}
	end := r.EndedAt
	for _, s := range story {
		if s.Sequence == t.End && s.Sequence != 0 {
			end = &s.At
		}
	}
	switch {
	case end == nil:
	case r.RunnerID == "" || begun == nil:
		say += fmt.Sprintf(", %s after it was accepted; no runner had begun it", span(end.Sub(r.CreatedAt)))
	default:
		say += fmt.Sprintf(", %s after runner %s began it", span(end.Sub(*begun)), r.RunnerID)
	}
	if r.MaxAttempts > 1 {
		say += fmt.Sprintf(" (attempt %d of %d)", r.Attempt, r.MaxAttempts)
	}
	return say + "."
}

// lost tells whether an error is that of a run whose runner was lost.
func lost(f *fault.Fault) bool { return f != nil && f.Code == run.CodeDisconnected }

// span is a duration as a person reads it: three digits or so.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
