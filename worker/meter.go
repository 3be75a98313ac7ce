package worker

import (
	"sync/atomic"

	"ao/shared/metric"
	"ao/shared/run"
	"ao/worker/program"
)

// meter has the worker's metrics beside its counts. Its zero value counts nothing.
type meter struct {
	execution  map[run.Status]*metric.Histogram // nil: no metrics
	retries    *metric.Counter                  // retries for an output schema
	result     *metric.Histogram
	state      *metric.Histogram
	heartbeats [2]*metric.Counter // answered, not answered
}

// counts are what a worker did since it started.
type counts struct {
	claimed, lost     atomic.Uint64 // claims; those that another worker had first
	ended, refused    atomic.Uint64 // end records: committed, refused
	abandoned, fenced atomic.Uint64 // attempts killed: abandoned by the coordinator, before their lease ended
}

// newMeter registers the metrics of a runner; forget removes its gauges.
func newMeter(r *metric.Registry, runner, profile string, places *slots, sessions *program.Pool,
	done *counts) (m meter, forget func()) {
	if r == nil {
		return m, func() {}
	}
	took := r.Histogram("ao_worker_execution_seconds",
		"How long executors took for an attempt, by outcome; without the claim and the end record.", metric.Slow,
		"profile", "outcome")
	m.execution = map[run.Status]*metric.Histogram{}
	for _, s := range []run.Status{run.Completed, run.Failed, run.Stopped} {
		m.execution[s] = took.With(profile, string(s))
	}
	m.retries = r.Counter("ao_worker_schema_retries_total",
		"Retries of a session because its answer did not match the run's output schema.", "profile").With(profile)
	m.result = r.Histogram("ao_worker_result_bytes", "Sizes of results in end records.", metric.Bytes,
		"profile").With(profile)
	m.state = r.Histogram("ao_worker_state_bytes",
		"Sizes of states that executors kept for the next run of their session.", metric.Bytes, "profile").With(profile)
	beats := r.Counter("ao_worker_heartbeats_total",
		"Heartbeats: answered, or unanswered because no coordinator responded.", "profile", "result")
	m.heartbeats = [2]*metric.Counter{beats.With(profile, "answered"), beats.With(profile, "unanswered")}

	slots := r.Gauge("ao_worker_slots", "Concurrent runs that this runner may have.", "profile", "runner")
	busy := r.Gauge("ao_worker_slots_busy", "Slots in use.", "profile", "runner")
	idle := r.Gauge("ao_worker_idle_sessions", "Executor processes that wait for the next run of their session.",
		"profile", "runner")
	claims := r.Count("ao_worker_claims_total", "Claims: won, or refused because another runner was first.", "profile",
		"runner", "result")
	words := r.Count("ao_worker_last_words_total",
		"End records: committed, or refused because the attempt had ended already (wasted work).", "profile", "runner",
		"result")
	killed := r.Count("ao_worker_attempts_killed_total",
		"Executors killed because a coordinator abandoned their attempt (given_up), or because no coordinator "+
			"answered heartbeats and the run may be attempted again (fenced).", "profile", "runner", "why")
	return m, r.AtScrape(func(s *metric.Scrape) {
		s.Set(slots, float64(places.limit), profile, runner)
		s.Set(busy, float64(places.busy()), profile, runner)
		s.Set(idle, float64(len(sessions.Sessions())), profile, runner)
		s.Set(claims, float64(done.claimed.Load()), profile, runner, "won")
		s.Set(claims, float64(done.lost.Load()), profile, runner, "refused")
		s.Set(words, float64(done.ended.Load()), profile, runner, "stands")
		s.Set(words, float64(done.refused.Load()), profile, runner, "refused")
		s.Set(killed, float64(done.abandoned.Load()), profile, runner, "given_up")
		s.Set(killed, float64(done.fenced.Load()), profile, runner, "fenced")
	})
}
