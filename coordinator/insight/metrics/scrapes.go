// Package metrics counts events, and reads the current state when metrics are scraped. It writes nothing.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"ao/coordinator/insight/status"
	"ao/coordinator/projection/state"
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
		CallbackBacklog() state.CallbackBacklog
		Seq() uint64
		Stats() state.Stats
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
	MaxStore   func() int64  // what NATS may store in bytes; 0: unknown
	Missing    func() uint64 // records of the history that are lost, and not accepted as lost
	Queues     interface{ InUse() int }
	MaxPending int // most waiting runs
	MaxQueues  int // most queues
	Tally      Meters
}

// Register registers all scrapes until end is called.
func (o *Scrapes) Register() (end func()) {
	if o.Metrics == nil {
		return func() {}
	}
	scrapes := []func() func(*metric.Scrape){o.scrapeRuns, o.scrapeRunners, o.scrapeCallbacks, o.scrapeProjection,
		o.scrapeStreams}
	ends := []func(){o.Metrics.BeforeScrape(o.initCounters)}
	for _, scrape := range scrapes {
		ends = append(ends, o.Metrics.AtScrape(scrape()))
	}
	return func() {
		for _, f := range ends {
			f()
		}
	}
}

// initCounters makes the counters of every known agent and profile, at 0, so that their first increase is seen.
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
	r, history := o.Metrics, derived{o.Metrics}
	runs := history.Gauge("ao_runs", "Runs that are kept, by state.", "state")
	limit := r.Gauge("ao_runs_pending_limit", "How many runs may wait (AO_MAX_PENDING); further ones are refused "+
		"(429).")
	depth := history.Gauge("ao_queue_waiting_runs", "Runs in a queue that wait for a free slot of a runner.", "queue")
	oldest := history.Gauge("ao_queue_oldest_wait_seconds", "How long the first run of a queue has waited there; 0: "+
		"none waits.", "queue")
	served := history.Gauge("ao_queue_served", "1: an online runner serves this queue; 0: none does.", "queue")
	unqueued := history.Gauge("ao_unqueued_runs", "Accepted runs that are not queued yet: another run of the session "+
		"comes first, or no runner matches.")
	unqueuedAge := history.Gauge("ao_unqueued_oldest_wait_seconds", "How long the oldest of the runs that are not "+
		"queued has waited; 0: there is none.")
	queues := history.Gauge("ao_queues", "Queues for special demands that are in use.")
	most := r.Gauge("ao_queues_limit", "How many such queues there may be (AO_MAX_QUEUES). A caller may have as many "+
		"as are free. Runners' agents have as many of their own.")
	runners := history.Gauge("ao_runners",
		"Registered runners, by status: online, unable, unresponsive, stale or draining.", "status")
	sessions := history.Gauge("ao_sessions", "Sessions that are kept.")
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
		s.Set(unqueuedAge, secondsSince(now.Unqueued.Oldest))
		s.Set(queues, float64(o.Queues.InUse()))
		s.Set(most, float64(o.MaxQueues))
		for _, status := range []string{runnerapi.Online, runnerapi.StatusUnable, runnerapi.Unresponsive,
			runnerapi.Stale, runnerapi.Draining} {
			s.Set(runners, float64(now.Runners[status]), status)
		}
		_, all := o.History.Kept()
		s.Set(sessions, float64(all))
	}
}

