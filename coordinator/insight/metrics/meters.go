package metrics

import (
	"regexp"
	"sync"

	"ao/coordinator/control/dispatch"
	"ao/coordinator/projection/state"
	"ao/shared/metric"
	"ao/shared/run"
)

// Limits of labels: further agents, profiles and error codes count as "other".
const (
	meteredAgents   = 100
	meteredProfiles = 50
	meteredReasons  = 50
)

// watchedReasons are codes that alerts use. They are reported from 0.
var watchedReasons = []string{dispatch.CodeUnmatched, run.CodeDisconnected}

// sameEverywhere ends the help of metrics that every coordinator derives from the stream.
const sameEverywhere = " Derived from the history: every coordinator reports the same, so take the maximum, not the " +
	"sum."

// derived makes metrics that every coordinator derives from the stream.
type derived struct{ *metric.Registry }

func (r derived) Counter(name, help string, labels ...string) *metric.Counters {
	return r.Registry.Counter(name, help+sameEverywhere, labels...)
}

func (r derived) Gauge(name, help string, labels ...string) *metric.Sampled {
	return r.Registry.Gauge(name, help+sameEverywhere, labels...)
}

func (r derived) Histogram(name, help string, labels ...string) *metric.Histograms {
	return r.Registry.Histogram(name, help+sameEverywhere, metric.Slow, labels...)
}

// Meters are the metrics of a coordinator; nil parts measure nothing. One goroutine reports the steps of the
// projection, in the order of the stream.
type Meters struct {
	*runCounters
	*timings
	*failureCounters
}

// runCounters count runs that were accepted, claimed and ended.
type runCounters struct {
	accepted *metric.Cache[[2]string, *metric.Counter] // agent, type
	claimed  *metric.Cache[string, *metric.Counter]    // profile
	ended    *metric.Cache[outcome, *metric.Counter]
	profile  func(runner string) string
}

// timings measure durations.
type timings struct {
	ways    map[string]runTimings // by the agent's type
	parent  *metric.Histogram
	webhook *metric.Histogram
}

// failureCounters count what failed, was refused or lost, and successes of the same kind.
type failureCounters struct {
	failed  *metric.Cache[string, *metric.Counter] // reason
	reasons *metric.LabelLimit
	lost    *metric.Counter
	offered *metric.Cache[run.Status, *metric.Counter]
	refused *metric.Counter
	tried   *metric.Cache[string, *metric.Counter]
}

// outcome has the labels of ended runs.
type outcome struct {
	agent, profile string
	status         run.Status
}

// runTimings are the durations of runs of one type.
type runTimings struct{ unqueued, queued, execution, whole *metric.Histogram }

// New makes the meters of a coordinator. profileOf returns the profile of a runner; empty: unknown.
func New(r *metric.Registry, profileOf func(runner string) string) Meters {
	return Meters{newRunCounters(r, profileOf), newTimings(r), newFailureCounters(r)}
}

func newRunCounters(r *metric.Registry, profileOf func(runner string) string) *runCounters {
	agents, profiles := metric.NewLabelLimit(meteredAgents), metric.NewLabelLimit(meteredProfiles)
	history := derived{r}
	accepted := history.Counter("ao_runs_accepted_total", "Accepted runs.", "agent", "type")
	ended := history.Counter("ao_runs_ended_total", "Runs that ended: completed, failed or stopped. The profile is "+
		"that of the runner of the last attempt; none: no runner claimed it.", "agent", "profile", "outcome")
	claimed := history.Counter("ao_attempts_begun_total", "Attempts that runners claimed.", "profile")
	return &runCounters{
		accepted: metric.NewCache(func(k [2]string) *metric.Counter { return accepted.With(agents.Label(k[0]), k[1]) }),
		claimed:  metric.NewCache(func(p string) *metric.Counter { return claimed.With(profiles.Label(p)) }),
		ended: metric.NewCache(func(k outcome) *metric.Counter {
			return ended.With(agents.Label(k.agent), profiles.Label(k.profile), string(k.status))
		}),
		profile: memoize(profileOf),
	}
}

func newTimings(r *metric.Registry) *timings {
	m, history := &timings{ways: map[string]runTimings{}}, derived{r}
	unqueued := history.Histogram("ao_run_unqueued_seconds", "From the acceptance of a run until it is queued: "+
		"storing it, or waiting for its session's turn and for a runner that matches.", "type")
	queued := history.Histogram("ao_run_queued_seconds", "From the queue to a runner's claim: how long runs wait for "+
		"a free slot.", "type")
	execution := history.Histogram("ao_run_execution_seconds", "From the claim to the end record of an attempt.",
		"type")
	whole := history.Histogram("ao_run_seconds", "From the acceptance of a run to its end.", "type")
	for _, t := range []string{run.Procedural, run.Autonomous, metric.Other} {
		m.ways[t] = runTimings{unqueued.With(t), queued.With(t), execution.With(t), whole.With(t)}
	}
	delivered := history.Histogram("ao_run_told_seconds", "From the end of a run to the record that its callback to "+
		"the parent session (parent) or to its callback_url (webhook) was delivered.", "way")
	m.parent, m.webhook = delivered.With("parent"), delivered.With("webhook")
	return m
}

