package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ao/coordinator/ledger"
	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// oracle knows what was promised, and checks it after every step.
type oracle struct {
	*world
	wrong []string
	calm  bool // the faults are over
	over  bool // so is everything else

	runs    map[string]*promise // accepted ones, by id
	order   []string            // their ids
	keys    map[string]acceptance
	starts  map[string]int       // executions, by attempt key
	hearing sync.Mutex           // heartbeats are answered at once
	beats   map[string]time.Time // when a coordinator last heard of an attempt, by coordinator and key
	damaged map[string]bool      // sessions that lost records
	results map[string]run.Status
	stored  map[string]string // the agent's type of each run that a record was written for
	made    map[string]string // when each run was made, as its records say; ambiguous: they differ
	first   map[string]string // the first run that a worker claimed, by session
	closed  map[string]bool   // runs with an end record, also a purged one
	erased  map[string]bool   // runs of deleted sessions
	ends    map[string]run.Status
	tries   map[string][]try         // of webhooks, by run
	seen    map[string]bool          // subjects that had a record
	halts   map[string]chan struct{} // closed when an attempt of the run ends, and then nil

	losses losses

	book     *ledger.Verifier
	read     uint64
	removals int
	compared int
	records  int          // written in all
	secret   *record.Keys // the deployment's
}

// promise is an accepted run.
type promise struct {
	acceptance
	asked request
	final map[string]bool // whether it had ended, by coordinator
}

func newOracle(w *world) *oracle {
	return &oracle{world: w, runs: map[string]*promise{}, keys: map[string]acceptance{}, starts: map[string]int{},
		beats: map[string]time.Time{}, damaged: map[string]bool{}, results: map[string]run.Status{},
		stored: map[string]string{}, made: map[string]string{},
		closed: map[string]bool{}, first: map[string]string{}, erased: map[string]bool{},
		ends: map[string]run.Status{}, tries: map[string][]try{},
		halts: map[string]chan struct{}{}, seen: map[string]bool{},
		losses: losses{claims: map[string]bool{}, again: map[string]bool{}, hidden: map[string]bool{}}}
}

// about returns the records of the run that a finding names first, and of its session.
func (o *oracle) about(finding string) (lines []string) {
	id := ids.FindString(finding)
	session := ""
	if p := o.runs[id]; p != nil {
		session = p.session
	}
	for _, m := range o.world.runs.msgs {
		if text := m.Subject + " " + string(m.Body); m.Subject != "" && id != "" && (strings.Contains(text, id) ||
			session != "" && strings.Contains(text, session)) {
			lines = append(lines, fmt.Sprintf("%d %s %.300s", m.Seq, m.Time.Sub(o.began), text))
		}
	}
	return lines
}

var ids = regexp.MustCompile(`run_[0-9a-f]{32}`)

func (o *oracle) found() bool { return len(o.wrong) > 0 }

func (o *oracle) fail(format string, args ...any) {
	if o.losses.beyond { // nothing is promised any more
		return
	}
	o.wrong = append(o.wrong, fmt.Sprintf("%s: ", time.Since(o.began).Truncate(time.Millisecond))+
		fmt.Sprintf(format, args...))
}

// accepted notes the answer that a caller got.
func (o *oracle) accepted(q request, key string, a acceptance) {
	if before, ok := o.keys[key]; ok && before != a {
		o.fail("request %s was answered with run %s, and repeated with run %s", key, before.run, a.run)
	}
	deleted := o.world.runs.bySubject[subject.Deleted(subject.Partition(a.session), a.session)] != 0
	// else nobody knows whether it was stored: a record of that time may be truncated
	log := o.world.runs
	kept := log.first == 1 || log.first <= log.last() && log.msgs[log.first].Time.Sub(o.began) < q.At
	known := !o.damaged[a.session] && !deleted && kept && time.Since(o.began)-q.At <= retentionTime
	if o.stored[a.run] == "" && known {
		o.fail("request %s was answered with run %s, which is in no record", key, a.run)
	}
	o.keys[key] = a
	o.answer(q.N, a)
	if o.runs[a.run] == nil {
		o.runs[a.run] = &promise{acceptance: a, asked: q, final: map[string]bool{}}
		o.order = append(o.order, a.run)
	}
}

