// Package metrics counts events, and reads the current state when metrics are scraped. It writes nothing.
package metrics

import (
	"context"
	"errors"
	"slices"
	"time"

	"ao/coordinator/insight/status"
	"ao/coordinator/projection"
	"ao/coordinator/runners"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/metric"
	"ao/shared/runnerapi"

	"golang.org/x/sync/errgroup"
)

// meteredRunners is how many runners have their own series; further ones count as "other".
const meteredRunners = 500

// scrapeTimeout is how long a scrape waits for NATS.
const scrapeTimeout = time.Second

// Scrapes are the metrics that are read when they are scraped.
type Scrapes struct {
	Metrics *metric.Registry
	Stream  interface {
		Connected() bool
		StreamState(ctx context.Context, stream string) (bus.State, error)
	}
	Backups interface {
		Get(ctx context.Context, key string) (value []byte, rev uint64, err error)
	}
	History interface {
		Kept() (runs, sessions int)
		CallbackBacklog() projection.CallbackBacklog
		Seq() uint64
		Stats() projection.Stats
		Lag(last uint64) (records uint64, age time.Duration)
	}
	Status  func(context.Context) status.Status
	Members func() []runnerapi.Member
	Views   func() []runners.View
	Agents  interface {
		Agents(status string) ([]agent.Blueprint, error)
		BrokenAgents() []agent.BrokenFile
	}
	ProfileOf  func(agent string) string // of its runs; empty: any
	Ready      func() error
	Lanes      interface{ InUse() int }
	MaxPending int // most waiting runs
	MaxQueues  int // most queues
	Tally      interface {
		InitProfiles(all []string)
		InitAgent(name, kind string, profiles []string)
	}
}

// Register registers all scrapes until end is called.
func (o *Scrapes) Register() (end func()) {
	if o.Metrics == nil {
		return func() {}
	}
	looks := []func() func(*metric.Scrape){o.scrapeRuns, o.scrapeRunners, o.scrapeCallbacks, o.scrapeProjection,
		o.scrapeStreams}
	ends := []func(){o.Metrics.BeforeScrape(o.initCounters)}
	for _, look := range looks {
		ends = append(ends, o.Metrics.AtScrape(look()))
	}
	return func() {
		for _, f := range ends {
			f()
		}
	}
}

// initCounters makes the counters of every known agent and profile at 0. A counter that is first seen at 20 would show
// no increase.
func (o *Scrapes) initCounters() {
	agents, err := o.Agents.Agents("")
	if err != nil { // not read yet
		return
	}
	profiles := map[string][]string{} // by their type
	for _, m := range o.Members() {
		if of := profiles[m.ExecutorType]; !slices.Contains(of, m.ExecutorProfile) {
			profiles[m.ExecutorType] = append(of, m.ExecutorProfile)
		}
	}
	for _, all := range profiles {
		o.Tally.InitProfiles(all)
	}
	for _, b := range agents {
		name, of := b.Name, profiles[b.Type]
		if len(agents) > meteredAgents { // the series are for those that run
			name = metric.Other
		}
		if one := o.ProfileOf(b.Name); one != "" {
			of = []string{one}
		}
		o.Tally.InitAgent(name, b.Type, of)
	}
}

// secondsSince returns the seconds since at; 0 for nil.
func secondsSince(at *time.Time) float64 {
	if at == nil || at.IsZero() {
		return 0
	}
	return max(time.Since(*at), 0).Seconds()
}

