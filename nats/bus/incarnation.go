package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"
)

// InboxPastKey is a key of the inbox stream's metadata. A restored inbox has it: the stream's earlier incarnation, and
// the last sequence of that one; a comma list after several restores. Messages up to there keep their keys.
const InboxPastKey = "ao.inbox.before"

// InboxPast returns the value of InboxPastKey for an inbox that is restored now. It was created at that time, had
// given sequences up to last, and had the value before.
func InboxPast(before string, created time.Time, last uint64) string {
	entry := fmt.Sprintf("%s@%d", incarnation(created), last)
	if before == "" {
		return entry
	}
	return before + "," + entry
}

func incarnation(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// inboxKey returns the key of a message. An inbox that was deleted and created again gives the same sequences to
// other messages.
func inboxKey(before string, created time.Time, seq uint64) string {
	of := incarnation(created)
	for past := range strings.SplitSeq(before, ",") {
		name, until, _ := strings.Cut(past, "@")
		if last, err := strconv.ParseUint(until, 10, 64); err == nil && seq <= last {
			of = name
			break
		}
	}
	return of + "-" + strconv.FormatUint(seq, 10)
}

// inboxKeys returns the function that makes a message's key. It waits until the stream exists.
func (b *Queues) inboxKeys(ctx context.Context) (func(seq uint64) string, error) {
	for {
		s, err := b.js.Stream(ctx, subject.Inbox)
		if err == nil {
			i := s.CachedInfo()
			return func(seq uint64) string { return inboxKey(i.Config.Metadata[InboxPastKey], i.Created, seq) }, nil
		}
		if ctx.Err() == nil {
			b.log.WarnContext(ctx, "waiting for the inbox stream", "err", err)
			clock.Sleep(ctx, time.Second)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
