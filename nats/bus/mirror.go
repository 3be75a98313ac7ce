package bus

import "context"

// RetryFunc does again and again what NATS does not answer, until it is done or refused, or ctx ends.
type RetryFunc func(ctx context.Context, what string, f func() error) error

// Mirror reads the bucket once, says so, and follows it until ctx ends. A deleted key has no value.
func (k *Bucket) Mirror(ctx context.Context, insist RetryFunc, put func(key string, value []byte, rev uint64), read func()) error {
	var have map[string]Value
	err := insist(ctx, "what is registered", func() (err error) {
		have, err = k.List(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for key, v := range have {
		put(key, v.Body, v.Rev)
	}
	read()
	return k.Watch(ctx, have, func(ch Change) error {
		if ch.Deleted {
			ch.Body = nil
		}
		put(ch.Key, ch.Body, ch.Rev)
		return nil
	})
}
