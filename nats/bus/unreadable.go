package bus

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Unreadable returns the keys of the bucket that NATS counts and does not give, in order. Who lists such a bucket waits
// for ever. Keys that expire or are deleted meanwhile are not among them. For small buckets: it asks for each key.
func (k *Bucket) Unreadable(ctx context.Context) ([]string, error) {
	counted, err := k.counted(ctx)
	if err != nil {
		return nil, err
	}
	for key := range counted {
		_, _, err := k.b.leaderGet(ctx, k.stream(), lookup{Subject: k.prefix() + key})
		if err == nil {
			delete(counted, key)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, k.mapErr(ctx, err)
		}
	}
	if len(counted) == 0 {
		return nil, nil
	}
	still, err := k.counted(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(counted, func(key string, n uint64) bool { return still[key] != n })
	return slices.Sorted(maps.Keys(counted)), nil
}

// EmptyIfUnreadable removes all keys of the bucket if NATS cannot read one of them, and reports whether it did. A
// single nats-server 2.15.2 never again writes such a key, and neither deletes it nor its message. Another process may
// have written the key again meanwhile: only for a bucket whose keys each process writes anew.
func (k *Bucket) EmptyIfUnreadable(ctx context.Context) (bool, error) {
	keys, err := k.Unreadable(ctx)
	if err != nil || len(keys) == 0 {
		return false, err
	}
	return true, purge(ctx, k.b.Conn, k.stream())
}

// counted returns how many messages NATS counts of each key, as the stream's leader says.
func (k *Bucket) counted(ctx context.Context) (map[string]uint64, error) {
	ctx, done := k.b.withDeadline(ctx, k.b.recordTimeout())
	defer done()
	s, err := k.b.js.Stream(ctx, k.stream())
	if err != nil {
		return nil, k.mapErr(ctx, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(k.prefix()+">"))
	if err != nil {
		return nil, k.mapErr(ctx, err)
	}
	all := map[string]uint64{}
	for subj, n := range info.State.Subjects {
		all[strings.TrimPrefix(subj, k.prefix())] = n
	}
	return all, nil
}
