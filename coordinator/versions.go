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
	"ao/shared/version"
)

// Names under which a coordinator tells its record version and its build's, in what its NATS service says of itself.
const (
	VersionKey = "record_version"
	programKey = "program_version"
)

// Metadata is what the coordinator's NATS service says of itself to every other coordinator.
func (c *Coordinator) Metadata() map[string]string {
	return map[string]string{VersionKey: strconv.Itoa(c.RecordVersion), programKey: version.Of()}
}

// versions knows the newest record version that every coordinator reads which is online: what all write, and what attempts allow.
//
// Coordinators answer the ping of their NATS service and tell their version there. One of a program that told nothing answers too:
// it reads version 1. The version begins at 1. It rises when, for as long as a silent runner is waited for (Patience.Remove), all that
// answered told more, and it falls at once; so one that is restarted meanwhile, or not heard for a moment, still counts.
type versions struct {
	c      *Coordinator
	lowest atomic.Int64 // what counts

	// The next one, since when, for watch alone.
	next  int
	since time.Time
}

func newVersions(c *Coordinator) *versions {
	v := &versions{c: c, next: c.RecordVersion, since: time.Now()}
	v.lowest.Store(1)
	return v
}

// now is the version of records that do not stand under an attempt's key.
func (v *versions) now() int { return min(int(v.lowest.Load()), v.c.RecordVersion) }

// of is the version of records under an attempt's key, coordinators' as workers'.
func (v *versions) of(a journal.Active) int { return min(v.now(), a.MostVersion()) }

// told is what workers and attempts are told; 0: 1, as programs of before understand it.
func (v *versions) told() int {
	if n := v.now(); n > 1 {
		return n
	}
	return 0
}

// watch asks all coordinators again and again. A program of version 1 has nothing to find out.
func (v *versions) watch(ctx context.Context) error {
	if v.c.RecordVersion == 1 {
		return nil
	}
	pace := min(v.c.Patience.Remove/10, 10*time.Second)
	return every(ctx, pace, func(ctx context.Context) {
		answers, err := v.c.bus.Survey(ctx, subject.APIPing, min(pace, time.Second))
		if err != nil {
			answers = nil
		}
		if before := v.lowest.Load(); v.heard(answers, time.Now()) != int(before) {
			v.c.log.Info("the record version of all coordinators changed", "before", before, "now", v.lowest.Load())
		}
	})
}

// heard is a round of answers; none at all is one of which nothing is known. It gives what counts from now on.
func (v *versions) heard(answers [][]byte, now time.Time) int {
	least := v.c.RecordVersion
	if len(answers) == 0 {
		least = 1
	}
	for _, a := range answers {
		least = min(least, versionIn(a))
	}
	switch lowest := int(v.lowest.Load()); {
	case least <= lowest:
		v.lowest.Store(int64(least))
	case now.Sub(v.since) < v.c.Patience.Remove:
		v.next = min(v.next, least)
		return lowest
	default:
		v.lowest.Store(int64(min(v.next, least)))
	}
	v.next, v.since = v.c.RecordVersion, now
	return int(v.lowest.Load())
}

// versionIn is the record version in an answer to a ping.
func versionIn(answer []byte) int {
	n, err := strconv.Atoi(metadataIn(answer)[VersionKey])
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
