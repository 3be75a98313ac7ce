package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"sync/atomic"
	"time"

	"ao/coordinator/journal"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/version"
)

// Names under which a coordinator tells what it reads, and its build's version, in what its NATS service says of
// itself.
const (
	VersionKey      = "record_version"
	EventVersionKey = "event_version"
	programKey      = "program_version"
)

// Metadata is what the coordinator's NATS service says of itself to every other coordinator.
func (c *Coordinator) Metadata() map[string]string {
	return map[string]string{VersionKey: strconv.Itoa(c.RecordVersion), EventVersionKey: strconv.Itoa(run.EventVersion), programKey: version.Of()}
}

// versions knows what every coordinator reads which is online: the newest version of records, what all write and
// attempts allow, and the newest form of events, what workers may write.
//
// Coordinators answer the ping of their NATS service and tell their versions there. One of a program that told nothing
// answers too: it reads version 1.
type versions struct {
	c               *Coordinator
	records, events bound
}

// bound is the newest version of something that all read. It begins at 1. It rises when, for as long as a silent runner
// is waited for (Patience.Remove), all that answered told more, and it falls at once; so one that is restarted
// meanwhile, or not heard for a moment, still counts.
type bound struct {
	name   string // in the metadata
	own    int
	lowest atomic.Int64 // what counts

	// The next one, since when, for Reconcile alone.
	next  int
	since time.Time
}

func newVersions(c *Coordinator) *versions {
	v := &versions{c: c}
	v.records.begin(VersionKey, c.RecordVersion)
	v.events.begin(EventVersionKey, run.EventVersion)
	return v
}

func (b *bound) begin(name string, own int) {
	b.name, b.own, b.next, b.since = name, own, own, time.Now()
	b.lowest.Store(1)
}

// Now is the version of records that do not stand under an attempt's key.
func (v *versions) Now() int { return v.records.now() }

// Of is the version of records under an attempt's key, coordinators' as workers'.
func (v *versions) Of(a journal.Active) int { return min(v.Now(), a.MostVersion()) }

// Told is what attempts, and their workers, are told of the version of records; 0: 1.
func (v *versions) Told() int { return v.records.told() }

// now is what counts.
func (b *bound) now() int { return min(int(b.lowest.Load()), b.own) }

// told is what workers and attempts are told; 0: 1, as programs of before understand it.
func (b *bound) told() int {
	if n := b.now(); n > 1 {
		return n
	}
	return 0
}

// pace is how often all coordinators are asked.
func (v *versions) pace() time.Duration { return min(v.c.Patience.Remove/10, 10*time.Second) }

// Reconcile asks all coordinators.
func (v *versions) Reconcile(ctx context.Context) error {
	answers, err := v.c.bus.Survey(ctx, subject.APIPing, min(v.pace(), time.Second))
	if err != nil {
		answers = nil
	}
	for _, b := range []*bound{&v.records, &v.events} {
		if before := b.now(); b.heard(answers, time.Now(), v.c.Patience.Remove) != before {
			v.c.log.Info("what all coordinators read changed", "what", b.name, "before", before, "now", b.now())
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

// programIn is the version of the program that answered a ping.
func programIn(answer []byte) string {
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
