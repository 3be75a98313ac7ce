package bus

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
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

// Rescue removes the keys of the bucket that NATS cannot read, and reports whether there were any. A single nats-server
// 2.15.2 never again writes such a key, and deletes it only with all others; these are written again. What another
// process writes meanwhile may be lost, and a crash may lose all: only for a bucket that each process fills by itself.
func (k *Bucket) Rescue(ctx context.Context) (bool, error) {
	if k.b.clustered() { // another server has it
		return false, nil
	}
	keys, err := k.Unreadable(ctx)
	if err != nil || len(keys) == 0 {
		return false, err
	}
	counted, err := k.counted(ctx)
	if err != nil {
		return false, err
	}
	readable := map[string][]byte{}
	for key := range counted {
		body, _, err := k.Get(ctx, key)
		if err == nil && !slices.Contains(keys, key) {
			readable[key] = body
		} else if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
	}
	if err := purge(ctx, k.b.Conn, k.stream()); err != nil {
		return false, err
	}
	for key, body := range readable {
		if _, err := k.Put(ctx, key, body); err != nil {
			return true, err
		}
	}
	return true, nil
}

// counted returns how many messages NATS counts of each key, as the stream's leader says.
func (k *Bucket) counted(ctx context.Context) (map[string]uint64, error) {
	subjects, err := countedSubjects(ctx, k.b.Conn, k.stream(), k.prefix()+">")
	all := map[string]uint64{}
	for subj, n := range subjects {
		all[strings.TrimPrefix(subj, k.prefix())] = n
	}
	return all, k.mapErr(ctx, err)
}
