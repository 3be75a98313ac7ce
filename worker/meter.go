package worker

import (
	"sync/atomic"

	"ao/shared/metric"
	"ao/shared/run"
)

// meter is what a worker counts beside its Counts. Its zero value counts nothing.
type meter struct {
	execution map[run.Status]*metric.Histogram // nil: nobody counts
	retries   *metric.Counter                  // of output schemas
	result    *metric.Histogram
	state     *metric.Histogram
	beats     [2]*metric.Counter // answered, not answered
}

// Counts are what a worker did since its start.
type Counts struct {
	Claimed uint64 // attempts begun here
	Lost    uint64 // claims that another had
	Ended   uint64 // last words that stand
	Refused uint64 // last words that came too late
	GivenUp uint64 // attempts killed since the coordinator had given them up
	Fenced  uint64 // attempts killed before their lease ended, as nobody answered and the run may be attempted again
}

type counts struct{ claimed, lost, ended, refused, givenUp, fenced atomic.Uint64 }

// now gives the counters.
func (c *counts) now() Counts {
	return Counts{c.claimed.Load(), c.lost.Load(), c.ended.Load(), c.refused.Load(), c.givenUp.Load(), c.fenced.Load()}
}

// newMeter makes the meter of a runner of this profile and has it looked at until forget is called.
func newMeter(r *metric.Registry, runner, profile string, places *slots, sessions kept, done *counts) (m meter, forget func()) {
	if r == nil {
		return m, func() {}
	}
	took := r.Histogram("ao_worker_execution_seconds", "How long executors took for an attempt, by how it ended; claims and last words are not in it.", metric.Slow, "profile", "outcome")
	m.execution = map[run.Status]*metric.Histogram{}
	for _, s := range []run.Status{run.Completed, run.Failed, run.Stopped} {
		m.execution[s] = took.Of(profile, string(s))
	}
	m.retries = r.Counter("ao_worker_schema_retries_total", "How often a session was asked again, since its answer did not match the run's output schema.", "profile").Of(profile)
	m.result = r.Histogram("ao_worker_result_bytes", "Results that were told with a last word.", metric.Bytes, "profile").Of(profile)
	m.state = r.Histogram("ao_worker_state_bytes", "Conversations that executors kept for the next run of their session.", metric.Bytes, "profile").Of(profile)
	beats := r.Counter("ao_worker_heartbeats_total", "Heartbeats: answered, or unanswered since no coordinator was there.", "profile", "result")
	m.beats = [2]*metric.Counter{beats.Of(profile, "answered"), beats.Of(profile, "unanswered")}

	slots := r.Gauge("ao_worker_slots", "How many runs this runner may have at once.", "profile", "runner")
	busy := r.Gauge("ao_worker_slots_busy", "How many of these slots are taken.", "profile", "runner")
	idle := r.Gauge("ao_worker_idle_sessions", "Executor processes that wait for the next run of their session.", "profile", "runner")
	claims := r.Count("ao_worker_claims_total", "Claims: won, or refused since another runner was first.", "profile", "runner", "result")
	words := r.Count("ao_worker_last_words_total", "Last words that stand, or that were refused since the attempt had been ended already: work that was in vain.", "profile", "runner", "result")
	killed := r.Count("ao_worker_attempts_killed_total", "Executors killed since a coordinator had given their attempt up, or since nobody answered heartbeats and the run may be attempted again (fenced).", "profile", "runner", "why")
	return m, r.AtScrape(func(s *metric.Scrape) {
		s.Set(slots, float64(places.most), profile, runner)
		s.Set(busy, float64(places.busy()), profile, runner)
		s.Set(idle, float64(len(sessions.idle())), profile, runner)
		n := done.now()
		s.Set(claims, float64(n.Claimed), profile, runner, "won")
		s.Set(claims, float64(n.Lost), profile, runner, "refused")
		s.Set(words, float64(n.Ended), profile, runner, "stands")
		s.Set(words, float64(n.Refused), profile, runner, "refused")
		s.Set(killed, float64(n.GivenUp), profile, runner, "given_up")
		s.Set(killed, float64(n.Fenced), profile, runner, "fenced")
	})
}
