package bus

import "context"

// RetryFunc calls f until NATS answers: f succeeds, is refused, or ctx ends.
type RetryFunc func(ctx context.Context, what string, f func() error) error

// Mirror passes all keys to put, calls ready, and then passes changes until ctx ends. A deleted key has no value.
func (k *Bucket) Mirror(
	ctx context.Context, retry RetryFunc, put func(key string, value []byte, rev uint64), ready func(),
) error {
	var have map[string]Value
	err := retry(ctx, "what is registered", func() (err error) {
		have, err = k.List(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for key, v := range have {
		put(key, v.Body, v.Rev)
	}
	ready()
	return k.Watch(ctx, have, func(ch Change) error {
		if ch.Deleted {
			ch.Body = nil
		}
		put(ch.Key, ch.Body, ch.Rev)
		return nil
	})
}