func newFailureCounters(r *metric.Registry) *failureCounters {
	failed := derived{r}.Counter("ao_attempts_failed_total", "Attempts that failed, by the code of their error, also "+
		"if another attempt followed.", "reason")
	offered := r.Counter("ao_offers_checked_total", "Result checks that this coordinator finished, by the run's "+
		"outcome. Others may check the same result.", "outcome")
	tried := r.Counter("ao_webhook_tries_total", "Attempts to deliver an HTTP callback: delivered, failed (to be "+
		"tried again) or dead.", "result")
	m := &failureCounters{
		failed:  metric.NewCache(func(reason string) *metric.Counter { return failed.With(reason) }),
		reasons: metric.NewLabelLimit(meteredReasons),
		lost: derived{r}.Counter("ao_leases_lost_total", "Attempts that were abandoned because their runner sent no "+
			"heartbeat for a lease.").With(),
		offered: metric.NewCache(func(s run.Status) *metric.Counter { return offered.With(string(s)) }),
		refused: r.Counter("ao_offers_refused_total", "Of these: results that a worker sent although they do not "+
			"match the schema.").With(),
		tried: metric.NewCache(func(s string) *metric.Counter { return tried.With(s) }),
	}
	for _, reason := range watchedReasons {
		m.failed.Get(m.reasons.Label(reason))
	}
	return m
}

// InitAgent makes the counters of an agent that may run in these profiles.
func (m *runCounters) InitAgent(name, kind string, profiles []string) {
	m.accepted.Get([2]string{name, kind})
	for _, status := range []run.Status{run.Completed, run.Failed, run.Stopped} {
		m.ended.Get(outcome{name, none, status})
		for _, p := range profiles {
			m.ended.Get(outcome{name, p, status})
		}
	}
}

// InitProfiles makes the counters of profiles.
func (m *runCounters) InitProfiles(profiles []string) {
	for _, p := range profiles {
		m.claimed.Get(p)
	}
}

// plainCode matches valid error codes.
var plainCode = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z_]{0,63}$`)

// none is the label for a missing value.
const none = "none"

// memoize caches profileOf: the runs of a removed runner may end after it.
func memoize(profileOf func(string) string) func(string) string {
	var mu sync.Mutex
	known := map[string]string{}
	return func(runner string) string {
		if runner == "" {
			return none
		}
		mu.Lock()
		defer mu.Unlock()
		p, ok := known[runner]
		if !ok {
			p = profileOf(runner)
			if p == "" {
				return "unknown"
			}
			if len(known) >= 10_000 {
				clear(known)
			}
			known[runner] = p
		}
		return p
	}
}

// Step counts a step of a run.
func (m Meters) Step(s state.Step) {
	m.runCounters.step(s)
	m.timings.step(s)
	if s.Kind == state.Ended && s.Status == run.Failed {
		m.fail(s.Reason)
	}
}

func (m *runCounters) step(s state.Step) {
	if s.Fresh {
		m.accepted.Get([2]string{s.Agent, s.Type}).Inc()
	}
	switch {
	case s.Kind == state.Claimed:
		m.claimed.Get(m.profile(s.RunnerID)).Inc()
	case s.Kind == state.Ended && !s.Retried:
		m.ended.Get(outcome{s.Agent, m.profile(s.RunnerID), s.Status}).Inc()
	}
}

func (m *timings) step(s state.Step) {
	w, ok := m.ways[s.Type]
	if !ok {
		w = m.ways[metric.Other]
	}
	switch s.Kind {
	case state.Queued:
		w.unqueued.ObserveDuration(s.Elapsed)
	case state.Claimed:
		w.queued.ObserveDuration(s.Elapsed)
	case state.Ended:
		if s.RunnerID != "" {
			w.execution.ObserveDuration(s.Elapsed)
		}
		if !s.Retried {
			w.whole.ObserveDuration(s.Total)
		}
	case state.CallbackDelivered:
		m.parent.ObserveDuration(s.Elapsed)
	case state.WebhookDelivered:
		m.webhook.ObserveDuration(s.Elapsed)
	}
}

// fail counts a failed attempt by the code of its error.
func (m *failureCounters) fail(code string) {
	reason := metric.Other
	if plainCode.MatchString(code) { // executors may send any code
		reason = m.reasons.Label(code)
	}
	if m.failed.Get(reason).Inc(); code == run.CodeDisconnected {
		m.lost.Inc()
	}
}

// Checked counts a result check that this coordinator has finished.
func (m *failureCounters) Checked(s run.Status) {
	if m != nil {
		m.offered.Get(s).Inc()
	}
}

// Mismatch counts an unverified result that does not match, though its worker should have checked it.
func (m *failureCounters) Mismatch() {
	if m != nil {
		m.refused.Inc()
	}
}

// Posted counts a try of an HTTP callback.
func (m *failureCounters) Posted(status string) {
	if m != nil {
		m.tried.Get(status).Inc()
	}
}
