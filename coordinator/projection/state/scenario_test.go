package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// scenario is a random story of a session, of those that it starts, and of those that these start. It has turns,
// children that call back, callback turns, webhooks and deletions. It knows by itself what must come of them.
type scenario struct {
	t        testing.TB
	rng      *rand.Rand
	records  []entry
	refused  []int // indexes of deletions that had no effect; the coordinator takes them away
	sessions []*member
	stops    bool // trees are stopped, and no session is deleted; what must come of it is checked elsewhere
}

// member is a session of a scenario.
type member struct {
	id, kind string
	turns    []*turn
	last     *turn   // that ended last
	pending  []*turn // ended children that no turn of it has reported
	model    string
	parent   *member
	mode     string
	deleted  bool
}

// turn is a run of a member.
type turn struct {
	actor
	of, parent         *member
	state              string // accepted, queued, claimed, ended
	attempt            int
	wasClaimed, wished bool // wished: to be stopped
	unverified         bool
	status             run.Status // of its last attempt
	reported           bool
	by                 *turn // that reports it
	mute               bool  // its answer is reported to nobody, and a later turn answers
	deliveries         int
	children           []*turn // that it reports
	notified           int
	webhook            string
}

func (m *member) open() (live []*turn) {
	for _, r := range m.turns {
		if r.state != "ended" {
			live = append(live, r)
		}
	}
	return live
}

func (m *member) wasClaimed() bool {
	return slices.ContainsFunc(m.turns, func(r *turn) bool { return r.wasClaimed })
}

func (m *member) isResumable() bool {
	return m.kind == run.Autonomous && (len(m.open()) > 0 || m.wasClaimed())
}

func newScenario(t testing.TB, rng *rand.Rand, steps int) *scenario {
	f := &scenario{t: t, rng: rng}
	f.start(nil)
	for range steps {
		f.step()
	}
	return f
}

func (f *scenario) add(e ...entry) { f.records = append(f.records, e...) }

func (f *scenario) new(m, parent *member, mode string) *turn {
	a := newActor(f.t, run.NewID(), m.id, "agent-"+m.kind)
	a.Spec.AgentType, a.Spec.Mode, a.Spec.Attempts, a.Spec.ProjectDir = m.kind, mode, f.rng.IntN(
		3,
	), fmt.Sprint(
		"/",
		f.rng.IntN(2),
	)
	a.Spec.CreatedAt = began.Add(time.Duration(f.rng.IntN(10)) * time.Second)
	if f.stops { // it does not know that none is left then
		a.Spec.Attempts = 0
	}
	if parent != nil {
		a.Spec.Parent = parent.id
	}
	if f.rng.IntN(3) == 0 {
		a.Contract()
	}
	if f.rng.IntN(4) == 0 {
		a.Spec.CallbackURL = "https://example.com/" + a.Spec.ID
	}
	r := &turn{actor: a, of: m, parent: parent, state: "accepted"}
	if a.Spec.CallbackURL != "" {
		r.webhook = run.CallbackPending
	}
	m.turns = append(m.turns, r)
	return r
}

// start starts a session.
func (f *scenario) start(parent *member) {
	m := &member{id: run.NewSessionID(), kind: run.Autonomous, parent: parent, mode: run.AsyncPoll}
	if f.rng.IntN(4) == 0 {
		m.id = "ses_own-" + run.NewID()
	}
	if parent != nil && f.rng.IntN(3) > 0 {
		m.kind = run.Procedural
	}
	if parent != nil && f.rng.IntN(4) > 0 {
		m.mode = run.AsyncCallback
	}
	f.sessions = append(f.sessions, m)
	r := f.new(m, parent, m.mode)
	if f.rng.IntN(3) > 0 {
		f.queue(r)
	} else {
		f.add(r.Accepted())
	}
}

func (f *scenario) queue(r *turn) {
	r.attempt++
	r.state = "queued"
	a := r.actor
	a.Spec.ExecutorSessionID = r.of.model
	if r.of.model != "" { // it goes where that is
		a.Spec.Demands.Hostname, a.Spec.Demands.ExecutorProfile = "h", "p"
	}
	f.add(a.Queued(r.attempt))
}

