package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// What a story reads at most. Of a run with more attempts than that only the first two and the last ones are shown.
const (
	storyAttempts = 20
	storyWhole    = 40 // records with the whole run
	storyEvents   = 1000
	storyPage     = 20 // of these, in memory at once
	storyHooks    = 1000
	toldHooks     = 50
	storyReaders  = 8
	detailLength  = 300 // characters
)

// Source is where the records of stories are.
type Source struct {
	Records interface {
		Get(ctx context.Context, seq uint64) (bus.Message, error)
		Last(ctx context.Context, subj string) (bus.Message, error)
		Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
		Events(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	}
	Key    func(run string, attempt int) string
	Events func(bus.Message) []run.Event // the events that a message of EVENTS holds
}

// narrator makes the story of a run from its records. It never shows a key, a nonce or a result.
type narrator struct {
	Source
	t    query.Trace
	upTo uint64 // what the index had read when it gave t

	mu  sync.Mutex
	all []orderedStep

	stoppedWith string            // the session whose tree was stopped, this run with it
	keyed       map[int][]keyed   // by attempt: the records under its key
	bounds      map[int]int       // by attempt: the newest version that those may have
	definitions map[uint64]string // of its agent, by the sequence of the queued record
	unread      error             // of the first record that could not be read, since NATS is away
}

// keyed is a record under an attempt's key, and how it is shown.
type keyed struct {
	bus.Message
	say func(at int, m bus.Message)
}

// orderedStep is a step with its place: behind the record that it follows.
type orderedStep struct {
	Step
	behind uint64
	n      int // of those behind the same record
}

// attempts adds the records of each attempt, in their order, up to its end. One above the attempt's version is one.
func (n *narrator) attempts() {
	for at, all := range n.keyed {
		slices.SortFunc(all, func(a, b keyed) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, k := range all {
			if bound := n.bounds[at]; bound > 0 && state.RecordVersion(k.Body) > bound {
				if k.Seq <= n.upTo { // else nobody here knows yet whether another attempt follows
					n.add(k.Message, at, stepAttemptFailed, say(state.NewerVersionError())+"; "+n.next(at))
				}
				break
			}
			k.say(at, k.Message)
			if rec, err := subject.Parse(k.Subject); err == nil && rec.Kind == subject.EndedKind {
				break
			}
		}
	}
}

// ends keeps the first two and the last of what there is too much of.
func ends[T any](all []T, most int) (kept, left []T) {
	if len(all) <= most {
		return all, nil
	}
	cut := len(all) - most + 2
	return slices.Concat(all[:2], all[cut:]), all[2:cut]
}

// read reads a record and adds its step. What is not there says nothing; what NATS does not give is noted.
func (n *narrator) read(g *errgroup.Group, get func() (bus.Message, error), say func(bus.Message)) {
	n.readAll(g, func() ([]bus.Message, error) {
		m, err := get()
		return []bus.Message{m}, err
	}, func(all []bus.Message) { say(all[0]) })
}

func (n *narrator) readAll(g *errgroup.Group, get func() ([]bus.Message, error), say func([]bus.Message)) {
	g.Go(func() error {
		n.mu.Lock()
		away := n.unread
		n.mu.Unlock()
		if away != nil { // nor would it give this one
			return nil
		}
		all, err := get()
		n.mu.Lock()
		defer n.mu.Unlock()
		switch {
		case err == nil:
			say(all)
		case errors.Is(err, bus.ErrNotFound):
		case fault.KindOf(err) == fault.Unavailable:
			n.unread = cmp.Or(n.unread, err)
		default:
			return err
		}
		return nil
	})
}

func (n *narrator) add(m bus.Message, attempt int, what, detail string) {
	n.all = append(n.all, orderedStep{Step{At: m.Time.UTC(), Attempt: attempt, What: what, Detail: brief(detail,
		detailLength), Sequence: m.Seq}, m.Seq, len(n.all)})
}

// whole is a record that holds the whole run. Its body is nothing new.
func (n *narrator) whole(m bus.Message) {
	rec, err := subject.Parse(m.Subject)
	if err != nil || rec.Run != n.t.Run.ID {
		return
	}
	if m.Seq == n.t.Full[0] {
		say := "for agent " + n.t.Run.Agent
		if n.t.Run.Type == run.Resume {
			say += ", as another turn of its session"
		}
		if rec.Kind == subject.AcceptedKind {
			say += "; not queued at once: another run of the session was ahead of it, or no runner matched"
		}
		n.add(m, 0, stepAccepted, say)
	}
	if rec.Kind == subject.QueuedKind {
		n.add(m, rec.N, stepQueued, "in queue "+rec.TaskQueue)
		if q, err := run.DecodeQueued(m.Body, nil); err == nil {
			n.bounds[rec.N] = max(n.bounds[rec.N], q.RecordVersion, 1)
			n.definitions[m.Seq] = q.Owner
		}
	}
}

func (n *narrator) claim(at int, m bus.Message) {
	var c run.Claim
	if json.Unmarshal(m.Body, &c) == nil && c.RunnerID != "" { // else a coordinator's, to end it, which is shown
		n.add(m, at, stepClaimed, "by runner "+c.RunnerID)
		if s := n.t.Run.StartedAt; s != nil && m.Seq == n.t.Claim {
			n.started(m.Seq, at, *s)
		}
	}
}

// started is the worker's word, not a record's.
func (n *narrator) started(behind uint64, at int, when time.Time) {
	n.all = append(n.all, orderedStep{Step{At: when.UTC(), Attempt: at, What: stepStarted,
		Detail: "the executor is running"}, behind, len(n.all)})
}

func (n *narrator) bound(at int, m bus.Message) {
	var b run.Bound
	if json.Unmarshal(m.Body, &b) != nil {
		return
	}
	say := "its session can continue on any host"
	if b.Hostname != "" {
		say = "its session is stored only on host " + b.Hostname
	}
	if b.Profile != "" {
		say += ", profile " + b.Profile
	}
	n.add(m, at, stepBound, say)
}

func (n *narrator) offer(at int, m bus.Message) {
	e, err := run.DecodeEnded(m.Body)
	if err == nil && e.RunnerID == "" { // a coordinator's, that takes none any more: its last word follows
		return
	}
	say := "a result, to be checked against the output schema"
	if e.Result != nil {
		var v run.Validation
		if json.Unmarshal(e.Result.SchemaValidation, &v) == nil && v.Retries > 0 {
			say += fmt.Sprintf("; the agent was asked again %s", times(v.Retries))
		}
	}
	n.add(m, at, stepOffered, say)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// end is the last word of an attempt.
func (n *narrator) end(at int, m bus.Message) {
	r := n.t.Run
	e, _ := run.DecodeEnded(m.Body) // one that cannot be read is a failure
	final := m.Seq == n.t.End
	if !final && m.Seq > n.upTo { // nobody here knows yet whether another attempt follows
		return
	}
	why := e.Error
	if final {
		why = r.Error
	}
	if n.t.HasSchema && e.RunnerID == "" {
		switch {
		case e.Checked != "":
			n.add(m, at, stepChecked, "a coordinator found that the result matches the output schema")
		case e.Error != nil && (e.Error.Code == "OutputSchemaValidationError" || e.Error.Code == "result_unreadable"):
			n.add(m, at, stepChecked,
				"a coordinator found that the result does not match the output schema, or cannot be read")
		}
	}
	switch {
	case !final && e.Returned:
		n.add(m, at, stepReturned, fmt.Sprintf("runner %s cannot work and gave the run back: %s; attempt %d follows",
			e.RunnerID, say(why), at+1))
	case !final && lost(why):
		n.add(m, at, stepAttemptLost, gone(why)+"; "+n.next(at))
	case !final:
		n.add(m, at, stepAttemptFailed, say(why)+"; "+n.next(at))
	case lost(why):
		n.add(m, at, stepLost, gone(why))
	case r.Status == run.Completed:
		n.add(m, at, stepCompleted, "on runner "+r.RunnerID)
	case r.Status == run.Stopped:
		n.add(m, at, stepStopped, say(why))
	default:
		n.add(m, at, stepFailed, say(why))
	}
}

func (n *narrator) next(at int) string {
	return fmt.Sprintf("attempt %d follows after %s", at+1, run.Backoff(at))
}

// gone says whose lease was lost, and how that was seen.
func gone(f *fault.Fault) string {
	runner, _ := f.Text("runner_id")
	why, _ := f.Text("detail")
	return fmt.Sprintf("runner %s was lost: %s", cmp.Or(runner, "?"), cmp.Or(why, f.Message))
}

// say returns an error in a line.
func say(f *fault.Fault) string {
	switch {
	case f == nil:
		return "no reason was given"
	case f.Message == "":
		return f.Code
	}
	return brief(f.Message, detailLength-60) + " (" + f.Code + ")"
}

func (n *narrator) stop(m bus.Message) {
	if m.Seq <= n.t.Full[0] {
		return
	}
	say := "a stop was requested"
	var s run.Stop
	if json.Unmarshal(m.Body, &s) == nil && s.With != "" {
		n.stoppedWith = s.With
		say += " of all that is below session " + s.With
	}
	n.add(m, 0, stepStopping, say)
}

// storyNearby is how many records after a callback's list its turn is searched for.
const storyNearby = 200

// lists reads the callback records of a session that are near one of its turns.
func (n *narrator) lists(ctx context.Context, session string, turn uint64) func() ([]bus.Message, error) {
	return func() ([]bus.Message, error) {
		return n.Records.Records(ctx, subject.Callback(subject.Partition(session), session, "*", 0),
			turn-min(turn, storyNearby), storyNearby/2)
	}
}

// callback is the record that says which turn of the parent reports this run.
func (n *narrator) callback(near []bus.Message) {
	for _, m := range slices.Backward(near) { // a turn before may have been in vain
		var c run.Callback
		if m.Seq <= n.t.Turn+1 && json.Unmarshal(m.Body, &c) == nil && slices.Contains(c.Children, n.t.Run.ID) {
			n.add(m, 0, stepCallback, fmt.Sprintf("run %s reports its end to the parent session %s", c.Turn(),
				n.t.Run.Parent))
			return
		}
	}
}

// tells is the record that says what a callback turn reports.
func (n *narrator) tells(near []bus.Message) {
	for _, m := range near {
		var c run.Callback
		if json.Unmarshal(m.Body, &c) == nil && !c.Suppressed && c.Turn() == n.t.Run.ID {
			n.add(m, 0, stepCallback, fmt.Sprintf("this turn reports to its session that %s ended",
				count(len(c.Children), "run")))
			return
		}
	}
}

// hooks are the steps of the HTTP callback.
func (n *narrator) hooks(all []bus.Message) {
	all, left := ends(all, toldHooks)
	for i, m := range all {
		var h run.Notified
		if json.Unmarshal(m.Body, &h) != nil {
			continue
		}
		say := map[string]string{
			run.NotifyDelivered: "the receiver accepted the webhook",
			run.NotifyAgain:     "a new delivery of the webhook was requested",
			run.NotifyDead:      "the last delivery of the webhook failed, no other follows",
			run.NotifyFailed:    "a delivery of the webhook failed",
		}[h.Status]
		if h.HTTP != 0 && h.Status != run.NotifyDelivered {
			say += fmt.Sprintf(": %d", h.HTTP)
		}
		if h.Reason != "" {
			say += ": " + h.Reason
		}
		if h.Next != nil {
			say += "; the next delivery is at " + h.Next.UTC().Format(time.RFC3339)
		}
		if i == 1 && len(left) > 0 {
			say += fmt.Sprintf(" (%s left out after it)", count(len(left), "step"))
		}
		n.add(m, 0, stepWebhook, say)
	}
}

// steps puts everything in order: that of the stream, and answers, which have no place in it, by their times.
func (n *narrator) steps(rejected []Step, attempts []int, cut bool) []Step {
	if len(n.all) == 0 || n.unread != nil { // what the index has
		n.known()
	}
	slices.SortFunc(n.all, func(a, b orderedStep) int {
		return cmp.Or(cmp.Compare(a.behind, b.behind), cmp.Compare(a.n, b.n))
	})
	steps := []Step{}
	queuedAttempt, definition, gap := "", "", false
	for _, s := range n.all {
		if s.Attempt != 0 && !slices.Contains(attempts, s.Attempt) {
			continue
		}
		if cut && !gap && s.Attempt > 2 {
			gap = true
			steps = append(steps, Step{At: s.At, What: stepLeftOut, Detail: fmt.Sprintf("the steps between the first "+
				"attempts and attempt %d", s.Attempt)})
		}
		if s.What == stepQueued {
			switch where := fmt.Sprint(s.Attempt); {
			case where != queuedAttempt:
				queuedAttempt = where
			case definition != n.definitions[s.Sequence]:
				s.What, s.Detail = stepMoved, s.Detail+": no runner had its definition of the agent any more, and it "+
					"was checked against the new one"
			default:
				s.What, s.Detail = stepMoved, s.Detail+": a runner registered its agent again"
			}
			definition = n.definitions[s.Sequence]
		}
		steps = append(steps, s.Step)
	}
	for _, a := range rejected {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Sequence != 0 && s.At.After(a.At) })
		if i < 0 {
			i = len(steps)
		}
		for k := i; k > 0 && a.Attempt == 0; k-- {
			a.Attempt = steps[k-1].Attempt
		}
		steps = slices.Insert(steps, i, a)
	}
	return steps
}

// known returns what the index has of a run whose records cannot be read.
func (n *narrator) known() {
	r := n.t.Run
	have := func(what string) bool {
		return slices.ContainsFunc(n.all, func(s orderedStep) bool { return s.What == what })
	}
	put := func(behind uint64, at *time.Time, attempt int, what, detail string) {
		if at != nil && !have(what) {
			n.all = append(n.all, orderedStep{Step{At: at.UTC(), Attempt: attempt, What: what, Detail: detail}, behind,
				len(n.all)})
		}
	}
	put(n.t.Full[0], &r.CreatedAt, 0, stepAccepted, "for agent "+r.Agent)
	if r.RunnerID != "" {
		put(n.t.Claim, r.ClaimedAt, r.Attempt, stepClaimed, "by runner "+r.RunnerID)
		put(n.t.Claim, r.StartedAt, r.Attempt, stepStarted, "the executor is running")
	}
	if detail := "on runner " + r.RunnerID; r.Status.Final() {
		if r.Status != run.Completed {
			detail = say(r.Error)
		}
		put(n.t.End, r.EndedAt, r.Attempt, string(r.Status), detail)
	}
}

// brief returns a text on one line, with no more than so many characters.
func brief(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// lost reports whether an error is that of a run whose runner was lost.
func lost(f *fault.Fault) bool { return f != nil && f.Code == run.CodeDisconnected }

// Step is something that happened to a run. Its time is the record's; of started it is the worker's.
type Step struct {
	At       time.Time `json:"at"`
	Attempt  int       `json:"attempt,omitempty"`
	What     string    `json:"what"` // one of the constants below
	Detail   string    `json:"detail"`
	Sequence uint64    `json:"sequence,omitempty"` // of the record of RUNS that says so; none: no record does

	rejected *Rejected // the answer that it is about
}

// What can happen to a run.
const (
	stepAccepted = "accepted"
	stepQueued   = "queued"
	stepMoved    = "moved" // into another queue
	stepClaimed  = "claimed"
	stepStarted  = "started"
	stepBound    = "bound"
	// an answer that does not match the output schema: the session is asked again, where it may be
	stepRejected      = "rejected"
	stepOffered       = "offered"
	stepChecked       = "checked"
	stepStopping      = "stopping"
	stepAttemptFailed = "attempt_failed" // another follows
	stepAttemptLost   = "attempt_lost"   // likewise
	stepReturned      = "returned"       // its runner cannot work and gave the run back: another attempt follows
	stepCompleted     = "completed"
	stepFailed        = "failed"
	stepStopped       = "stopped"
	stepLost          = "lost" // failed, since its runner was
	stepCallback      = "callback"
	stepWebhook       = "webhook"
	stepLeftOut       = "left_out" // the story is too long
)
