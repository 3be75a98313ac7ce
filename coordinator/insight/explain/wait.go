package explain

import (
	"fmt"
	"slices"
	"time"

	"ao/coordinator/projection/state"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Obstacle is what a run waits for. Members that a reason has nothing to say about are left out.
type Obstacle struct {
	Reason string     `json:"reason"`          // one of the constants below
	Since  *time.Time `json:"since,omitempty"` // it has waited for that
	// when the wait ends by itself: the next attempt, the run's failure, the end of its time
	Until   *time.Time  `json:"until,omitempty"`
	RunID   string      `json:"run_id,omitempty"`     // which run comes first
	Ahead   *int        `json:"runs_ahead,omitempty"` // how many come first: in the session, or in the queue
	Queue   string      `json:"queue,omitempty"`
	Wants   *Wanted     `json:"wants,omitempty"` // of a runner
	Slots   *Slots      `json:"slots,omitempty"` // of the runners that match
	Runners []Candidate `json:"runners,omitempty"`
	More    int         `json:"more_runners,omitempty"` // registered, and not in the list
	Runner  string      `json:"runner_id,omitempty"`    // who has it
	Heard   *time.Time  `json:"last_heard,omitempty"`   // when its runner named it last
	Lease   *time.Time  `json:"lease_ends,omitempty"`   // when it is given up if its runner stays silent
	Message string      `json:"message,omitempty"`
}

// Wanted is what a run wants of a runner.
type Wanted struct {
	run.Demands
	Agents []string `json:"agents,omitempty"` // a runner must have announced exactly these definitions
}

// Slots are those of some runners.
type Slots struct {
	All   int `json:"all"`
	Taken int `json:"taken"`
}

// The reasons why a run waits, in the order in which they are looked for.
const (
	waitsForCoordinator = "coordinator_not_ready" // this one reads history, or NATS is away
	waitsForTurn        = "session_turn"          // another run of its session comes first
	waitsForRetry       = "retry_pause"           // its attempt failed, the next one follows
	waitsForHost        = "session_host_gone"     // the model side of its session is on a host that has no runner
	waitsForMatch       = "no_matching_runner"    // no online runner has what it wants
	waitsForQueues      = "too_many_queues"       // AO_MAX_QUEUES
	waitsForQueue       = "queueing"              // a coordinator queues it in a moment
	waitsForSlot        = "no_free_slot"          // the runners that match are full
	waitsForClaim       = "being_taken"           // one of them has a free slot
	waitsForRunner      = "runner"                // a runner has it
	waitsForCheck       = "result_check"          // a coordinator checks what its runner has offered
	waitsForStop        = "stopping"              // its runner ends it
)

// obstacle returns what a run that has not ended waits for, and a sentence about it; inside: for an executor's session.
func (x *Explainer) obstacle(r run.Run, a state.Active, inside bool) (o *Obstacle, sentence string) {
	if inside {
		defer func() { o.Runners, o.More = nil, 0 }()
	}
	now := time.Now()
	if err := x.Ready(); err != nil {
		say := fault.Of(err).Message
		return &Obstacle{Reason: waitsForCoordinator, Message: say},
			fmt.Sprintf("It is %s. This coordinator is not ready: %s.", r.Status, say)
	}
	if a.Claim != nil {
		return x.underway(r, a, now)
	}
	if a.Stopping {
		return &Obstacle{Reason: waitsForStop}, "It is being stopped: no other attempt follows."
	}
	open := x.History.Open(r.SessionID)
	if i := slices.IndexFunc(open, func(o state.Active) bool { return o.Spec.ID == r.ID }); i > 0 &&
		a.QueuedSeq == 0 {
		first := open[0]
		return &Obstacle{Reason: waitsForTurn, RunID: first.Spec.ID, Ahead: &i, Since: &r.CreatedAt},
			fmt.Sprintf("It waits for its turn in the session: %s ahead of it, first %s (%s).", are(i, "run"),
				first.Spec.ID, first.Status)
	}
	if a.NotBefore.After(now) {
		until := a.NotBefore.UTC()
		return &Obstacle{Reason: waitsForRetry, Until: &until},
			fmt.Sprintf("Attempt %d of %d failed. The next one is queued in %s.", a.Attempt, a.Spec.Attempts,
				span(until.Sub(now)))
	}
	w := x.Waits.Want(a)
	if !x.Runners.Matches(w) {
		return x.unmatched(r, a, w, now, inside)
	}
	return x.waiting(r, a, w, now)
}

// underway explains a run that a runner has.
func (x *Explainer) underway(r run.Run, a state.Active, now time.Time) (*Obstacle, string) {
	o := &Obstacle{Reason: waitsForRunner, Runner: a.Claim.RunnerID, Since: r.ClaimedAt, Until: r.TimeoutAt}
	if heard, lease, ok := x.Heard.Of(a.Key); ok {
		o.Heard, o.Lease = &heard, &lease
	}
	began := a.Claim.At
	switch {
	case a.UnverifiedSeq != 0:
		o.Reason, o.Until, o.Heard, o.Lease = waitsForCheck, nil, nil, nil
		return o, fmt.Sprintf("Runner %s has sent a result. A coordinator is checking it against the output schema.",
			o.Runner)
	case a.Claim.RunnerID == "":
		return &Obstacle{Reason: waitsForStop}, "A coordinator is ending it. No runner has claimed it."
	case a.Stopping:
		o.Reason = waitsForStop
		return o, fmt.Sprintf("A stop was requested. Runner %s has been asked to end it.", o.Runner) + heardOf(o, now)
	case a.Started != nil:
		began = *a.Started
		return o, fmt.Sprintf("It has been running on runner %s for %s.", o.Runner, span(now.Sub(began))) +
			heardOf(o, now) + limit(r, now)
	}
	return o, fmt.Sprintf("Runner %s claimed it %s ago. It has not reported yet that its executor runs.", o.Runner,
		span(now.Sub(began))) + heardOf(o, now)
}

// heardOf returns a sentence about a runner that is silent for longer than it should be.
func heardOf(o *Obstacle, now time.Time) string {
	if o.Heard == nil {
		return ""
	}
	silent, lease := now.Sub(*o.Heard), o.Lease.Sub(*o.Heard)
	if silent < lease/2 {
		return ""
	}
	return fmt.Sprintf(" The runner last confirmed it %s ago. After %s without a heartbeat the attempt fails.",
		span(silent), span(lease))
}

func limit(r run.Run, now time.Time) string {
	if r.TimeoutAt == nil {
		return ""
	}
	return fmt.Sprintf(" It times out in %s.", span(r.TimeoutAt.Sub(now)))
}

// unmatched explains a run that no online runner could take.
func (x *Explainer) unmatched(r run.Run, a state.Active, w runnerapi.RoutingKey, now time.Time, inside bool) (
	*Obstacle, string) {
	all := x.look(w, "")
	o := &Obstacle{Reason: waitsForMatch, Wants: WantedOf(w), Runners: all.all, More: all.more}
	say, advice := fmt.Sprintf("It waits for a runner that matches %s: ", describe(w)), ""
	if home := x.History.Affinity(r.SessionID); a.Spec.Type == run.Resume && home.Hostname != "" &&
		!slices.ContainsFunc(all.all, func(one Candidate) bool {
			return slices.Contains([]string{runnerapi.Online, runnerapi.StatusUnable}, one.Status) &&
				one.Hostname == home.Hostname && one.ExecutorProfile == home.ExecutorProfile
		}) {
		o.Reason = waitsForHost
		say = fmt.Sprintf("It waits for host %q, where its session is stored (profile %s): ", home.Hostname,
			home.ExecutorProfile)
		advice = " Start a worker there, or start a new session."
	}
	switch {
	case all.registered == 0:
		say += "no runner is registered"
	case all.online == 0:
		say += fmt.Sprintf("none of %s takes runs", count(all.registered, "registered runner"))
	default:
		say += fmt.Sprintf("none of %s matches", count(all.online, "online runner"))
	}
	if len(all.all) > 0 && len(all.all[0].Mismatches) > 0 && !inside {
		say += fmt.Sprintf(" (closest: %s, %s)", all.all[0].ID, differs(all.all[0].Mismatches))
	}
	say += x.parted(a.Spec) + x.otherDefinition(a.Spec)
	if since, ok := x.Waits.UnmatchedSince(r.ID, w.TaskQueue()); ok {
		until := since.Add(x.NoMatch).UTC()
		since = since.UTC()
		o.Since, o.Until = &since, &until
		say += fmt.Sprintf(". It fails in %s unless one comes online", span(until.Sub(now)))
	}
	return o, say + "." + advice
}

// waiting explains a run that some online runner could take.
func (x *Explainer) waiting(r run.Run, a state.Active, w runnerapi.RoutingKey, now time.Time) (*Obstacle, string) {
	if a.QueuedSeq == 0 {
		o := &Obstacle{Reason: waitsForQueue, Queue: w.TaskQueue(), Wants: WantedOf(w)}
		if !x.Queues.HasRoom(w, a.Spec.Caller) {
			o.Reason = waitsForQueues
			return o, fmt.Sprintf("It waits for a free queue: its caller has used its share of the %d queues "+
				"(AO_MAX_QUEUES). A caller may use as many as are free.", x.Most)
		}
		return o, "It is next. A coordinator is about to queue it."
	}
	all := x.look(w, "")
	all.all = slices.DeleteFunc(all.all, func(one Candidate) bool { return len(one.Mismatches) > 0 })
	o := &Obstacle{Reason: waitsForSlot, Queue: a.Queue, Wants: WantedOf(w), Slots: &Slots{all.slots, all.taken},
		Runners: all.all, More: max(0, all.matching-len(all.all))}
	say := ""
	if n, since, ok := x.History.Ahead(r.ID); ok {
		o.Ahead, o.Since = &n, &since
		say = fmt.Sprintf("; %s ahead of it in queue %s, where it has waited %s", are(n, "run"), a.Queue,
			span(now.Sub(since)))
	}
	full := fmt.Sprintf("%d of %d slots of %s are in use", all.taken, all.slots, count(all.matching, "matching runner"))
	if all.taken < all.slots {
		o.Reason = waitsForClaim
		return o, "It waits to be claimed: " + full + say + "."
	}
	return o, "It waits for a free slot: " + full + say + "."
}

// WantedOf returns what a routing key asks for, with the names of agents instead of their hashes.
func WantedOf(w runnerapi.RoutingKey) *Wanted {
	return &Wanted{run.Demands{ExecutorType: w.Type, ExecutorProfile: w.Profile, Hostname: w.Hostname,
		ProjectDir: w.ProjectDir, Tags: w.Tags}, runnerapi.Names(w.Agents)}
}

// differs summarizes in what a runner is not what is wanted.
func differs(all []Mismatch) string {
	say := all[0].Message
	if n := len(all) - 1; n > 0 {
		say += fmt.Sprintf(", and %d more", n)
	}
	return say
}

// WaitingFor returns why a run waits; empty: it does not.
func (x *Explainer) WaitingFor(r run.Run) string {
	if r.Status != run.Pending {
		return ""
	}
	a, ok := x.History.Active(r.ID)
	if !ok {
		return ""
	}
	if open := x.History.Open(r.SessionID); len(open) > 0 && open[0].Spec.ID != r.ID {
		return fmt.Sprintf("its turn: run %s of the session comes first", open[0].Spec.ID)
	}
	if a.NotBefore.After(time.Now()) {
		return fmt.Sprintf("its next attempt: number %d is queued at %s", a.AttemptNumber(),
			a.NotBefore.UTC().Format(time.RFC3339))
	}
	if w := x.Waits.Want(a); !x.Runners.Matches(w) {
		why := x.parted(a.Spec)
		if home := x.History.Affinity(a.Spec.SessionID); home.Hostname != "" && a.Spec.Type == run.Resume {
			why = fmt.Sprintf(" (its session is stored only on host %q: start a worker there, or start a new session)",
				home.Hostname)
		}
		return fmt.Sprintf("a runner: none online matches %s%s", describe(w), why)
	}
	return "a free slot of a matching runner"
}

// parted says of a run that waits for its agent's runners that they have all left; nothing where they have not.
func (x *Explainer) parted(s *run.Spec) string {
	if s.Owner == "" {
		return ""
	}
	left, until, ok := x.Parting(s.Agent)
	if !ok {
		return ""
	}
	now := time.Now()
	return fmt.Sprintf(" (the last runner of agent %q left %s ago; new runs of it are accepted for another %s)",
		s.Agent, span(now.Sub(left)), span(until.Sub(now)))
}

// otherDefinition explains that online runners of the profile have another definition of the agent than the one that
// the run waits for. It returns nothing if they have not.
func (x *Explainer) otherDefinition(s *run.Spec) string {
	if s.Owner == "" || !slices.ContainsFunc(x.Members(), func(m runnerapi.Member) bool {
		has := m.AgentHashes[s.Agent]
		return m.Status == runnerapi.Online && m.ExecutorProfile == s.Demands.ExecutorProfile && has != "" &&
			!m.Serves(s.Agent, s.Owner)
	}) {
		return ""
	}
	return fmt.Sprintf(" (online runners have another definition of agent %q than the one it was checked against)",
		s.Agent)
}

func describe(w runnerapi.RoutingKey) string {
	s := "type=" + w.Type
	for _, p := range []struct{ name, v string }{{"profile", w.Profile}, {"hostname", w.Hostname},
		{"project_dir", w.ProjectDir}} {
		if p.v != "" {
			s += " " + p.name + "=" + p.v
		}
	}
	if len(w.Tags) > 0 {
		s += fmt.Sprintf(" tags=%v", w.Tags)
	}
	return s
}

// count returns a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// are is count with its verb.
func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return count(n, thing) + " are"
}
