package simulation

import (
	"cmp"
	"encoding/json"
	"time"

	"ao/coordinator/control/dispatch"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// written notes what is written, and checks what coordinators write.
func (o *oracle) written(c *client, entries []entry) {
	o.records += len(entries)
	for _, e := range entries {
		o.seen[e.Subject] = true
		rec, err := subject.Parse(e.Subject)
		if err != nil {
			continue
		}
		switch rec.Kind {
		case subject.AcceptedKind, subject.QueuedKind, subject.SessionKind:
			o.begins(rec, e)
			o.again(c, rec)
		case subject.ClaimedKind:
			var claim run.Claim
			if json.Unmarshal(e.Body, &claim) == nil && claim.RunnerID != "" {
				o.first[claim.SessionID] = cmp.Or(o.first[claim.SessionID], rec.Run)
				if o.erased[rec.Run] {
					o.damaged[claim.SessionID] = true
				}
			}
		case subject.StoppingKind:
			o.halted(c, rec.Run)
		case subject.DeletedKind:
			o.deletes(rec.Session)
		case subject.EndedKind:
			o.closed[rec.Run] = true
			if halt := o.halts[rec.Run]; halt != nil {
				o.halts[rec.Run] = nil
				o.loop.later(func() { close(halt) })
			}
			end, err := run.DecodeEnded(e.Body)
			if err == nil && o.rules().Key(rec.Run, end.Attempt) == rec.Key {
				o.ends[rec.Run] = end.Status
			}
			if err == nil && end.RunnerID == "" && !o.damaged[end.SessionID] {
				o.judges(c, rec, end)
			}
		}
	}
}

// ambiguous is a time that differs in two records.
const ambiguous = "ambiguous"

// begins notes a run's first record. Such a record or a claim may be on its way while its session is deleted, and then
// starts the run again. Only the records that the deletion removed showed what happens once. Nobody promises anything
// about such a session.
func (o *oracle) begins(rec subject.Record, e entry) {
	var id, session, kind, made string
	_ = strictjson.Scan(e.Body, func(name, v []byte) {
		switch string(name) {
		case "run_id":
			id = strictjson.String(v)
		case "session_id":
			session = strictjson.String(v)
		case "agent_type":
			kind = strictjson.String(v)
		case "created_at":
			made = strictjson.String(v)
		}
	})
	o.stored[id] = cmp.Or(kind, o.stored[id], "unknown")
	if before := o.made[id]; before != "" && made != "" && made != before {
		made = ambiguous
	}
	o.made[id] = cmp.Or(made, o.made[id])
	truncated := rec.N <= 1 && o.closed[id] && o.world.runs.first > 1 // nobody keeps so little outside of here
	if p := o.runs[id]; (truncated || o.erased[id]) && p != nil {
		o.damaged[p.session] = true
	}
	if truncated || o.erased[id] {
		o.damaged[session] = true
	}
}

// again checks that a run that is to be stopped gets no other attempt, unless its coordinator was away meanwhile.
func (o *oracle) again(c *client, rec subject.Record) {
	if time.Since(c.since) < leaseTime {
		return
	}
	stop, err := o.world.runs.get(o.world.runs.bySubject[subject.Stopping(rec.Partition, rec.Run)])
	if err == nil && rec.Kind == subject.QueuedKind && rec.N > 1 && o.steady() && time.Since(stop.Time) > time.Second {
		o.fail("attempt %d of run %s was queued %s after the run was to be stopped", rec.N, rec.Run,
			time.Since(stop.Time))
	}
}

// deletes notes the runs of a session that is deleted.
func (o *oracle) deletes(session string) {
	for id, p := range o.runs {
		if p.session == session && o.closed[id] {
			o.erased[id] = true
		}
	}
	for _, m := range o.world.runs.msgs {
		if rec, err := subject.Parse(m.Subject); err == nil && rec.Kind == subject.AcceptedKind &&
			rec.Session == session && o.closed[rec.Run] {
			o.erased[rec.Run] = true
		}
	}
}

// judges checks the end record of a coordinator.
func (o *oracle) judges(c *client, rec subject.Record, end run.Ended) {
	if end.Status == run.Completed && !o.rules().Checked(rec.Run, end.Attempt, end.Checked) {
		o.fail("%s completed run %s, and has not signed that it checked the result", c.name, rec.Run)
	}
	if end.Error == nil || o.active[slow] > 0 || time.Since(o.slowUntil) < leaseTime { // decided long before
		return
	}
	switch end.Error.Code {
	case run.CodeDisconnected:
		if d := end.At.Sub(o.beats[c.name+" "+rec.Key]); d >= 0 && d < leaseTime*2/3 {
			o.fail("%s failed run %s as disconnected, whose heartbeat it heard %s before", c.name, rec.Run, d)
		}
		if d := end.At.Sub(c.since); d >= 0 && d < leaseTime*9/10 {
			o.fail("%s failed run %s as disconnected, and has listened for %s only", c.name, rec.Run, d)
		}
		if k := o.executing(rec.Key); k != nil && time.Since(k.since) > leaseTime && o.steady() {
			o.fail("%s failed run %s as disconnected, and %s would have answered", c.name, rec.Run, k.runner.Instance)
		}
	case dispatch.CodeUnmatched:
		if d := end.At.Sub(o.beats[c.name+" "+o.stored[rec.Run]]); d >= 0 && d < noMatch*7/8 {
			o.fail("%s failed run %s for want of a runner, and heard one %s before", c.name, rec.Run, d)
		}
	}
}

// executing returns the worker that executes an attempt and can be reached; nil: there is none.
func (o *oracle) executing(key string) *worker {
	for _, k := range o.workers {
		if a := k.attempts[key]; a != nil && a.claimed && !a.killed && k.running() {
			return k
		}
	}
	return nil
}

// steady reports whether no fault delays or loses requests, or did of late.
func (o *oracle) steady() bool {
	for what, n := range o.active {
		if n > 0 && what != deafness {
			return false
		}
	}
	return time.Since(o.steadySince) > leaseTime
}