// refused checks that nothing but the world's own doing refuses a request. A key ends with its run: the repeat of a
// request with a session id of its own may come after the session's deletion.
func (o *oracle) refused(q request, key string, err error) {
	if strings.HasSuffix(err.Error(), "was deleted; ids are not reused") {
		return
	}
	if q.What == "start" && len(o.damaged) == 0 {
		o.fail("request %s was refused: %v", key, err)
	}
}

// noteStart notes that an executor starts.
func (o *oracle) noteStart(a *attempt) {
	o.starts[a.Key]++
	if first := o.first[a.SessionID]; a.Type == run.Resume && first == a.ID && !o.damaged[a.SessionID] {
		o.fail("run %s was started, and its session has nothing to resume", a.ID)
	}
	twice := o.losses.claims[a.Key] && !o.losses.again[a.ID]
	if o.starts[a.Key] > 1 && (!o.damaged[a.SessionID] || twice) {
		o.fail("attempt %d of run %s was begun %d times", a.Attempt, a.ID, o.starts[a.Key])
	}
}

// heard notes that a coordinator answered a heartbeat.
func (o *oracle) heard(k *worker, b runnerapi.Heartbeat, c *coordinator, at time.Time) {
	o.hearing.Lock()
	defer o.hearing.Unlock()
	o.beats[c.name+" runner "+b.Instance], o.beats[c.name+" "+k.runner.ExecutorType] = at, at
	for _, a := range b.Attempts {
		o.beats[c.name+" "+a.Key] = at
	}
}

// abandoned checks that the reply to a worker's heartbeat is true.
func (o *oracle) abandoned(a *attempt) {
	if o.damaged[a.SessionID] || o.ended0(a.ID, a.Key) {
		return
	}
	claim, err := o.world.runs.get(o.world.runs.bySubject[subject.Claimed(subject.Partition(a.SessionID), a.ID, a.Key)])
	if err == nil && strings.Contains(string(claim.Body), `"`+a.worker.runner.Instance+`"`) {
		o.fail("the worker of attempt %d of run %s was told to abandon it, and it has not ended", a.Attempt, a.ID)
	}
}

func (o *oracle) ended0(id, key string) bool {
	p := o.runs[id]
	return p == nil || o.world.runs.bySubject[subject.Ended(subject.Partition(p.session), id, key)] != 0
}

// taken checks that a worker gets only records that exist.
func (o *oracle) taken(a *attempt, e entry) {
	if !o.seen[e.Subject] {
		o.fail("the worker of attempt %d of run %s was told that another record is there, and there is none: %s",
			a.Attempt, a.ID, e.Subject)
	}
}

// ended notes an end record whose commit its worker has seen.
func (o *oracle) ended(a *attempt, e entry) {
	end, _ := run.DecodeEnded(e.Body)
	if !a.HasOutputSchema || end.Result != nil && string(end.Result.Data) == `{"ok":true}` {
		o.results[a.ID+" "+a.Key] = end.Status
	}
}

// lost notes records that NATS lost: nobody can keep what was promised about their sessions.
func (o *oracle) lost(all []message) {
	for _, m := range all {
		o.damaged[sessionOf(m)] = true
		var next struct{ Children []string }
		_ = json.Unmarshal(m.Body, &next)
		for _, id := range next.Children {
			if p := o.runs[id]; p != nil {
				o.damaged[p.session] = true
			}
		}
	}
	for _, m := range o.world.runs.msgs { // what a stopped tree covers depends on which of its runs were open
		if parent := parentOf(m); parent != "" && o.damaged[parent] {
			o.damaged[sessionOf(m)] = true
		}
	}
	for _, p := range o.runs { // what was in memory only is not forgotten, but read anew
		clear(p.final)
	}
}

