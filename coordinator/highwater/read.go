package highwater

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
)

// read returns the newest mark: of the bucket, of this process, or of its file. The caller holds mu.
func (k *Keeper) read(ctx context.Context) (m *mark, rev uint64, err error) {
	raw, rev, err := k.Bucket.Get(ctx, subject.MarkKey)
	if err == nil {
		m, err = decode(k, raw)
		if err != nil {
			k.Log.Error("the high-water mark in NATS is unreadable; the one in the data folder counts", "err", err)
			m, err = nil, nil
		}
	}
	if errors.Is(err, stream.ErrNotFound) {
		err = rescue(ctx, k)
	}
	if err != nil {
		return nil, 0, err
	}
	own := k.known
	if own == nil && k.Dir != "" {
		own, err = readFile(k.Dir)
		if err != nil {
			k.Log.Warn("the high-water mark in the data folder is unreadable", "err", err)
		}
		if own != nil && (m == nil || m.Incarnation == own.Incarnation) {
			k.handled = own.Generation
		}
	}
	if rev == 0 && own != nil && !k.rescued.IsZero() { // how many records there were since then, nobody knows
		own = own.withRemoval("what the unreadable mark told of", k.rescued)
	}
	return newer(m, own), rev, nil
}

// rescue removes a mark that NATS cannot read. Each process then writes the newest one that it knows. The caller holds
// mu.
func rescue(ctx context.Context, k *Keeper) error {
	removed, err := k.Bucket.Rescue(ctx)
	if removed {
		k.rescued = time.Now()
		k.Log.Error("NATS could not read the high-water mark; coordinators write what they know of it again. " +
			"Losses that only it told of are not noticed: run 'ao verify'")
	}
	return err
}

// decode returns the mark that a value holds. It is read often and changes seldom, so the last one is kept: nobody
// changes a mark that was read. The caller holds mu.
func decode(k *Keeper, raw []byte) (*mark, error) {
	if k.decoded != nil && bytes.Equal(raw, k.raw) {
		return k.decoded, nil
	}
	m := new(mark)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, err
	}
	k.raw, k.decoded = raw, m
	return m, nil
}

// newer returns the mark that says more. The bucket's mark is of the stream beside it; the other one may be of the
// stream before.
func newer(bucket, own *mark) *mark {
	switch {
	case own == nil || bucket != nil && bucket.Incarnation != own.Incarnation:
		return bucket
	case bucket == nil, own.Generation > bucket.Generation,
		own.Generation == bucket.Generation && own.Seq > bucket.Seq:
		return own
	}
	return bucket
}
