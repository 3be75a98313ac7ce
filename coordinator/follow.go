package coordinator

import (
	"context"

	"ao/nats/bus"
)

// insistence does again and again what NATS does not answer.
type insistence func(ctx context.Context, what string, f func() error) error

// watch reads a bucket once, says so, and follows it until ctx ends. A deleted key has no value.
func watch(ctx context.Context, b *bus.Bucket, insist insistence, put func(key string, value []byte), read func()) error {
	have, err := list(ctx, b, insist)
	if err != nil {
		return err
	}
	for key, v := range have {
		put(key, v.Body)
	}
	read()
	return b.Watch(ctx, have, func(ch bus.Change) error {
		if ch.Deleted {
			ch.Body = nil
		}
		put(ch.Key, ch.Body)
		return nil
	})
}

// list is what a bucket has.
func list(ctx context.Context, b *bus.Bucket, insist insistence) (all map[string]bus.Value, err error) {
	err = insist(ctx, "what is registered", func() (err error) {
		all, err = b.List(ctx)
		return err
	})
	return all, err
}
