package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/audit"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// roster is who may take runs: the registered runners, and when each was heard last.
type roster struct {
	c    *Coordinator
	read atomic.Bool

	changes atomic.Uint64 // how often a registration has

	mu      sync.RWMutex
	members map[string]*member
	matched map[string]bool  // by lane: does an online runner match; forgotten when a runner changes, and after a second
	owned   map[string]known // runner-owned agents by name; likewise
	forgot  time.Time        // when both were forgotten last
	looked  time.Time        // the last look for silence
	since   time.Time        // listening without interruption
	began   time.Time
	left    map[[2]string]time.Time // by host and profile: when a runner left
	gone    map[string]time.Time    // by the names of its agents: likewise
}

type member struct {
	fleet.Runner
	id    string
	heard time.Time
	own   string // the queue of its agents; empty: it has none
	size  int    // of its registration, in bytes

	left  time.Time // when it left, by this process; zero: it did not
	going bool      // it said in a beat that it takes no more

	unnamed bool          // its last heartbeat came from a NATS that does not say with whose credential
	ahead   time.Duration // by how much its clock is before ours: the least that its beats said of late
	ticked  time.Time     // when that was said; zero: it never was
}

func newRoster(c *Coordinator) *roster {
	return &roster{c: c, members: map[string]*member{}, matched: map[string]bool{}, left: map[[2]string]time.Time{}, gone: map[string]time.Time{}, began: time.Now()}
}

// owners is the key in bucket `runners` that all registrations compare and set.
const ownersKey = "_owners"

// watch reads the bucket and follows it.
func (r *roster) watch(ctx context.Context) error {
	return watch(ctx, r.c.bus.Bucket(subject.Runners), r.c.insist, r.put, func() { r.read.Store(true) })
}