// scrapeRunners reports slots of runners, and agents.
func (o *Scrapes) scrapeRunners() func(*metric.Scrape) {
	r, history := o.Metrics, derived{o.Metrics}
	labels := []string{"runner", "host", "profile"}
	slots := history.Gauge("ao_runner_slots", "Concurrent runs that an online runner may have.", labels...)
	busy := history.Gauge("ao_runner_slots_busy", "How many of these slots are in use.", labels...)
	age := r.Gauge("ao_runner_silence_seconds", "Age of a registered runner's last heartbeat; the largest of each "+
		"profile.", "profile")
	agents := r.Gauge("ao_agents", "Agents, by status; broken: files that could not be read, here or at a runner.",
		"status")
	return func(s *metric.Scrape) {
		more, ages := [2]int{}, map[string]float64{}
		for i, v := range o.Views() {
			ages[v.ExecutorProfile] = max(ages[v.ExecutorProfile], secondsSince(&v.LastHeartbeat))
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
		limit := metric.NewLabelLimit(meteredProfiles)
		for profile, v := range ages {
			if limit.Label(profile) == profile {
				s.Set(age, v, profile)
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
	history := derived{o.Metrics}
	pending := history.Gauge("ao_callbacks_owed", "Ended runs whose callback to the parent session is pending.")
	oldest := history.Gauge("ao_callbacks_owed_oldest_seconds", "Age of the oldest pending callback. It waits while "+
		"its parent session is busy. 0: none is pending.")
	webhooks := history.Gauge("ao_webhooks_owed", "HTTP callbacks that are to be tried, or tried again.")
	overdue := history.Gauge("ao_webhooks_overdue_seconds", "How long the next attempt to deliver an HTTP callback is "+
		"overdue; 0: none is.")
	dead := history.Gauge("ao_webhooks_dead", "HTTP callbacks that are tried no more; GET /callbacks?status=dead "+
		"lists them.")
	return func(s *metric.Scrape) {
		d := o.History.CallbackBacklog()
		s.Set(pending, float64(d.Children))
		s.Set(oldest, secondsSince(&d.Oldest))
		s.Set(webhooks, float64(d.Webhooks))
		s.Set(overdue, secondsSince(&d.Due))
		s.Set(dead, float64(d.Dead))
	}
}

// scrapeProjection reports what the projection has read, and whether the coordinator is ready.
func (o *Scrapes) scrapeProjection() func(*metric.Scrape) {
	r := o.Metrics
	ready := r.Gauge("ao_ready", "1: this coordinator serves requests; 0: GET /ready says why not.")
	missing := r.Gauge("ao_history_missing_records", "Records of the history that are lost, at least, and that "+
		"nobody has accepted as lost ('ao verify'). Coordinators agree within seconds: take the maximum.")
	seq := r.Gauge("ao_fold_sequence", "Sequence of the newest record of the history that this coordinator has read.")
	records := r.Count("ao_fold_records_total", "Records that this coordinator has read since its start: applied, "+
		"ignored (late, duplicate or without a key: normal), unknown (of a newer version) or unreadable.", "result")
	return func(s *metric.Scrape) {
		s.Set(ready, number(o.Ready() == nil))
		s.Set(seq, float64(o.History.Seq()))
		s.Set(missing, float64(o.Missing()))
		n := o.History.Stats()
		for result, v := range map[string]uint64{"applied": n.Applied, "ignored": n.Ignored, "unknown": n.Unknown,
			"unreadable": n.Unreadable} {
			s.Set(records, float64(v), result)
		}
	}
}

// scrapeStreams reports how full the streams are and how far the projection lags, if NATS answers.
func (o *Scrapes) scrapeStreams() func(*metric.Scrape) {
	r, history := o.Metrics, derived{o.Metrics}
	messages := history.Gauge("ao_stream_messages", "Messages in a stream of NATS: RUNS is the history, REJECTED has "+
		"refused messages of publishers.", "stream")
	size := history.Gauge("ao_stream_bytes", "Bytes in a stream.", "stream")
	most := history.Gauge("ao_stream_bytes_limit", "Maximum bytes of a stream. Nothing can be written to a full RUNS; "+
		"EVENTS and AUDIT drop their oldest messages.", "stream")
	behind := r.Gauge("ao_fold_lag_records", "Records of the history that this coordinator has not read yet.")
	lag := r.Gauge("ao_fold_lag_seconds", "Age of the newest record that was read, if there are newer ones; else 0.")
	saved := history.Gauge("ao_backup_timestamp_seconds", "When the last complete 'ao backup' started, as Unix time; "+
		"0: never.")
	stored := r.Gauge("ao_nats_stored_bytes", "What all streams and buckets hold, on each of their servers.")
	storedLimit := r.Gauge("ao_nats_stored_bytes_limit", "What NATS may store: max_file_store of an embedded server, "+
		"else the limits of all streams and buckets together.")
	streams := bus.StreamNames()
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
		var all, limits int64
		for i, name := range streams {
			if st := states[i]; !st.Created.IsZero() {
				all, limits = all+int64(st.Bytes), limits+max(st.MaxBytes, 0)
				s.Set(messages, float64(st.Msgs), name)
				s.Set(size, float64(st.Bytes), name)
				if st.MaxBytes > 0 {
					s.Set(most, float64(st.MaxBytes), name)
				}
			}
		}
		s.Set(stored, float64(all))
		s.Set(storedLimit, float64(cmp.Or(o.MaxStore(), limits)))
		if st := states[0]; !st.Created.IsZero() {
			n, old := o.History.Lag(st.Last)
			s.Set(behind, float64(n))
			s.Set(lag, old.Seconds())
		}
	}
}
