package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/share"
	"ao/shared/trace"
)

// Service accepts runs, shows them and stops them.
type Service struct {
	*Stopper
	Needs
	Plans       *Planner
	Idempotency *Idempotency
	treeStops   TreeStops
	meter       runMeter
	submitting  atomic.Int64 // submissions in progress
}

// Submit checks a request and stores its run with one write, or two records in one batch where the caller chose the
// session's id. A refused request leaves nothing behind, but for what withdraw leaves. A request that NATS did not
// answer may still be stored. key is the caller's idempotency key, scope is whose key it is.
func (r *Service) Submit(ctx context.Context, body []byte, scope, key string) (Accepted, error) {
	if len(key) > maxKey {
		return Accepted{}, errKeyTooLong()
	}
	return r.accept(ctx, plain{r}, body, scope, key)
}

// accept runs a submission in a span.
func (r *Service) accept(ctx context.Context, by submission, body []byte, scope, key string) (Accepted, error) {
	ctx, span := r.Spans.Start(ctx, trace.Producer, "submit")
	a, err := r.submit(ctx, by, body, scope, key)
	span.RecordError(err)
	span.Set(trace.Run, a.RunID)
	span.Set(trace.Session, a.SessionID)
	span.End()
	return a, err
}

func (r *Service) submit(ctx context.Context, by submission, body []byte, scope, key string) (Accepted, error) {
	if err := r.Ready(); err != nil {
		return Accepted{}, fault.Wrap(fault.Unavailable, "", "Not ready to accept runs: "+fault.Of(err).Message, err).
			After(time.Second)
	}
	if key != "" {
		return r.Idempotency.submit(ctx, by, body, scope, key)
	}
	p, err := by.Check(ctx, body, scope)
	if err != nil {
		return Accepted{}, err
	}
	return by.Place(ctx, p, run.NewID(), run.NewSessionID())
}

// plain submits requests as they are.
type plain struct{ placer }

// WaitMode returns how the caller wants to learn of the end.
func (plain) WaitMode(body []byte) (mode string, seconds *int, err error) {
	req, err := run.ReadRequest(body)
	return req.Mode, req.WaitSeconds, err
}

// Check reads a body and makes every check. It first refuses where too many runs wait.
func (r *Service) Check(ctx context.Context, body []byte, scope string) (*Plan, error) {
	caller := callerOf(r.History, scope)
	err := admit(r.History.Waiting(caller, ""), r.submitting.Load(), r.Limits.Waiting, "")
	if err != nil { // before the body is read
		return nil, err
	}
	if err := r.CheckRoom(caller, ""); err != nil {
		return nil, err
	}
	req, err := run.ReadRequest(body)
	if err != nil {
		return nil, err
	}
	p, err := r.Plans.Plan(ctx, req)
	if err != nil {
		return nil, err
	}
	p.Spec.Caller = caller
	tree := p.tree()
	if tree != "" {
		if err := r.CheckRoom(caller, tree); err != nil {
			return nil, err
		}
	}
	return p, admit(r.History.Waiting(caller, tree), r.submitting.Load(), r.Limits.Waiting, tree)
}

// tree returns a session of the tree that the run will be in; empty: it begins one.
func (p *Plan) tree() string {
	if p.Spec.Type == run.Resume {
		return p.Spec.SessionID
	}
	return p.Spec.Parent
}

// admit refuses a run where too many wait. A caller may have as many as are free, and a session's tree as many as are
// free of its caller's share.
func admit(w state.Waiting, submitting int64, most int, session string) error {
	room, all := int64(most), int64(w.All)+submitting
	of, tree := int64(w.Caller), int64(w.Tree)
	busy := func(format string, args ...any) *fault.Fault {
		return fault.Newf(fault.Busy, format, args...).After(2 * time.Second)
	}
	switch {
	case all >= room:
		return busy("%d runs are waiting, the maximum (AO_MAX_PENDING); try again later", all)
	case !share.Free(room, all, of, 1):
		return busy("your share is used up: %d of your runs wait, and %d of %d places are free "+
			"(AO_MAX_PENDING); a caller may have as many as are free. Wait until some are claimed, or stop some", of,
			room-all, room).With("share", string(share.Token))
	case session != "" && !share.Free(room-all, of, tree, 1):
		return busy("the share of this session's tree is used up: %d of its runs wait, and %d places are "+
			"left for its caller (AO_MAX_PENDING); a tree may have as many as are left. Wait until some are claimed, "+
			"or stop some", tree, room-all-of).With("share", string(share.Tree))
	}
	return nil
}

