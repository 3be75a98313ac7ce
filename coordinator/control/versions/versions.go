// Package versions knows what all online coordinators can read, and so what may be written.
package versions

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/version"
)

// Metadata keys under which a coordinator's NATS service says what it reads, and its build's version.
const (
	versionKey      = "record_version"
	eventVersionKey = "event_version"
	returnKey       = "return_version"
	programKey      = "program_version"
)

// Config is what Versions works with.
type Config struct {
	Records int // the newest version of records that this program reads and writes
	// how long all must have answered a higher version before it counts: as long as a silent runner is kept
	RaiseAfter time.Duration
	// Survey asks the NATS service of every coordinator, and waits for answers for at most wait.
	Survey func(ctx context.Context, subject string, wait time.Duration) ([][]byte, error)
	Log    *slog.Logger
}

// Versions knows the newest version of records and of events that all coordinators read.
//
// Coordinators answer the ping of their NATS service with their versions. A program that answers without one reads
// version 1.
type Versions struct {
	cfg             Config
	records, events agreed
	returns         agreed
}

// agreed is the newest version of something that all coordinators read. It starts at 1. It rises when all answers were
// higher for Config.RaiseAfter, and falls at once. So a coordinator that restarts or misses a ping still counts.
type agreed struct {
	name   string // in the metadata
	own    int
	lowest atomic.Int64 // what counts now

	// The next value, and since when, for Reconcile alone.
	next  int
	since time.Time
}

// New returns Versions that know of no other coordinator yet.
func New(cfg Config) *Versions {
	v := &Versions{cfg: cfg}
	v.records.begin(versionKey, cfg.Records)
	v.events.begin(eventVersionKey, run.EventVersion)
	v.returns.begin(returnKey, run.ReturnVersion)
	return v
}

// Metadata returns what the coordinator's NATS service says about itself.
func (v *Versions) Metadata() map[string]string {
	return map[string]string{
		versionKey:      strconv.Itoa(v.records.own),
		eventVersionKey: strconv.Itoa(v.events.own),
		returnKey:       strconv.Itoa(v.returns.own),
		programKey:      version.Current(),
	}
}

func (b *agreed) begin(name string, own int) {
	b.name, b.own, b.next, b.since = name, own, own, time.Now()
	b.lowest.Store(1)
}

// Now returns the version of records that are not under an attempt's key.
func (v *Versions) Now() int { return v.records.now() }

// Of returns the version of records under an attempt's key, written by coordinators or workers.
func (v *Versions) Of(a state.Active) int { return min(v.Now(), a.MaxVersion()) }

// Advertised returns the version of records that attempts and workers are told; 0 means 1.
func (v *Versions) Advertised() int { return v.records.advertised() }

// EventsAdvertised returns the version of events that workers are told; 0 means 1.
func (v *Versions) EventsAdvertised() int { return v.events.advertised() }

// Returns reports whether all coordinators understand that a runner gives an attempt back.
func (v *Versions) Returns() bool { return v.returns.now() >= run.ReturnVersion }

// now returns what counts.
func (b *agreed) now() int { return min(int(b.lowest.Load()), b.own) }

// advertised returns what workers and attempts are told; 0 means 1, as older programs understand it.
func (b *agreed) advertised() int {
	if n := b.now(); n > 1 {
		return n
	}
	return 0
}

// Pace returns how often all coordinators are asked.
func (v *Versions) Pace() time.Duration { return min(v.cfg.RaiseAfter/10, 10*time.Second) }

// raiseReturnsAfter is how long all coordinators must have answered that they understand returned attempts: several
// rounds. One that does not, and comes later, takes a returned attempt for a plain failure.
const raiseReturnsAfter = time.Minute

// Reconcile asks all coordinators.
func (v *Versions) Reconcile(ctx context.Context) error {
	answers, err := v.cfg.Survey(ctx, subject.APIPing, min(v.Pace(), time.Second))
	if err != nil {
		answers = nil
	}
	for _, b := range []*agreed{&v.records, &v.events, &v.returns} {
		after := v.cfg.RaiseAfter
		if b == &v.returns {
			after = min(after, raiseReturnsAfter)
		}
		if before := b.now(); b.update(answers, time.Now(), after) != before {
			v.cfg.Log.Debug("the version that all coordinators read has changed", "what", b.name, "before", before,
				"now", b.now())
		}
	}
	return nil
}

// update takes a round of answers, and returns what counts from now on. No answers at all count as version 1.
func (b *agreed) update(answers [][]byte, now time.Time, raiseAfter time.Duration) int {
	least := b.own
	if len(answers) == 0 {
		least = 1
	}
	for _, a := range answers {
		least = min(least, versionIn(a, b.name))
	}
	switch lowest := int(b.lowest.Load()); {
	case least <= lowest:
		b.lowest.Store(int64(least))
	case now.Sub(b.since) < raiseAfter:
		b.next = min(b.next, least)
		return lowest
	default:
		b.lowest.Store(int64(min(b.next, least)))
	}
	b.next, b.since = b.own, now
	return int(b.lowest.Load())
}

// versionIn returns a version from an answer to a ping.
func versionIn(answer []byte, name string) int {
	n, err := strconv.Atoi(metadataIn(answer)[name])
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// ProgramIn returns the program version from an answer to a ping.
func ProgramIn(answer []byte) string { return cmp.Or(metadataIn(answer)[programKey], version.Unknown) }

func metadataIn(answer []byte) map[string]string {
	var service struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(answer, &service) != nil {
		return nil
	}
	return service.Metadata
}