func (r *roster) put(id string, value []byte) {
	if !fleet.IsID(id) { // the table of owners
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.forget()
	if value == nil {
		if m := r.members[id]; m != nil && m.LeftAt.IsZero() {
			r.leaves(m)
		}
		delete(r.members, id)
		return
	}
	m := member{id: id, heard: time.Now()} // who we hear of for the first time gets its full patience
	if err := json.Unmarshal(value, &m.Runner); err != nil {
		r.c.log.Error("stored runner is unreadable", "runner", id, "err", err)
		return
	}
	m.size = len(value)
	if w, ok := m.OwnWant(); ok {
		m.own = w.Lane()
	}
	old, ok := r.members[id]
	if ok && old.Instance == m.Instance {
		m.heard, m.ahead, m.ticked, m.unnamed, m.going = old.heard, old.ahead, old.ticked, old.unnamed, old.going
	}
	m.leaveSince(old)
	r.members[id] = &m
	r.changes.Add(1)
	r.c.scheduler.Wake(registered)
}

// refresh reads a runner's registration anew: another coordinator may have changed it a moment ago. It gives its revision, 0 where there
// is none.
func (r *roster) refresh(ctx context.Context, id string) (rev uint64, err error) {
	value, rev, err := r.c.bus.Bucket(subject.Runners).Get(ctx, id)
	if err != nil && !errors.Is(err, bus.ErrNone) {
		return 0, err
	}
	r.put(id, value)
	return rev, nil
}

// write stores a registration in place of the one that was read with this revision, 0 for none. ErrTaken: it has changed meanwhile.
func (r *roster) write(ctx context.Context, id string, value []byte, rev uint64) error {
	b := r.c.bus.Bucket(subject.Runners)
	var err error
	if rev == 0 {
		_, err = b.Create(ctx, id, value)
	} else {
		_, err = b.Update(ctx, id, value, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return fault.Wrap(fault.Unavailable, "", "The runner registers just now; try again", err)
	} else if err != nil {
		return unavailable(err)
	}
	r.put(id, value)
	return nil
}

// forget drops what is made from members. The caller holds mu.
func (r *roster) forget() {
	clear(r.matched)
	r.owned, r.forgot = nil, time.Now()
}

// remembered is how long it counts what was made of members: who is silent is online no more without anybody's doing.
const remembered = time.Second

func stale(forgot time.Time) bool { return time.Since(forgot) >= remembered }

func (r *roster) status(m *member) string {
	if !m.LeftAt.IsZero() {
		if time.Since(m.heard) < r.c.Lease {
			return fleet.Draining
		}
		return fleet.Left
	}
	s := r.c.Patience.Status(time.Since(m.heard))
	if s == fleet.Online && (m.Draining || m.going) {
		return fleet.Draining
	}
	return s
}

// matches tells whether an online runner would take runs that want w.
func (r *roster) matches(w fleet.Want) bool { return r.laneMatches(w.Lane(), w) }

func (r *roster) laneMatches(lane string, w fleet.Want) bool {
	r.mu.RLock()
	ok, known := r.matched[lane]
	known = known && !stale(r.forgot)
	r.mu.RUnlock()
	if known {
		return ok
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stale(r.forgot) {
		r.forget()
	}
	ok = false
	for _, m := range r.members {
		if r.status(m) == fleet.Online && m.Satisfies(w) {
			ok = true
			break
		}
	}
	r.matched[lane] = ok
	return ok
}

// agent is a runner-owned agent. The longest registered online runner speaks for it, and for what its set is; where none is online, the
// one that came last.
func (r *roster) agent(name string) (known, bool) {
	k, ok := r.announced()[name]
	return k, ok
}

// announced is all of them. Nobody changes the table: where anything moved another one is made.
func (r *roster) announced() map[string]known {
	r.mu.RLock()
	owned := r.owned
	if stale(r.forgot) {
		owned = nil
	}
	r.mu.RUnlock()
	if owned == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if stale(r.forgot) {
			r.forget()
		}
		owned = r.ownedNow()
		r.owned = owned
	}
	return owned
}

func (r *roster) ownedNow() map[string]known {
	owned := map[string]known{}
	all := r.listed(nil)
	byAge(all)
	for i := range all {
		m := &all[i]
		if m.over() {
			continue
		}
		for _, a := range m.Agents {
			if _, ok := owned[a.Name]; ok {
				continue
			}
			a.RunnerID = m.ID
			k := known{Blueprint: a, owners: m.Set, profile: m.ExecutorProfile, profileTimeout: m.TimeoutSeconds, online: m.Status == fleet.Online}
			k.raw, _ = k.snapshot() // it was read from JSON
			k.lane = k.want(k.demands(run.Demands{})).Lane()
			owned[a.Name] = k
		}
	}
	return owned
}

func (r *roster) agents() map[string]agent.Blueprint {
	members := r.list(nil)
	all := map[string]agent.Blueprint{}
	for name, k := range r.announced() {
		all[name] = k.shown(serving(members, name, k.ownerHash()))
	}
	return all
}

// tick notes what a runner's clock showed when it sent a beat. Beats come late and never early, so the least difference counts.
func (r *roster) tick(id string, at time.Time) {
	if at.IsZero() {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[id]
	if m == nil {
		return
	}
	if ahead := at.Sub(now.Round(0)); m.ticked.IsZero() || ahead.Abs() <= m.ahead.Abs() || now.Sub(m.ticked) > time.Minute {
		m.ahead, m.ticked = ahead, now
	}
}

// deaf is how long nobody may have listened before silence proves nothing any more.
const deaf = 5 * time.Second

// silence drops runners that were silent for too long while somebody listened, and what is held of those that left and is over. It is
// called once a second.
func (r *roster) silence(ctx context.Context) error {
	gone := map[string]string{}
	now := time.Now()
	r.mu.Lock()
	if now.Sub(r.looked) > deaf || !r.c.bus.Connected() {
		r.since = now
	}
	r.looked = now
	for id, m := range r.members {
		if r.status(m) == fleet.Removed && now.Sub(r.since) >= r.c.Patience.Remove {
			gone[id] = m.Instance
		}
	}
	ended, over := r.parted(now.Sub(r.since))
	r.mu.Unlock()
	r.part(ctx, ended, over)
	for id, instance := range gone {
		r.c.log.Warn("runner removed: no heartbeat", "runner", id, "after", r.c.Patience.Remove)
		if err := r.remove(ctx, id, is(instance)); err != nil {
			r.c.log.Warn("runner could not be removed; trying again", "runner", id, "err", err)
			continue
		}
		r.c.Audit.Note(audit.Entry{Door: audit.Clock, Actor: &audit.Actor{Kind: audit.Coordinator}, Action: audit.Removed, Targets: audit.Targets{Runner: id}})
		for _, a := range r.c.leases.of(id) { // where a lease is longer than that
			if a.Claim.Instance == instance {
				go r.c.leases.outright(ctx, a, "no heartbeat until its runner was removed")
			}
		}
	}
	return nil
}

// RunnerView is a runner as readers see it.
type RunnerView struct {
	ID string `json:"runner_id"`
	fleet.Identity
	Tags                []string  `json:"tags"`
	RequireMatchingTags bool      `json:"require_matching_tags"`
	MaxConcurrentRuns   int       `json:"max_concurrent_runs"`
	Agents              []string  `json:"agents"`
	Status              string    `json:"status"`
	Running             int       `json:"running"`
	RegisteredAt        time.Time `json:"registered_at"`
	LastHeartbeat       time.Time `json:"last_heartbeat"`
}

// Runners lists the registered runners that are there, or may come back by themselves.
func (c *Coordinator) Runners() []RunnerView {
	running, all := c.leases.count(), c.fleet.list(nil)
	list := make([]RunnerView, 0, len(all))
	for _, m := range all {
		if m.Status == fleet.Left {
			continue
		}
		tags := m.Tags
		if tags == nil {
			tags = []string{}
		}
		list = append(list, RunnerView{m.ID, m.Identity, tags, m.RequireMatchingTags, m.MaxConcurrentRuns, fleet.Names(m.Set),
			m.Status, running[m.ID], m.RegisteredAt, m.Heard.UTC()})
	}
	return list
}
