package simulation

import (
	"context"

	"ao/nats/bus"
)

// bucket is a simulated key-value bucket, as one process reaches it.
type bucket struct {
	c    *client
	name string
}

type value struct {
	body []byte
	rev  uint64
}

func (c *client) bucket(name string) bucket { return bucket{c, name} }

// Get is bus.Bucket's.
func (b bucket) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	v, err := ask(ctx, b.c, "key", func() (value, error) {
		v, ok := b.c.values[b.name+"/"+key]
		if !ok {
			return v, bus.ErrNotFound
		}
		return v, nil
	})
	return v.body, v.rev, err
}

// Create is bus.Bucket's.
func (b bucket) Create(ctx context.Context, key string, body []byte) (uint64, error) {
	return ask(ctx, b.c, "key", func() (uint64, error) {
		if _, ok := b.c.values[b.name+"/"+key]; ok {
			return 0, bus.ErrTaken
		}
		b.c.revisions++
		b.c.values[b.name+"/"+key] = value{body, b.c.revisions}
		return b.c.revisions, nil
	})
}

// Update is bus.Bucket's.
func (b bucket) Update(ctx context.Context, key string, body []byte, rev uint64) (uint64, error) {
	return ask(ctx, b.c, "key", func() (uint64, error) {
		if b.c.values[b.name+"/"+key].rev != rev {
			return 0, bus.ErrTaken
		}
		b.c.revisions++
		b.c.values[b.name+"/"+key] = value{body, b.c.revisions}
		return b.c.revisions, nil
	})
}

// Rescue does nothing: no bucket rots here.
func (bucket) Rescue(context.Context) (bool, error) { return false, nil }

// insistingBucket asks until NATS answers.
type insistingBucket struct{ bucket }

func (b insistingBucket) Create(ctx context.Context, key string, body []byte) (rev uint64, err error) {
	err = insist(ctx, "", func() error { rev, err = b.bucket.Create(ctx, key, body); return err })
	return rev, err
}

func (b insistingBucket) Get(ctx context.Context, key string) (body []byte, rev uint64, err error) {
	err = insist(ctx, "", func() error { body, rev, err = b.bucket.Get(ctx, key); return err })
	return body, rev, err
}