// Place stores a plan under these ids. sessionID is used where the plan has no session yet.
func (r *Service) Place(ctx context.Context, p *Plan, runID, sessionID string) (Accepted, error) {
	p.Spec.ID, p.Spec.Trace = runID, trace.FromContext(ctx)
	p.Spec.SessionID = cmp.Or(p.Spec.SessionID, sessionID)
	r.submitting.Add(1)
	defer r.submitting.Add(-1)
	input := p.Spec.Input // store may move it to a payload
	if err := r.store(ctx, p); err != nil {
		return Accepted{}, err
	}
	r.meter.observeInput(input)
	return Accepted{RunID: p.Spec.ID, SessionID: p.Spec.SessionID, Status: run.Pending, RetryOf: p.Spec.RetryOf,
		Mode: p.Spec.Mode, Wait: p.wait, fresh: true}, nil
}

// Validation answers POST /runs/validate.
type Validation struct {
	Valid   bool            `json:"valid"`
	Agent   string          `json:"agent_name"`
	Type    string          `json:"type"`
	Demands run.Demands     `json:"demands"`
	Timeout int             `json:"timeout_seconds"`
	Schema  json.RawMessage `json:"parameters_schema"`
	// what the answer must match and where that comes from; null: anything
	Output    *run.Output `json:"output"`
	Available bool        `json:"runner_available"` // an online runner matches now
}

// Validate makes the checks of Submit and stores nothing.
func (r *Service) Validate(ctx context.Context, body []byte) (Validation, error) {
	req, err := run.ReadRequest(body)
	if err != nil {
		return Validation{}, err
	}
	p, err := r.Plans.Plan(ctx, req)
	if err != nil {
		return Validation{}, err
	}
	return Validation{true, p.Spec.Agent, p.Spec.Type, p.Spec.Demands, p.Spec.Timeout, p.schemaRaw, p.Spec.Output,
		r.Runners.Matches(p.routing)}, nil
}

// store writes the run's first record: queued where a runner can take it now, else accepted.
func (r *Service) store(ctx context.Context, p *Plan) error {
	if err := r.Records.OffloadNew(ctx, &p.Spec); err != nil {
		return err
	}
	part := subject.Partition(p.Spec.SessionID)
	entry, err := r.FirstRecord(ctx, part, p)
	if err != nil {
		withdraw(ctx, r, p)
		return err
	}
	if p.Spec.RequestHash != "" { // there is one first record of the run, also with another plan, queue or session
		entry.ID = p.Spec.ID
	}
	if !p.ownID {
		return put(ctx, r, entry)
	}
	together, apart, err := r.SessionRecords(part, p.Spec, entry)
	if err != nil {
		return err
	}
	session := &together[0]
	session.ID, apart[0].ID, together[1].ID = entry.ID, entry.ID, ""
	seq, err := r.Records.AppendEither(ctx, together, apart)
	if err == nil {
		r.Records.NoteWritten(seq)
		return nil
	}
	// The write was refused or not answered. The session's record names the run that created it.
	m, readErr := r.Stream.Last(ctx, session.Subject)
	if readErr != nil {
		return taken(entry, err)
	}
	var stored run.SessionCreated
	if json.Unmarshal(m.Body, &stored) != nil || stored.RunID != p.Spec.ID {
		withdraw(ctx, r, p)
		return errSessionExists(p.Spec.SessionID)
	}
	if q, err := run.DecodeQueued(stored.Next, nil); err == nil && q.RequestHash != p.Spec.RequestHash {
		return errKeyReused().With("run_id", p.Spec.ID)
	}
	if err := r.Reads.CatchUp(ctx); err != nil {
		return err
	}
	// The run's own record may not have been written, or NATS lost it in a crash.
	if exists, err := r.Torn.Exists(ctx, p.Spec.ID, p.Spec.SessionID); err != nil || exists {
		return err
	}
	return r.Records.Put(ctx, apart[1])
}