// parentOf returns the parent session that a run's first record names.
func parentOf(m message) string {
	var r struct {
		Parent string `json:"parent_session_id"`
	}
	_ = json.Unmarshal(m.Body, &r)
	return r.Parent
}

// sessionOf returns the session of a record.
func sessionOf(m message) string {
	rec, _ := subject.Parse(m.Subject)
	var r struct {
		SessionID string `json:"session_id"`
	}
	_ = json.Unmarshal(m.Body, &r)
	return cmp.Or(rec.Session, r.SessionID)
}

// late are promises with a time, which faults may delay.
var late = []string{"offer_overdue", "claimed_to_end", "callback_overdue"}

// check runs after every act.
func (o *oracle) check(string) {
	log := o.world.runs
	if o.read == log.last() && o.acted() <= 4*len(o.order) {
		return // what was purged is read without it once something follows
	}
	if o.book == nil || o.removals != log.removals || o.read > log.last() ||
		o.book.Key == nil && o.rules().Key != nil {
		o.book, o.read, o.removals = ledger.NewVerifier(), 0, log.removals
		o.book.Rules = o.rules()
	}
	if o.read < log.last() {
		for seq := max(o.read+1, log.first); seq <= log.last(); seq++ {
			if m, err := log.get(seq); err == nil {
				o.book.Add(m)
			}
		}
		o.read = log.last()
		o.audit(false)
	}
	if o.acted() > 4*len(o.order) {
		o.compared = int(o.loop.steps.Load())
		o.compare()
	}
}

// acted is how many acts there were since coordinators were compared.
func (o *oracle) acted() int { return int(o.loop.steps.Load()) - o.compared }

func (o *oracle) rules() ledger.Rules {
	for _, c := range o.coordinators {
		if c.started.Load() && o.secret == nil {
			o.secret = c.keys
		}
	}
	if o.secret == nil {
		return ledger.Rules{}
	}
	return ledger.Rules{Key: o.secret.Of, Checked: o.secret.ValidChecked}
}

// audit asks the ledger.
func (o *oracle) audit(final bool) {
	report := o.book.Close(time.Now().UTC(), o.read)
	for _, x := range report.Wrong {
		if !final && slices.Contains(late, x.Kind) || o.excused(x) {
			continue
		}
		o.fail("ledger: %s of run %s at record %d: %s", x.Kind, x.RunID, x.Sequence, x.Message)
	}
}

// excused reports whether lost or unreadable records explain what the ledger says.
func (o *oracle) excused(x ledger.Wrong) bool {
	if x.RunID == "" || x.Kind == "unreadable_record" ||
		(x.Kind == "unknown_run" || x.Kind == "callback_wrong") && o.erased[x.RunID] { // its session is deleted again
		return true
	}
	p := o.runs[x.RunID]
	return len(o.damaged) > 0 && (p == nil || o.damaged[p.session] || x.Kind == "callback_wrong" ||
		x.Kind == "callback_twice" || x.Kind == "callback_overdue" || x.Kind == "unknown_run" || x.Kind == "sum")
}

// compare checks that coordinators at the same record know the same, and that what has ended stays so.
func (o *oracle) compare() {
	if o.losses.beyond {
		return
	}
	views := map[uint64][]known{}
	for _, c := range o.coordinators {
		if !c.started.Load() || c.history.Ready() != nil || !c.history.Confirmed() || c.mark.Held() != nil {
			continue
		}
		seq, view := c.history.Seq(), o.view(c.history)
		if other, ok := views[seq]; ok {
			o.differ(c.name, view, other)
		}
		views[seq] = view
		for i, id := range o.order {
			p, now := o.runs[id], view[i]
			if p.final[c.name] && now.state == "open" && !o.damaged[p.session] {
				o.fail("run %s had ended for %s, and is now %v", id, c.name, now)
			}
			p.final[c.name] = now.state == "ended"
		}
	}
}

func (o *oracle) differ(name string, view, other []known) {
	for i, id := range o.order {
		session := o.runs[id].session
		if o.damaged[session] && (!o.over || o.losses.hidden[session]) { // they read the history anew
			continue
		}
		a, b := view[i], other[i]
		if a != b && a.state+b.state != "ended" { // each forgets truncated runs when it looks
			o.fail("run %s is %v for %s, and %v for another coordinator at the same record", id, a, name, b)
			return
		}
	}
}

