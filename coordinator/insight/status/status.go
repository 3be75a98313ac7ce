// Package status summarizes the state of the deployment. It writes nothing.
package status

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"ao/coordinator/insight/explain"
	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Status is a summary, cheap enough for every second: its cost grows with queues, runners and active runs only.
type Status struct {
	At       time.Time         `json:"at"`
	Since    time.Time         `json:"since"` // this coordinator's start: totals begin there
	Sequence uint64            `json:"sequence"`
	Runs     RunCounts         `json:"runs"`
	Totals   projection.Totals `json:"totals"` // seen by this coordinator
	Queues   []QueueStatus     `json:"queues"` // the longest first
	Unqueued Waiting           `json:"not_queued"`
	Runners  map[string]int    `json:"runners"` // by status
	Slots    explain.Slots     `json:"slots"`   // of runners that are online
	Pending  int               `json:"max_pending"`
}

// RunCounts counts the runs that are kept.
type RunCounts struct {
	Pending  int `json:"pending"`
	Claimed  int `json:"claimed"`
	Running  int `json:"running"`
	Stopping int `json:"stopping"`
	Ended    int `json:"ended"`
}

// Waiting counts waiting runs; Since is when the first of them began to wait.
type Waiting struct {
	Runs   int        `json:"waiting"`
	Oldest *time.Time `json:"oldest_since,omitempty"`
}

func waitingIn(l state.Waitlist) Waiting {
	if l.Waiting == 0 {
		return Waiting{}
	}
	return Waiting{l.Waiting, &l.Since}
}

// QueueStatus is the status of a task queue.
type QueueStatus struct {
	Queue string `json:"queue"`
	Waiting
	Wants  *explain.Wanted `json:"wants"`
	Served bool            `json:"served"` // an online runner takes from it
}

// Overview builds the status.
type Overview struct {
	History interface {
		Seq() uint64
		Totals() projection.Totals
		Counts() (waiting, begun, ended int)
		Claimed() iter.Seq[state.Active]
		Waitlists() (queues []state.Waitlist, apart state.Waitlist)
	}
	Past    interface{ WaitOwnWrites(ctx context.Context) }
	Runners interface {
		SharedQueues() map[string]runnerapi.RoutingKey
		QueueMatches(queue string, w runnerapi.RoutingKey) bool
	}
	Queues interface {
		Wants() map[string]runnerapi.RoutingKey
	}
	Members    func() []runnerapi.Member
	Began      time.Time
	MaxPending int // most waiting runs
}

// Status returns the summary.
func (o *Overview) Status(ctx context.Context) Status {
	o.Past.WaitOwnWrites(ctx)
	s := Status{At: time.Now().UTC(), Since: o.Began.UTC(), Sequence: o.History.Seq(), Totals: o.History.Totals(),
		Runners: map[string]int{}, Pending: o.MaxPending}
	s.Runs.Pending, _, s.Runs.Ended = o.History.Counts()
	busy := map[string]int{}
	for a := range o.History.Claimed() {
		if a.UnverifiedSeq == 0 {
			busy[a.Claim.RunnerID]++
		}
		switch a.Status {
		case run.Running:
			s.Runs.Running++
		case run.Stopping:
			s.Runs.Stopping++
		default:
			s.Runs.Claimed++
		}
	}
	queues, unqueued := o.History.Waitlists()
	s.Unqueued = waitingIn(unqueued)
	wants := o.Queues.Wants() // in use, or that a runner takes from
	maps.Copy(wants, o.Runners.SharedQueues())
	s.Queues = make([]QueueStatus, 0, len(queues)+len(wants))
	for _, l := range queues {
		w, ok := wants[l.Queue]
		if !ok {
			w = baseRoutingKey(l.Queue)
		}
		delete(wants, l.Queue)
		// whose entry is gone nobody takes from; and what matches a queue is remembered
		served := w.TaskQueue() == l.Queue && o.Runners.QueueMatches(l.Queue, w)
		s.Queues = append(s.Queues, QueueStatus{l.Queue, waitingIn(l), explain.WantedOf(w), served})
	}
	for queue, w := range wants {
		s.Queues = append(s.Queues, QueueStatus{queue, Waiting{}, explain.WantedOf(w), o.Runners.QueueMatches(queue,
			w)})
	}
	slices.SortFunc(s.Queues, func(a, b QueueStatus) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Queue, b.Queue))
	})
	for _, m := range o.Members() {
		if m.Status == runnerapi.Left {
			continue
		}
		if s.Runners[m.Shown()]++; m.TakesRuns() {
			s.Slots.All += m.MaxConcurrentRuns
			s.Slots.Taken += min(busy[m.ID], m.MaxConcurrentRuns)
		}
	}
	return s
}

// baseRoutingKey returns the routing key that a queue's name shows, for queues without an entry in `lanes`.
func baseRoutingKey(queue string) runnerapi.RoutingKey {
	kind, rest, _ := strings.Cut(queue, ".")
	profile, _, _ := strings.Cut(rest, ".")
	if profile == "_" {
		profile = ""
	}
	return runnerapi.RoutingKey{Type: kind, Profile: profile}
}