// step does one thing that could be done now.
func (f *scenario) step() {
	here := slices.DeleteFunc(slices.Clone(f.sessions), func(m *member) bool { return m.deleted })
	if len(here) == 0 {
		return
	}
	m := here[f.rng.IntN(len(here))]
	live := m.open()
	switch f.rng.IntN(14) {
	case 0:
		if len(f.sessions) < 9 {
			f.start(m)
		}
	case 1:
		if m.kind == run.Autonomous && len(m.turns) < 6 { // a further turn, perhaps for another parent
			r := f.new(m, m.parent, m.mode)
			if other := here[f.rng.IntN(len(here))]; f.rng.IntN(4) == 0 && other != m {
				r.parent, r.Spec.Parent, r.Spec.Mode = other, other.id, run.AsyncCallback
			}
			f.add(r.Accepted())
		}
	case 2:
		f.notify(m)
	case 3:
		if f.stops {
			f.stopTree(m)
		} else if f.rng.IntN(4) == 0 {
			f.delete(m)
		}
	case 4, 5:
		if len(live) == 0 && len(m.pending) > 0 && m.isResumable() && m.last != nil {
			f.deliver(m)
		}
	case 6: // a late or foreign record
		r := m.turns[f.rng.IntN(len(m.turns))]
		f.add(
			r.Ended(r.attempt+5, run.Completed, 0),
			r.Claimed(r.attempt+5),
			r.Bound(r.attempt+5, "foreign"),
			r.actor.Offered(r.attempt+5),
		)
		if r.state != "queued" && r.attempt > 0 && f.rng.IntN(2) == 0 {
			f.add(r.Elsewhere(1+f.rng.IntN(r.attempt), fmt.Sprint("procedural._.", f.rng.IntN(1000))))
		}
	default:
		if f.stops && f.rng.IntN(9) == 0 {
			f.suppress(m)
		}
		if len(live) > 0 {
			f.advance(live[0])
			if f.rng.IntN(8) == 0 && len(live) > 1 { // what waits for its turn is stopped
				f.cancel(live[len(live)-1])
			}
		}
	}
}

func (f *scenario) advance(r *turn) {
	n := f.rng.IntN(10)
	switch r.state {
	case "accepted":
		if n == 0 {
			f.cancel(r)
		} else {
			f.queue(r)
		}
	case "queued":
		if n < 2 {
			f.cancel(r)
			return
		}
		if n == 2 { // decision 0004
			f.add(r.Elsewhere(r.attempt, fmt.Sprint("procedural._.", f.rng.IntN(1000))))
			return
		}
		f.add(r.Claimed(r.attempt))
		r.state, r.wasClaimed, r.children = "claimed", true, nil
	case "claimed":
		switch {
		case n < 2:
			r.of.model = fmt.Sprint("model", f.rng.IntN(1000))
			f.add(r.Bound(r.attempt, r.of.model))
		case n == 3 && !r.wished:
			r.wished = true
			f.add(r.Stopping())
		case n < 8 && r.Spec.HasOutputSchema && !r.unverified:
			r.unverified = true
			f.add(r.actor.Offered(r.attempt))
		default:
			status := []run.Status{run.Completed, run.Failed, run.Failed, run.Stopped}[f.rng.IntN(4)]
			e := r.Ended(r.attempt, status, 0)
			switch {
			case status != run.Completed || !r.Spec.HasOutputSchema:
			case f.rng.IntN(3) > 0:
				e = r.Checked(r.attempt, signed(r.Spec.ID, r.attempt))
			default: // its worker's own, or with the mark of another attempt
				status = run.Failed
				if f.rng.IntN(2) == 0 {
					e = r.Checked(r.attempt, signed(r.Spec.ID, r.attempt+1))
				}
			}
			f.add(e)
			r.unverified, r.status = false, status
			if status == run.Failed && r.attempt < r.Spec.Attempts && !r.wished {
				r.state = "accepted"
				return
			}
			f.end(r)
		}
	}
}

// cancel ends what no runner has claimed, as a coordinator does.
func (f *scenario) cancel(r *turn) {
	if r.state == "claimed" {
		return
	}
	n := r.attempt
	if r.state == "accepted" {
		n++
	}
	c := run.Claim{V: 1, SessionID: r.of.id, Nonce: "n", Attempt: n, At: began}
	f.add(entry{Subject: subject.Claimed(r.Part, r.Spec.ID, r.Key(n)), Body: body(f.t, c)})
	e := run.Ended{V: 1, SessionID: r.of.id, Nonce: "n", Attempt: n, Status: run.Stopped, At: began.Add(time.Second)}
	f.add(entry{Subject: subject.Ended(r.Part, r.Spec.ID, r.Key(n)), Body: body(f.t, e)})
	r.status = run.Stopped
	f.end(r)
}

func (f *scenario) end(r *turn) {
	r.state, r.of.last = "ended", r
	r.mute = len(r.children) > 0       // a later turn answers
	for _, child := range r.children { // no runner claimed the turn that was to report them
		child.reported = false
		if !child.of.deleted && !r.of.deleted {
			r.of.pending = append(r.of.pending, child)
		}
	}
	r.children = nil
	if r.calls() && !r.parent.deleted {
		r.parent.pending = append(r.parent.pending, r)
	}
}

func (r *turn) calls() bool { return !r.mute && r.parent != nil && r.Spec.Mode == run.AsyncCallback }

// deliver is a callback turn: for some or all pending children.
func (f *scenario) deliver(m *member) {
	n := 1 + f.rng.IntN(len(m.pending))
	parent, mode := m.parent, m.mode
	r := f.new(m, parent, mode)
	c := run.Callback{V: 1, RunID: r.Spec.ID, At: began}
	older := f.rng.IntN(2) == 0 // programs of older versions write the turn before its list
	if !older {
		r.Spec.IsCallbackTurn = true
		c.RunID, c.TurnID, c.Next = m.turns[0].Spec.ID, r.Spec.ID, r.Accepted().Body
	}
	deliveries := m.pending[0].deliveries // decision 0014
	for _, child := range m.pending[:n] {
		child.reported, child.by = true, r
		child.deliveries++
		r.children = append(r.children, child)
		c.Children = append(c.Children, child.Spec.ID)
	}
	m.pending = slices.Clone(m.pending[n:])
	records := []entry{
		{Subject: subject.Callback(r.Part, m.id, r.children[0].Spec.ID, deliveries), Body: body(f.t, c)},
		r.Accepted(),
	}
	if older {
		slices.Reverse(records)
	}
	f.add(records...)
}

