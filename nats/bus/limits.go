package bus

import (
	"context"

	"ao/nats/subject"
)

// Every stream, bucket and the object store have a limit, and together they have no more than NATS may store. A server
// that stores more than max_file_store switches JetStream off, for all of them.

// The smallest limits, for a server with little space.
const (
	minStreamBytes = 8 << 20
	minBucketBytes = 1 << 20
)

// bucketBytes are the limits of the buckets, where there is space for everything.
var bucketBytes = map[string]int64{
	subject.Agents: 128 << 20, subject.Schemas: 64 << 20, subject.Drafts: 96 << 20,
	subject.Runners: 256 << 20, subject.TaskQueues: 16 << 20,
	subject.Reservations: 256 << 20, subject.Logins: 16 << 20,
	subject.Secrets: minBucketBytes, subject.HighWater: 16 << 20,
}

// limited is a stream that has a limit besides those of streams: a bucket or the object store.
type limited struct {
	stream string
	bytes  int64 // the limit where there is space for everything
	least  int64
}

func limitOf(bucket string) limited {
	return limited{"KV_" + bucket, bucketBytes[bucket], minBucketBytes}
}

func (b *setup) payloadLimit() limited {
	return limited{payloadStream, b.cfg.PayloadMaxBytes, minStreamBytes}
}

// sum returns the configured size of everything that is stored.
func (b *setup) sum() (bytes int64) {
	for _, cfg := range b.streams() {
		bytes += cfg.MaxBytes
	}
	for _, l := range b.limitedStreams() {
		bytes += l.bytes
	}
	return bytes
}

// size returns the limit to begin with: scaled like RUNS.
func (b *setup) size(l limited) int64 { return max(int64(float64(l.bytes)*b.share), l.least) }

// limitAll gives those that have no limit one, in place: their shares, or as much as NATS has left. If NATS has nothing
// left, EVENTS gives half of its own. A limit that exists stays: it may be an operator's.
func (b *setup) limitAll(ctx context.Context) {
	var missing []limited
	var whole, least int64
	for _, l := range b.limitedStreams() {
		s, err := b.js.Stream(ctx, l.stream)
		if err != nil || s.CachedInfo().Config.MaxBytes > 0 {
			continue // whoever uses it gets the error
		}
		l.least = max(l.least, int64(s.CachedInfo().State.Bytes)/4*5) // what is there stays, and some room
		missing = append(missing, l)
		whole, least = whole+b.size(l), least+l.least
	}
	if len(missing) == 0 {
		return
	}
	// The first one takes the space of all, so that it cannot leave nothing for the last.
	got, err := b.reserve(ctx, missing[0].stream, whole, least)
	if noSpaceLeft(err) {
		b.halveEvents(ctx)
		got, err = b.reserve(ctx, missing[0].stream, whole, least)
	}
	share := fraction(got-least+1, whole-least+1)
	for _, l := range missing {
		if err == nil { // the least, and a share of what is more
			size := l.least + int64(float64(b.size(l)-l.least)*share)
			_, err = b.reserve(ctx, l.stream, size, size)
			b.log.InfoContext(ctx, "a stream without a limit gets one", "stream", l.stream, "max_bytes", size, "err",
				err)
		}
	}
	if err != nil {
		b.log.ErrorContext(ctx, "not every stream has a limit: what is stored there may fill max_file_store, and stop "+
			"all writes; set the limits ('nats stream edit --max-bytes')", "err", err)
	}
}

// limitedStreams returns the object store and the buckets.
func (b *setup) limitedStreams() []limited {
	all := []limited{b.payloadLimit()}
	for _, name := range bucketNames {
		all = append(all, limitOf(name))
	}
	return all
}

// reserve gives a stream a limit, halved until NATS has the space, but at least least.
func (b *setup) reserve(ctx context.Context, stream string, size, least int64) (got int64, err error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	for cfg := s.CachedInfo().Config; ; size = max(size/2, least) {
		cfg.MaxBytes = size
		_, err := b.js.UpdateStream(ctx, cfg)
		if !noSpaceLeft(err) || size == least {
			return size, err
		}
	}
}

// halveEvents gives half of the space of EVENTS back, whose oldest messages are the first that may go.
func (b *setup) halveEvents(ctx context.Context) {
	s, err := b.js.Stream(ctx, subject.Events)
	if err != nil {
		return
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxBytes < 2*minStreamBytes {
		return
	}
	cfg.MaxBytes /= 2
	if _, err := b.js.UpdateStream(ctx, cfg); err == nil {
		b.log.WarnContext(ctx, "NATS has reserved all of its space (max_file_store) for other streams: EVENTS keeps "+
			"half as much, so that buckets and payloads have limits", "max_bytes", cfg.MaxBytes)
	}
}

// StreamNames returns the streams, with those of the object store and the buckets. RUNS is the first.
func StreamNames() []string {
	all := []string{subject.Runs, subject.Events, subject.Inbox, subject.Rejected, subject.Audit, payloadStream}
	for _, name := range bucketNames {
		all = append(all, "KV_"+name)
	}
	return all
}
