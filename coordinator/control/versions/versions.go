// Package versions knows what every coordinator reads which is online: what all write, and what attempts and workers are told.
package versions

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"ao/coordinator/projection"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/version"
)

// Names under which a coordinator tells what it reads, and its build's version, in what its NATS service says of
// itself.
const (
	versionKey      = "record_version"
	eventVersionKey = "event_version"
	programKey      = "program_version"
)

// Config is what the versions depend on.
type Config struct {
	Records  int           // the newest version of records that this program reads and writes
	Patience time.Duration // how long all must have told more before more counts: as long as a silent runner is waited for
	// Survey asks the NATS service of every coordinator, for so long at most, and gives the answers.
	Survey func(ctx context.Context, subject string, wait time.Duration) ([][]byte, error)
	Log    *slog.Logger
}

// Versions knows the newest version of records, what all write and attempts allow, and the newest form of events, what workers may write.
//
// Coordinators answer the ping of their NATS service and tell their versions there. One of a program that told nothing
// answers too: it reads version 1.
type Versions struct {
	cfg             Config
	records, events bound
}

// bound is the newest version of something that all read. It begins at 1. It rises when, for as long as a silent runner
// is waited for (Config.Patience), all that answered told more, and it falls at once; so one that is restarted
// meanwhile, or not heard for a moment, still counts.
type bound struct {
	name   string // in the metadata
	own    int
	lowest atomic.Int64 // what counts

	// The next one, since when, for Reconcile alone.
	next  int
	since time.Time
}

// New knows nothing yet of other coordinators.
func New(cfg Config) *Versions {
	v := &Versions{cfg: cfg}
	v.records.begin(versionKey, cfg.Records)
	v.events.begin(eventVersionKey, run.EventVersion)
	return v
}

// Metadata is what the coordinator's NATS service says of itself to every other coordinator.
func (v *Versions) Metadata() map[string]string {
	return map[string]string{versionKey: strconv.Itoa(v.records.own), eventVersionKey: strconv.Itoa(v.events.own), programKey: version.Current()}
}

func (b *bound) begin(name string, own int) {
	b.name, b.own, b.next, b.since = name, own, own, time.Now()
	b.lowest.Store(1)
}

// Now is the version of records that do not stand under an attempt's key.
func (v *Versions) Now() int { return v.records.now() }

// Of is the version of records under an attempt's key, coordinators' as workers'.
func (v *Versions) Of(a projection.Active) int { return min(v.Now(), a.MaxVersion()) }

// Told is what attempts, and their workers, are told of the version of records; 0: 1.
func (v *Versions) Advertised() int { return v.records.told() }

// EventsTold is what workers are told of the form of events; 0: 1.
func (v *Versions) EventsAdvertised() int { return v.events.told() }

// now is what counts.
func (b *bound) now() int { return min(int(b.lowest.Load()), b.own) }

// told is what workers and attempts are told; 0: 1, as programs of before understand it.
func (b *bound) told() int {
	if n := b.now(); n > 1 {
		return n
	}
	return 0
}

// Pace is how often all coordinators are asked.
func (v *Versions) Pace() time.Duration { return min(v.cfg.Patience/10, 10*time.Second) }

// Reconcile asks all coordinators.
func (v *Versions) Reconcile(ctx context.Context) error {
	answers, err := v.cfg.Survey(ctx, subject.APIPing, min(v.Pace(), time.Second))
	if err != nil {
		answers = nil
	}
	for _, b := range []*bound{&v.records, &v.events} {
		if before := b.now(); b.heard(answers, time.Now(), v.cfg.Patience) != before {
			v.cfg.Log.Info("what all coordinators read changed", "what", b.name, "before", before, "now", b.now())
		}
	}
	return nil
}

// heard is a round of answers; none at all is one of which nothing is known. It gives what counts from now on. What is
// more than before must have been told for so long.
func (b *bound) heard(answers [][]byte, now time.Time, patience time.Duration) int {
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
	case now.Sub(b.since) < patience:
		b.next = min(b.next, least)
		return lowest
	default:
		b.lowest.Store(int64(min(b.next, least)))
	}
	b.next, b.since = b.own, now
	return int(b.lowest.Load())
}

// versionIn is a version in an answer to a ping.
func versionIn(answer []byte, name string) int {
	n, err := strconv.Atoi(metadataIn(answer)[name])
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// ProgramIn is the version of the program that answered a ping.
func ProgramIn(answer []byte) string {
	return cmp.Or(metadataIn(answer)[programKey], version.Unknown)
}

func metadataIn(answer []byte) map[string]string {
	var service struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(answer, &service) != nil {
		return nil
	}
	return service.Metadata
}
