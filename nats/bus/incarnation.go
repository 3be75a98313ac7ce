package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/nats/subject"
)

// InboxPastKey is a member of the inbox stream's metadata, which a restored inbox has: what the stream was before, and up to which
// sequence; with commas where it was restored several times. Messages up to there keep their keys.
const InboxPastKey = "ao.inbox.before"

// InboxPast is what InboxBefore is to say of an inbox that was made then, had given sequences up to last, and is restored now;
// before is what it said until now.
func InboxPast(before string, created time.Time, last uint64) string {
	this := fmt.Sprintf("%s@%d", incarnation(created), last)
	if before == "" {
		return this
	}
	return before + "," + this
}

func incarnation(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// inboxKey names the message of a sequence: an inbox that was deleted and made again gives the same sequences to others.
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

// inboxKeys gives the inbox's messages their keys. It waits for a stream that isn't there.
func (b *Queues) inboxKeys(ctx context.Context) (func(seq uint64) string, error) {
	for {
		s, err := b.js.Stream(ctx, subject.Inbox)
		if err == nil {
			i := s.CachedInfo()
			return func(seq uint64) string { return inboxKey(i.Config.Metadata[InboxPastKey], i.Created, seq) }, nil
		}
		if ctx.Err() == nil {
			b.log.WarnContext(ctx, "waiting for the inbox", "err", err)
			rest(ctx, time.Second)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