// withdraw removes the payload of a refused request. With a key, another request may have stored the same one. Then it
// stays, and counts to its caller until the sweep of payloads finds that no record names it.
func withdraw(ctx context.Context, r *Service, p *Plan) {
	if p.Spec.RequestHash == "" {
		r.Records.Withdraw(ctx, &p.Spec)
	}
}

// put writes a run's first record. ErrTaken: the run of an idempotency key has one.
func put(ctx context.Context, r *Service, e bus.Entry) error {
	if e.ID == "" {
		return r.Records.Put(ctx, e)
	}
	err := r.Records.Append(ctx, e)
	if err == nil || errors.Is(err, bus.ErrTaken) {
		return err
	}
	if _, readErr := r.Stream.Last(ctx, e.Subject); readErr == nil { // it was written, or another request's was
		return bus.ErrTaken
	}
	return bus.WriteUnanswered(err)
}

// taken returns why a session was not created whose record is not there. ErrTaken: the key's run is in another session.
func taken(first bus.Entry, err error) error {
	if first.ID != "" && errors.Is(err, bus.ErrTaken) {
		return bus.ErrTaken
	}
	return bus.WriteUnanswered(err)
}

// SessionRecords returns the records that create a session under an id that the caller chose. The session's record
// comes first: it decides whose session it is, and carries the run. The run's first record follows. Written one by one
// (apart), the run is accepted and not queued. A slow writer may come after the session's deletion, and a worker would
// claim what is queued.
func (r *Service) SessionRecords(part string, s run.Spec, first bus.Entry) (together, apart []bus.Entry, err error) {
	accepted, err := run.Accepted{V: r.Version(), Spec: s}.Encode()
	if err != nil {
		return nil, nil, err
	}
	begun, err := run.SessionCreated{V: r.Version(), RunID: s.ID, At: s.CreatedAt, Next: accepted}.Encode()
	session := bus.Entry{Subject: subject.Session(part, s.SessionID), Body: begun}
	last := bus.Entry{Subject: subject.Accepted(part, s.SessionID, s.ID), Body: accepted}
	return []bus.Entry{session, first}, []bus.Entry{session, last}, err
}

// FirstRecord returns the run's first record. A run that is to be stopped at once is not queued.
func (r *Service) FirstRecord(ctx context.Context, part string, p *Plan) (bus.Entry, error) {
	if p.Spec.Type == run.Start && r.Runners.QueueMatches(p.queue, p.routing) && !r.stopped(p.Spec.Parent) {
		queue, err := r.Queues.Ensure(ctx, p.queue, p.routing, p.Spec.Caller, false)
		if err != nil {
			return bus.Entry{}, err
		}
		return r.Records.Queued(part, queue, p.Spec, 1, true)
	}
	body, err := run.Accepted{V: r.Version(), Spec: p.Spec}.Encode()
	return bus.Entry{Subject: subject.Accepted(part, p.Spec.SessionID, p.Spec.ID), Body: body}, err
}

// stopped reports whether runs of a session are stopped at once, as far as the projection knows.
func (r *Service) stopped(parent string) bool { return parent != "" && r.History.InStoppedTree(parent) }

// callerOf returns a hash of the caller whose share a request counts to. A session's requests count to the caller of
// its run.
func callerOf(history readHistory, scope string) string {
	if session, ok := strings.CutPrefix(scope, "session:"); ok {
		for _, a := range history.Open(session) {
			if a.Claim != nil {
				return a.Spec.Caller
			}
		}
		scope = "session:"
	}
	sum := sha256.Sum256([]byte(scope))
	return hex.EncodeToString(sum[:8])
}

// Renewed returns a waiting run with the new definition of its agent.
func (r *Service) Renewed(ctx context.Context, s run.Spec, resolved *agents.Resolved) (run.Spec, error) {
	s, err := r.Plans.renewed(ctx, s, resolved)
	if err != nil {
		return s, err
	}
	return s, r.Records.Offload(ctx, &s)
}
