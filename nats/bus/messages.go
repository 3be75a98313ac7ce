package bus

import (
	"context"
	"maps"
	"strconv"

	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// NATS keeps each subject of a stream in memory, also after a restart. Every message may have one of its own, so the
// streams have limits of messages. All of them together fit into three quarters of the server's memory.

// SubjectMemory is the memory of NATS that a subject takes, in bytes. BenchmarkMemoryOfSubjects measures it.
const SubjectMemory = 320

// shares are the streams' shares of all messages. Together they are one.
var shares = map[string]int64{
	subject.Runs: 22, subject.Events: 7, subject.Inbox: 1, subject.Rejected: 1, subject.Audit: 1,
}

const allShares = 32

// minMessages is the smallest limit, for a server with little memory.
const minMessages = 10_000

// Messages returns how many messages a stream may hold if NATS has so many bytes of memory. It is 0 for buckets.
func Messages(stream string, memory int64) int64 {
	if shares[stream] == 0 {
		return 0
	}
	return max(memory/4*3/SubjectMemory*shares[stream]/allShares, minMessages)
}

// limitedKey has the limit of messages that a coordinator gave a stream. Another one is an operator's, and stays.
const limitedKey = "ao.max_msgs"

// limitMessages gives an existing stream its limit. One of an older version, or one whose NATS has less memory now, may
// hold twice what it has, so nothing is lost. But no limit grows beyond what it was, unless the memory does.
func (b *setup) limitMessages(ctx context.Context, stream jetstream.Stream) error {
	have := stream.CachedInfo().Config
	most, twice := Messages(have.Name, b.cfg.Memory), 2*int64(stream.CachedInfo().State.Msgs)
	switch {
	case have.MaxMsgs <= 0:
		most = max(most, twice)
	case have.Metadata[limitedKey] != strconv.FormatInt(have.MaxMsgs, 10):
		return nil // an operator's
	default:
		most = max(most, min(twice, have.MaxMsgs))
	}
	if have.MaxMsgs == most {
		return nil
	}
	have.MaxMsgs, have.Metadata = most, withLimit(have.Metadata, most)
	_, err := b.js.UpdateStream(ctx, have)
	if diskFull(err) { // it goes on with the limit that it has
		b.log.WarnContext(ctx, "a stream's limit of messages was not changed", "stream", have.Name, "err", err)
		return nil
	}
	return err
}

// withLimit returns metadata that says that a limit is a coordinator's.
func withLimit(have map[string]string, most int64) map[string]string {
	next := map[string]string{}
	maps.Copy(next, have)
	next[limitedKey] = strconv.FormatInt(most, 10)
	return next
}