// unix returns a time as seconds since 1970; 0 for the zero time.
func unix(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// lastBackup returns when the last complete backup started; zero: there is none. known: NATS has answered.
func (o *Scrapes) lastBackup(ctx context.Context) (at time.Time, known bool, err error) {
	text, _, err := o.Backups.Get(ctx, subject.LastBackup)
	if errors.Is(err, bus.ErrNotFound) {
		return at, true, nil
	}
	if err == nil {
		err = at.UnmarshalText(text)
	}
	return at, err == nil, err
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// scrapeRuns reports runs and where they wait.
func (o *Scrapes) scrapeRuns() func(*metric.Scrape) {
	r := o.Metrics
	runs := r.Gauge("ao_runs", "Runs that are kept, by state; ended ones are history."+sameEverywhere, "state")
	limit := r.Gauge("ao_runs_pending_limit", "How many runs may wait (AO_MAX_PENDING); beyond it new ones get 429.")
	depth := r.Gauge("ao_queue_waiting_runs", "Runs that wait in a queue for a free slot of a runner."+sameEverywhere,
		"queue")
	oldest := r.Gauge("ao_queue_oldest_wait_seconds", "How long the run that is first in a queue waits there; 0 "+
		"where none does."+sameEverywhere, "queue")
	served := r.Gauge("ao_queue_served", "1: an online runner takes from this queue; 0: none does."+sameEverywhere,
		"queue")
	unqueued := r.Gauge("ao_unqueued_runs", "Accepted runs in no queue yet: it is not their session's turn, or no "+
		"runner matches."+sameEverywhere)
	apart := r.Gauge("ao_unqueued_oldest_wait_seconds", "How long the oldest of the runs in no queue waits; 0 where "+
		"there is none."+sameEverywhere)
	lanes := r.Gauge("ao_queues", "Queues for special demands that are in use."+sameEverywhere)
	most := r.Gauge("ao_queues_limit", "How many there may be (AO_MAX_QUEUES); a caller may have as many as are "+
		"free, and runners' agents have as many beside them.")
	runners := r.Gauge("ao_runners", "Registered runners, by status: online, stale or draining."+sameEverywhere,
		"status")
	sessions := r.Gauge("ao_sessions", "Sessions that are kept."+sameEverywhere)
	at, cancel := context.WithCancel(context.Background())
	cancel() // do not wait for the projection
	return func(s *metric.Scrape) {
		now := o.Status(at)
		for state, n := range map[string]int{"pending": now.Runs.Pending, "claimed": now.Runs.Claimed,
			"running": now.Runs.Running, "stopping": now.Runs.Stopping, "ended": now.Runs.Ended} {
			s.Set(runs, float64(n), state)
		}
		s.Set(limit, float64(o.MaxPending))
		for _, l := range now.Queues {
			s.Set(depth, float64(l.Runs), l.Queue)
			s.Set(oldest, secondsSince(l.Oldest), l.Queue)
			s.Set(served, number(l.Served), l.Queue)
		}
		s.Set(unqueued, float64(now.Unqueued.Runs))
		s.Set(apart, secondsSince(now.Unqueued.Oldest))
		s.Set(lanes, float64(o.Lanes.InUse()))
		s.Set(most, float64(o.MaxQueues))
		for _, status := range []string{runnerapi.Online, runnerapi.Stale, runnerapi.Draining} {
			s.Set(runners, float64(now.Runners[status]), status)
		}
		_, all := o.History.Kept()
		s.Set(sessions, float64(all))
	}
}

// scrapeRunners reports slots of runners, and agents.
func (o *Scrapes) scrapeRunners() func(*metric.Scrape) {
	r := o.Metrics
	labels := []string{"runner", "host", "profile"}
	slots := r.Gauge("ao_runner_slots", "How many runs an online runner may have at once."+sameEverywhere, labels...)
	busy := r.Gauge("ao_runner_slots_busy", "How many of these slots are taken."+sameEverywhere, labels...)
	heard := r.Gauge("ao_runner_silence_seconds", "How long a registered runner was not heard of; largest of each "+
		"profile.", "profile")
	agents := r.Gauge("ao_agents", "Agents, by status; broken: files that could not be read, here or at a runner.",
		"status")
	return func(s *metric.Scrape) {
		more, silent := [2]int{}, map[string]float64{}
		for i, v := range o.Views() {
			silent[v.ExecutorProfile] = max(silent[v.ExecutorProfile], secondsSince(&v.LastHeartbeat))
			switch {
			case v.Status != runnerapi.Online:
			case i >= meteredRunners:
				more[0], more[1] = more[0]+v.MaxConcurrentRuns, more[1]+v.Running
			default:
				s.Set(slots, float64(v.MaxConcurrentRuns), v.ID, v.Hostname, v.ExecutorProfile)
				s.Set(busy, float64(v.Running), v.ID, v.Hostname, v.ExecutorProfile)
			}
		}
		if more[0] > 0 {
			s.Set(slots, float64(more[0]), metric.Other, metric.Other, metric.Other)
			s.Set(busy, float64(more[1]), metric.Other, metric.Other, metric.Other)
		}
		bound := metric.NewLabelLimit(meteredProfiles)
		for profile, v := range silent {
			if bound.Label(profile) == profile {
				s.Set(heard, v, profile)
			}
		}
		count := map[string]int{"active": 0, "inactive": 0, "broken": len(o.Agents.BrokenAgents())}
		all, _ := o.Agents.Agents("")
		for _, a := range all {
			count[a.Status]++
		}
		for status, n := range count {
			s.Set(agents, float64(n), status)
		}
	}
}

// scrapeCallbacks reports pending callbacks and webhooks.
func (o *Scrapes) scrapeCallbacks() func(*metric.Scrape) {
	r := o.Metrics
	owed := r.Gauge("ao_callbacks_owed", "Ended runs that their parent session is yet to be told of."+sameEverywhere)
	oldest := r.Gauge("ao_callbacks_owed_oldest_seconds", "How long the one that ended first has been owed; it waits "+
		"as long as its parent has something under way. 0: nothing is owed."+sameEverywhere)
	hooks := r.Gauge("ao_webhooks_owed", "HTTP callbacks with tries left."+sameEverywhere)
	overdue := r.Gauge("ao_webhooks_overdue_seconds", "How long the next try of an HTTP callback is overdue; 0 where "+
		"none is."+sameEverywhere)
	dead := r.Gauge("ao_webhooks_dead", "HTTP callbacks that were given up; GET /callbacks?status=dead lists them."+
		sameEverywhere)
	return func(s *metric.Scrape) {
		d := o.History.CallbackBacklog()
		s.Set(owed, float64(d.Children))
		s.Set(oldest, secondsSince(&d.Oldest))
		s.Set(hooks, float64(d.Webhooks))
		s.Set(overdue, secondsSince(&d.Due))
		s.Set(dead, float64(d.Dead))
	}
}

// scrapeProjection reports what the projection has read, and whether the coordinator is ready.
func (o *Scrapes) scrapeProjection() func(*metric.Scrape) {
	r := o.Metrics
	ready := r.Gauge("ao_ready", "1: this coordinator serves requests; 0: GET /ready says why not.")
	seq := r.Gauge("ao_fold_sequence", "Sequence of the newest record of the history that this coordinator has read.")
	records := r.Count("ao_fold_records_total", "Records that this coordinator has read since its start: applied, "+
		"ignored (late, twice or without a key, which is normal), unknown (of a newer version) or unreadable.",
		"result")
	return func(s *metric.Scrape) {
		s.Set(ready, number(o.Ready() == nil))
		s.Set(seq, float64(o.History.Seq()))
		n := o.History.Stats()
		for result, v := range map[string]uint64{"applied": n.Applied, "ignored": n.Ignored, "unknown": n.Unknown,
			"unreadable": n.Unreadable} {
			s.Set(records, float64(v), result)
		}
	}
}

// scrapeStreams reports how full the streams are and how far the projection lags. Without an answer of NATS it reports
// nothing.
func (o *Scrapes) scrapeStreams() func(*metric.Scrape) {
	r := o.Metrics
	messages := r.Gauge("ao_stream_messages", "Messages in a stream of NATS: RUNS is the history, REJECTED what "+
		"publishers left and was refused."+sameEverywhere, "stream")
	size := r.Gauge("ao_stream_bytes", "Bytes in a stream."+sameEverywhere, "stream")
	most := r.Gauge("ao_stream_bytes_limit", "How many bytes a stream may have. Where RUNS is full nothing can be "+
		"written to it; EVENTS and AUDIT let go of their oldest."+sameEverywhere, "stream")
	behind := r.Gauge("ao_fold_lag_records", "Records of the history that this coordinator has not read yet.")
	lag := r.Gauge("ao_fold_lag_seconds", "Age of the newest record that it has read, as long as there are newer "+
		"ones; else 0.")
	saved := r.Gauge("ao_backup_timestamp_seconds", "When 'ao backup' last began a backup that is whole, as Unix "+
		"time; 0: never."+sameEverywhere)
	streams := []string{subject.Runs, subject.Events, subject.Inbox, subject.Rejected, subject.Audit}
	return func(s *metric.Scrape) {
		if !o.Stream.Connected() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		states := make([]bus.State, len(streams))
		var g errgroup.Group
		for i, name := range streams {
			g.Go(func() (err error) {
				states[i], err = o.Stream.StreamState(ctx, name)
				return err
			})
		}
		var backup time.Time
		known := false
		g.Go(func() (err error) {
			backup, known, err = o.lastBackup(ctx)
			return err
		})
		_ = g.Wait()
		if known {
			s.Set(saved, unix(backup))
		}
		for i, name := range streams {
			if st := states[i]; !st.Created.IsZero() {
				s.Set(messages, float64(st.Msgs), name)
				s.Set(size, float64(st.Bytes), name)
				if st.MaxBytes > 0 {
					s.Set(most, float64(st.MaxBytes), name)
				}
			}
		}
		if st := states[0]; !st.Created.IsZero() {
			n, old := o.History.Lag(st.Last)
			s.Set(behind, float64(n))
			s.Set(lag, old.Seconds())
		}
	}
}