func (f *scenario) notify(m *member) {
	for _, r := range m.turns {
		if r.state != "ended" || r.webhook == "" || r.webhook == run.CallbackDelivered {
			continue
		}
		status := []string{run.NotifyDelivered, run.NotifyFailed, run.NotifyDead}[f.rng.IntN(3)]
		if r.webhook == run.CallbackDead {
			status = run.NotifyAgain
		}
		r.notified++
		n := run.Notified{
			V:         1,
			SessionID: m.id,
			N:         r.notified,
			Status:    status,
			HTTP:      500,
			Reason:    "it was not in the mood",
			At:        began,
		}
		switch status {
		case run.NotifyDelivered:
			r.webhook = run.CallbackDelivered
		case run.NotifyDead:
			r.webhook = run.CallbackDead
		case run.NotifyAgain:
			r.webhook = run.CallbackPending
		default:
			n.Next = &began
		}
		f.add(entry{Subject: subject.Notified(r.Part, r.Spec.ID, r.notified), Body: body(f.t, n)})
		return
	}
}

// delete takes a session away, or tries to.
func (f *scenario) delete(m *member) {
	reports := slices.ContainsFunc(m.turns, func(r *turn) bool {
		waits := r.reported && r.by.state != "ended" && !r.by.wasClaimed
		return r.state == "ended" && r.calls() && (!r.reported || waits) && !r.parent.deleted && r.parent.isResumable()
	})
	if len(m.open()) > 0 || reports {
		f.refused = append(f.refused, len(f.records))
		f.add(m.turns[0].Deleted())
		return
	}
	f.add(m.turns[0].Deleted())
	m.deleted = true
	for _, p := range f.sessions {
		p.pending = slices.DeleteFunc(p.pending, func(r *turn) bool { return r.of == m })
	}
}

// callbacks returns what must be seen of a run's callbacks at the end.
func (r *turn) callbacks() (parent, http string) {
	switch {
	case !r.calls():
	case r.reported:
		parent = run.CallbackDelivered
	case r.parent.deleted || !r.parent.isResumable():
		parent = run.CallbackUndeliverable
	case r.state != "ended":
		parent = run.CallbackWaiting
	default:
		parent = run.CallbackPending
	}
	http = r.webhook
	if r.state != "ended" && http != "" {
		http = run.CallbackWaiting
	}
	return parent, http
}

// check compares a reducer with what the scenario knows.
func (f *scenario) check(t *testing.T, state *State) {
	t.Helper()
	for _, m := range f.sessions {
		s := state.sessions[IdentOf(SessionPrefix, m.id)]
		if (s == nil) != m.deleted {
			t.Fatalf("session %s: there %t, deleted %t", m.id, s != nil, m.deleted)
		}
		if s == nil {
			continue
		}
		if s.Binding().Model != m.model {
			t.Fatalf("session %s: model %q, want %q", m.id, s.Binding().Model, m.model)
		}
		o, due := state.Callbacks.Of(s, time.Now())
		if want := len(m.open()) == 0 && len(m.pending) > 0 && m.isResumable(); due != want ||
			due &&
				(len(o.Children) != len(m.pending) || o.Deliveries != m.pending[0].deliveries ||
					o.Children[0].RunID != m.pending[0].Spec.ID) {
			t.Fatalf(
				"session %s: due %t with %d children, want %t with %d",
				m.id,
				due,
				len(o.Children),
				want,
				len(m.pending),
			)
		}
		for _, r := range m.turns {
			row := state.runs[IdentOf(RunPrefix, r.Spec.ID)]
			if row == nil || (row.live == nil) != (r.state == "ended") || row.ClaimedByRunner != r.wasClaimed {
				t.Fatalf("run %s is not %s claimed %t: %+v", r.Spec.ID, r.state, r.wasClaimed, row)
			}
			if row.live != nil && (row.live.snap.UnverifiedSeq != 0) != r.unverified {
				t.Fatalf("run %s: offered %t: %+v", r.Spec.ID, r.unverified, row.live.snap)
			}
			if row.live == nil && row.base() != r.status {
				t.Fatalf("run %s is %s, want %s", r.Spec.ID, row.base(), r.status)
			}
			c := CallsOf(state, row)
			var parent, http string
			if c.Parent != nil {
				parent = c.Parent.Status
			}
			if c.HTTP != nil {
				http = c.HTTP.Status
			}
			wantParent, wantHTTP := r.callbacks()
			if parent != wantParent || http != wantHTTP {
				t.Fatalf("run %s calls %q %q, want %q %q", r.Spec.ID, parent, http, wantParent, wantHTTP)
			}
		}
	}
}