// known is what a projection says about a run.
type known struct {
	state                                           string // open or ended; empty: there is none
	first, queued, claimed, offered, carried, treed uint64
	queue, key                                      string
	attempt                                         int
	stopping                                        bool
	notBefore                                       int64
}

// view is what a projection says about every accepted run.
func (o *oracle) view(h history) []known {
	view := make([]known, len(o.order))
	for i, id := range o.order {
		if a, ok := h.Active(id); ok {
			view[i] = known{"open", a.FirstSeq, a.QueuedSeq, a.ClaimSeq, a.UnverifiedSeq, a.CarriedEndSeq,
				a.TreeStop.Seq, a.Queue, a.Key, a.Attempt, a.Stopping, a.NotBefore.UnixNano()}
		} else if h.Ended(id) {
			view[i] = known{state: "ended"}
		}
	}
	return view
}

// final checks what must hold when the faults are over and everything has come to rest.
func (o *oracle) final() {
	o.over = true
	if o.losses.beyond {
		return
	}
	if !o.settled() && len(o.losses.hidden) == 0 { // what nobody knows to be lost is waited for
		o.stuck()
	}
	o.compare()
	o.audit(true)
	for _, c := range o.coordinators {
		o.damages(c)
	}
	done := false
	go func() {
		o.replay()
		_ = o.loop.call(context.Background(), &act{key: "final", do: func() time.Duration { done = true; return 0 }})
	}()
	o.loop.run(time.Now().Add(time.Minute), func() bool { return done })
	if !done {
		o.fail("reading the history anew did not end")
	}
}

// stuck says what did not come to rest.
func (o *oracle) stuck() {
	before := len(o.wrong)
	for _, c := range o.coordinators {
		if err := c.history.Ready(); err != nil || !c.started.Load() {
			o.fail("stuck: %s is not ready: %v", c.name, err)
			continue
		}
		if err := c.mark.Held(); err != nil {
			o.fail("stuck: nothing starts by %s: %v", c.name, err)
		}
		say := func(a state.Active) {
			if len(o.wrong) < before+3 {
				o.fail("stuck: run %s of session %s is %s for %s: attempt %d, queued %d, claimed %d, offered %d, "+
					"carried %d", a.Spec.ID, a.Spec.SessionID, a.Status, c.name, a.Attempt, a.QueuedSeq, a.ClaimSeq,
					a.UnverifiedSeq, a.CarriedEndSeq)
			}
		}
		for _, id := range o.order {
			if a, ok := c.history.Active(id); ok {
				say(a)
			}
		}
		for a := range c.history.Pending() {
			say(a)
		}
		for a := range c.history.Claimed() {
			say(a)
		}
		for _, due := range c.history.DueCallbacks() {
			o.fail("stuck: session %s is not called back", due.Session)
		}
		for _, id := range c.webhooksDue() {
			o.fail("stuck: the webhook of run %s is not delivered", id)
		}
		break
	}
	if o.calling > 0 {
		o.fail("stuck: %d callers have no answer", o.calling)
	}
	if len(o.wrong) == before {
		o.fail("stuck: the coordinators do not come to rest")
	}
}

// listens notes that a coordinator starts, or is connected again.
func (o *oracle) listens(name string) {
	o.hearing.Lock()
	defer o.hearing.Unlock()
	o.beats[name] = time.Now()
}

// removed checks that a coordinator removes a runner only if it hears nothing of it. Others may hear it.
func (o *oracle) removed(by string, r runnerapi.Runner) {
	for _, k := range o.workers {
		silent := min(time.Since(o.beats[by+" runner "+r.Instance]), time.Since(o.beats[by]))
		if k.runner.Instance == r.Instance && silent < removeAfter/2 {
			o.fail("runner %s was removed %s after a heartbeat, or a start", r.Instance, silent)
		}
	}
}
