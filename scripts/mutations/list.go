package main

// mutation is one broken line.
type mutation struct {
	file     string // of the product
	does     string
	old, new string // old is there once
}

const (
	fold      = "coordinator/projection/"
	control   = "coordinator/control/"
	recording = "coordinator/record/"
)

// mutations breaks each invariant and each controller.
var mutations = []mutation{
	// An attempt is claimed at most once; what an answer means is settled by reading back.
	{"nats/stream/verify.go", "another's claim is taken for one's own",
		"	case isOwn(m.Body):\n", "	case true:\n"},
	{"nats/stream/verify.go", "a claim without an answer counts as written",
		"	if !errors.Is(err, ErrTaken) && fault.KindOf(err) != fault.Unavailable {\n		return 0, err\n	}",
		"	if !errors.Is(err, ErrTaken) {\n		return 0, nil\n	}"},
	{"nats/stream/verify.go", "another record's premature refusal is final",
		"	if !v.Clustered() {\n		return ErrTaken\n	}\n	_, err",
		"	if true {\n		return ErrTaken\n	}\n	_, err"},
	{"nats/stream/verify.go", "a claim's premature refusal is final",
		"errors.Is(back, ErrNotFound) && (!taken || v.Clustered()):", "errors.Is(back, ErrNotFound) && !taken:"},
	{recording + "keys.go", "all attempts share a key", "return k.sum(\"\", run, attempt) }",
		"return k.sum(\"\", run, 1) }"},

	// The stream is the only truth.
	{"nats/stream/continuation.go", "a lost end is not noticed", "	return ErrHistoryReplaced\n", "	return nil\n"},
	{"nats/stream/tail.go", "replaced records are not noticed",
		"now != want {", "now.Seq != want.Seq {"},
	{fold + "reducer.go", "the reducer reads the clock", "a.NotBefore = m.Time.Add(", "a.NotBefore = time.Now().Add("},
	{fold + "reducer.go", "an end frees no place in its session",
		"	if r.live.snap.open() {\n		s.open--\n	}\n", ""},
	{fold + "reducer.go", "a failed attempt has no next one", "	if a := r.live.snap; move == run.MoveFailed &&",
		"	if a := r.live.snap; false && move == run.MoveFailed &&"},
	{fold + "row.go", "a session's turns do not wait",
		"	if s.open > 0 || len(s.live) == 0 {\n		return nil\n	}\n	return s.live[0]\n",
		"	for _, r := range s.live {\n		if !r.live.snap.open() {\n			return r\n		}\n	}\n" +
			"	return nil\n"},
	{fold + "row.go", "the last turn comes first",
		"len(s.live) == 0 {\n		return nil\n	}\n	return s.live[0]\n",
		"len(s.live) == 0 {\n		return nil\n	}\n	return s.live[len(s.live)-1]\n"},
	{fold + "keyed.go", "any key ends a run", "	case a.Key != \"\" && a.Key == rec.Key:", "	case a.Key != \"\":"},
	{fold + "forget.go", "a deletion ignores open runs",
		"	if s != nil && (len(s.live) > 0 || f.callbacks.hasPending(s)",
		"	if s != nil && (f.callbacks.hasPending(s)"},
	{fold + "follow.go", "a deletion read late is ignored", "	if ch.Kind != subject.DeletedKind || ch.Applied {",
		"	if ch.Kind != subject.DeletedKind || true {"},
	{fold + "worklist.go", "history is cut in open runs",
		"			case r.live != nil,\n", "			case false,\n"},

	// Accepted is never lost, and every effect may be repeated.
	{"coordinator/runs/idempotency.go", "a repeated key makes another run",
		"i.keys.Create(ctx, at, raw); errors.Is(err, bus.ErrTaken)",
		"i.keys.Create(ctx, at+first.Run, raw); errors.Is(err, bus.ErrTaken)"},
	{recording + "waiting.go", "a waiting run is ended without a claim",
		"	seq, err := e.Records.AppendBatch(ctx, all...)", "	seq, err := e.Records.AppendBatch(ctx, all[1:]...)"},
	{recording + "writer.go", "callbacks are not named after their children",
		"subject.Partition(o.Session), o.Session, o.Children[0].RunID, o.Deliveries)",
		"subject.Partition(o.Session), o.Session, run.NewID(), o.Deliveries)"},
	{recording + "writer.go", "a write without an answer counts as written",
		"	return bus.WriteUnanswered(err)\n}\n\n// AppendBatch writes",
		"	return nil\n}\n\n// AppendBatch writes"},
	{recording + "endwriter.go", "a stopped attempt is failed", "	if a.Stopping {\n		status = run.Stopped",
		"	if a.Stopping {\n		status = run.Completed"},
	{recording + "barrier.go", "nobody waits for what was written before",
		"		err = r.history.Await(wait, s.Last)",
		"		_ = s.Last"},

	// The controllers.
	{control + "control.go", "signals are lost, and nothing is called by time",
		"		case <-timer.C:\n		}\n		timer.Reset",
		"		}\n		timer.Reset"},
	{control + "dispatch/dispatch.go", "waiting runs are never looked at again", "	if all {\n",
		"	if all && false {\n"},
	{control + "dispatch/dispatch.go", "every attempt is queued as the first", "spec, a.AttemptNumber())", "spec, 1)"},
	{control + "dispatch/dispatch.go", "runs fail at once without a runner",
		"if now.Sub(since) >= c.NoMatch && now.Sub(w.since) >= c.NoMatch {", "if now.Sub(since) >= 0 {"},
	{control + "dispatch/dispatch.go", "a stopped run gets another attempt",
		"	if !a.Stopping {\n		return false\n	}",
		"	if true {\n		return false\n	}"},
	{control + "dispatch/dispatch.go", "what cannot start waits for ever", "	case c.History.CannotStart(a.Spec.ID):",
		"	case false:"},
	{control + "lease/heartbeats.go", "no lease expires", "		if now.Sub(at) >= h.lease {", "		if false {"},
	{control + "lease/heartbeats.go", "leases expire in a third of their time", "		if now.Sub(at) >= h.lease {",
		"		if now.Sub(at) >= h.lease/3 {"},
	{control + "lease/lease.go", "a runner is not asked before its attempt fails", "	if err == nil && reply.Has &&",
		"	if false && err == nil && reply.Has &&"},
	{control + "resultcheck/resultcheck.go", "no result is checked", "		a := c.backlog[0]\n",
		"		a := c.backlog[0]\n		continue\n"},
	{control + "resultcheck/resultcheck.go", "every answer matches",
		"wrong := mismatch(spec.Output.Schema, res); len(wrong) > 0 {",
		"wrong := mismatch(spec.Output.Schema, res); len(wrong) > 100 {"},
	{control + "resultcheck/resultcheck.go", "checks are not signed",
		"	end.Checked, end.Result, end.Body = c.Ends.SignChecked(a),",
		"	end.Checked, end.Result, end.Body = \"\","},
	{control + "callback/callback.go", "no parent is called back",
		"		o := c.backlog[0]\n",
		"		o := c.backlog[0]\n		continue\n"},
	{control + "callback/callback.go", "a callback that failed is forgotten",
		"c.sweptAt, c.backlog = time.Now(), c.History.DueCallbacks()", "c.sweptAt = time.Now()"},
	{control + "webhook/controller.go", "no webhook is delivered", "range c.due(time.Now()) {",
		"range c.due(time.Now())[:0] {"},
	{control + "webhook/controller.go", "a failed webhook is given up", "case result.Permanent || last:",
		"case result.Permanent || last || true:"},
	{control + "webhook/controller.go", "coordinators take each other's tries over",
		"		!c.backOffForeign(d, rev) {", "		false {"},
	{control + "stopping/stopping.go", "trees are not stopped",
		"	for c.pass(ctx) {\n", "	for false && c.pass(ctx) {\n"},
	{control + "completion/completion.go", "the rest of a batch is not written",
		"	for _, a := range c.History.UnwrittenEnds() {",
		"	for _, a := range c.History.UnwrittenEnds()[:0] {"},
	{control + "completion/completion.go", "runs that another record carries are not accepted",
		"	for _, p := range c.History.Reservations() {", "	for _, p := range c.History.Reservations()[:0] {"},
	{control + "queues/controller.go", "lost consumers stay lost",
		"	return false, t.cfg.Consumers.EnsureTaskQueue(ctx, a.Queue, a.QueuedSeq)", "	return false, nil"},
	{control + "queues/controller.go", "consumers start after the waiting run",
		"t.cfg.Consumers.EnsureTaskQueue(ctx, a.Queue, a.QueuedSeq)",
		"t.cfg.Consumers.EnsureTaskQueue(ctx, a.Queue, a.QueuedSeq+1)"},
	{control + "retention/retention.go", "more history is cut than may be", "		err = r.Stream.Truncate(ctx, at)",
		"		err = r.Stream.Truncate(ctx, at+60)"},
	{"coordinator/runners/departed.go", "living runners are removed", "m.status(l.Runners) == runnerapi.Removed",
		"m.status(l.Runners) == runnerapi.Online"},
	{"coordinator/workerapi/heartbeats.go", "living attempts are called abandoned",
		"	case n > 0 && n < a.AttemptNumber(),",
		"	case n > 0 && n <= a.AttemptNumber(),"},
}
