// Package explain explains why a run waits, or why it ended as it did. It writes nothing.
package explain

import (
	"context"
	"fmt"

	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
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
	Rejected    []Rejected `json:"rejected,omitempty"`   // answers that do not match the output schema, in order
	Incomplete  string     `json:"incomplete,omitempty"` // why the story lacks something
}

// Explain explains why a run waits or how it ended. An executor's session (inside) does not see other runs and runners.
// An unknown id is NotFound. While NATS does not answer, Explain uses what is known here.
func (x *Explainer) Explain(ctx context.Context, id string, inside bool) (Explanation, error) {
	for tries := 1; ; tries++ {
		known := x.History.Seq()
		t, err := x.History.Trace(ctx, id)
		if err == nil && tries == 1 && !t.Run.Status.Final() { // it may be old; an end never changes
			x.Past.WaitCurrent(ctx)
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

// account explains a run by the index as of position known. whole is false if the run has ended meanwhile.
func (x *Explainer) account(ctx context.Context, t query.Trace, known uint64, inside bool) (e Explanation,
	whole bool, err error) {
	r := t.Run
	e = Explanation{
		RunID: r.ID, SessionID: r.SessionID, Agent: r.Agent, Status: r.Status, Attempt: r.Attempt,
		MaxAttempts: max(1, r.MaxAttempts),
	}
	n := narrator{Source: x.Source, t: t, upTo: known, keyed: map[int][]keyed{}, bounds: map[int]int{},
		definitions: map[uint64]string{}}
	e.Story, err = n.tell(ctx)
	e.Rejected = rejectedIn(e.Story)
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
		if r.Status == run.Stopped && n.stoppedWith == "" {
			n.stoppedWith = x.StoppedWith(ctx, r)
		}
		e.Summary = conclusion(t, e.Story, n.stoppedWith)
	}
	return e, live || r.Status.Final(), nil
}

// conclusion says in a sentence how a run ended. with is the session whose tree was stopped, this run with it.
func conclusion(t query.Trace, story []Step, with string) string {
	r := t.Run
	claimed := r.ClaimedAt
	for _, s := range story { // by one clock, where the records are to be had
		if s.What == stepClaimed {
			claimed = &s.At
		}
	}
	end := r.EndedAt
	for _, s := range story {
		if s.Sequence == t.End && s.Sequence != 0 {
			end = &s.At
		}
	}
	say := "It " + string(r.Status)
	if r.Status == run.Stopped {
		say = "It was stopped"
	}
	switch {
	case end == nil:
	case r.RunnerID == "" || claimed == nil:
		say += fmt.Sprintf(" %s after it was accepted, before a runner claimed it", span(end.Sub(r.CreatedAt)))
	default:
		say += fmt.Sprintf(" %s after runner %s claimed it", span(end.Sub(*claimed)), r.RunnerID)
	}
	if r.MaxAttempts > 1 {
		say += fmt.Sprintf(" (attempt %d of %d)", r.Attempt, r.MaxAttempts)
	}
	if with != "" && r.Status == run.Stopped {
		say += ", with all that is below session " + with
	}
	return say + reason(r) + "."
}

// reason returns why a run failed; nothing for one that did not.
func reason(r run.Run) string {
	switch {
	case lost(r.Error):
		say := ": the runner was lost"
		if why, _ := r.Error.Text("detail"); why != "" {
			say += ", " + brief(why, 200)
		}
		return say
	case r.Status != run.Failed || r.Error == nil:
		return ""
	case r.Error.Message == "":
		return ": " + r.Error.Code
	}
	return ": " + brief(r.Error.Message, 200) + " (" + r.Error.Code + ")"
}

// tell returns the story, as much of it as can be read; the error says why it lacks something.
func (n *narrator) tell(ctx context.Context) ([]Step, error) {
	r, part := n.t.Run, subject.Partition(n.t.Run.SessionID)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(storyReaders)
	whole, skipped := ends(n.t.Full, storyWhole)
	for _, seq := range whole {
		n.read(g, func() (bus.Message, error) { return n.Records.Get(ctx, seq) }, n.whole)
	}
	overstepped := r.Error != nil && r.Error.Code == state.CodeRecordVersion // from that record on nothing is read
	if overstepped {
		n.read(g, func() (bus.Message, error) { return n.Records.Get(ctx, n.t.End) }, func(m bus.Message) {
			n.add(m, r.Attempt, stepFailed, say(r.Error))
		})
	}
	attempts := make([]int, max(1, r.Attempt))
	for i := range attempts {
		attempts[i] = i + 1
	}
	kept, leftOut := ends(attempts, storyAttempts)
	for _, at := range kept {
		key := n.Key(r.ID, at)
		last := func(subj string, say func(int, bus.Message)) {
			n.read(g, func() (bus.Message, error) { return n.Records.Last(ctx, subj) }, func(m bus.Message) {
				if !overstepped || m.Seq < n.t.End {
					n.keyed[at] = append(n.keyed[at], keyed{m, say})
				}
			})
		}
		last(subject.Claimed(part, r.ID, key), n.claim)
		if n.t.AgentType == run.Autonomous {
			last(subject.Bound(part, r.ID, key), n.bound)
		}
		if n.t.HasSchema {
			last(subject.Offered(part, r.ID, key), n.offer)
		}
		last(subject.Ended(part, r.ID, key), n.end)
	}
	n.read(g, func() (bus.Message, error) { return n.Records.Last(ctx, subject.Stopping(part, r.ID)) }, n.stop)
	if n.t.Turn != 0 {
		n.readAll(g, n.lists(ctx, r.Parent, n.t.Turn), n.callback)
	}
	if r.Type == run.Resume {
		n.readAll(g, n.lists(ctx, r.SessionID, n.t.Full[0]), n.tells)
	}
	if r.CallbackURL != "" && r.Status.Final() {
		n.readAll(g, func() ([]bus.Message, error) {
			return n.Records.Records(ctx, subject.NotifiedOf(part, r.ID), n.t.Full[0], storyHooks)
		}, n.hooks)
	}
	var rejected []Step
	if n.t.HasSchema {
		n.readAll(g, func() (_ []bus.Message, err error) {
			rejected, err = n.rejections(ctx)
			return nil, err
		}, func([]bus.Message) {})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	n.attempts()
	return n.steps(rejected, kept, len(leftOut) > 0 || len(skipped) > 0), n.unread
}
