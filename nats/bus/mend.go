package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

// A list stalls if its next key does not come for stallTimeout.
const stallTimeout = 2 * time.Second

var errStalled = errors.New("NATS counts more keys than it gives")

// The limits of mending a bucket: more keys, or a longer time, are left to 'ao restore'.
const (
	mostMended  = 10_000
	mendTimeout = time.Minute
)

// Mend lists a bucket that is not listed otherwise, so that unreadable keys are found and removed.
func (k *Bucket) Mend(ctx context.Context) error {
	for {
		err := k.watch(ctx, requestTimeout, func(Change) error { return nil },
			func() (bool, error) { return true, nil })
		if !errors.Is(err, errStalled) || !k.mend(ctx) {
			return k.mapErr(ctx, err)
		}
	}
}

// mend removes the keys of a bucket that a single server counts and cannot read, and reports whether the bucket can be
// listed now. The server would stop writing to the bucket once such a key is written. Only a purge of all keys removes
// one. So the others are copied first, and come back from the copy. What another process writes in between is lost.
func (k *Bucket) mend(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, mendTimeout)
	defer cancel()
	have, lost, err := k.readable(ctx)
	if err == nil && len(lost) == 0 {
		return true // it was slow
	}
	if err == nil {
		err = k.replace(ctx, have)
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		err = k.b.finishMending(ctx)
		if err == nil || fault.KindOf(err) == fault.Unavailable {
			clock.Sleep(ctx, time.Second)
			return true
		}
	}
	if err != nil {
		k.b.log.ErrorContext(ctx, "a bucket has keys that NATS cannot read; restore a backup with 'ao restore'",
			"bucket", k.name, "keys", lost, "err", err)
		return false
	}
	k.b.log.ErrorContext(ctx, "a bucket has lost keys that NATS could not read; store them again", "bucket", k.name,
		"keys", lost)
	k.b.lost.Store(k.name, lost)
	return true
}

// LostKeys returns the keys that were unreadable and were removed by this process, by bucket.
func (b *Store) LostKeys() map[string][]string {
	all := map[string][]string{}
	b.lost.Range(func(bucket, keys any) bool {
		all[bucket.(string)] = keys.([]string)
		return true
	})
	return all
}

// readable reads each key that NATS counts. lost are those that it does not give.
func (k *Bucket) readable(ctx context.Context) (have map[string][]byte, lost []string, err error) {
	s, err := k.b.js.Stream(ctx, k.stream())
	if err != nil {
		return nil, nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(k.prefix()+">"))
	if err != nil {
		return nil, nil, err
	}
	if n := len(info.State.Subjects); n > mostMended {
		return nil, nil, fmt.Errorf("it has %d keys", n)
	}
	have = map[string][]byte{}
	for _, subj := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		key := strings.TrimPrefix(subj, k.prefix())
		m, err := s.GetLastMsgForSubject(ctx, subj)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			lost = append(lost, key)
		case err != nil:
			return nil, nil, err
		case !deleted(m.Header):
			have[key] = m.Data
		}
	}
	return have, lost, nil
}

// replace purges the bucket and stores these keys. Whoever has created the bucket of copies may do that.
func (k *Bucket) replace(ctx context.Context, keys map[string][]byte) error {
	copies, err := k.b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: subject.Mending,
		Storage: jetstream.FileStorage, Description: k.name})
	if err != nil {
		return err
	}
	for key, body := range keys {
		if _, err := copies.Put(ctx, key, body); err != nil {
			return err
		}
	}
	s, err := k.b.js.Stream(ctx, k.stream())
	if err == nil {
		err = s.Purge(ctx)
	}
	if err != nil {
		return err
	}
	return k.restore(ctx)
}

// restore stores the copies of the bucket's keys, unless newer ones are there, and removes them.
func (k *Bucket) restore(ctx context.Context) error {
	all, err := k.b.Bucket(subject.Mending).List(ctx)
	if err != nil {
		return err
	}
	for key, v := range all {
		if _, err := k.Create(ctx, key, v.Body); err != nil && !errors.Is(err, ErrTaken) {
			return err
		}
	}
	return k.b.js.DeleteKeyValue(ctx, subject.Mending)
}

// finishMending does what a process has left undone that ended while it mended a bucket. The error is an Unavailable
// fault while another one may still do that.
func (b *Store) finishMending(ctx context.Context) error {
	s, err := b.js.Stream(ctx, b.Bucket(subject.Mending).stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	i := s.CachedInfo()
	if time.Since(i.Created) < 2*mendTimeout {
		return fault.New(fault.Unavailable, "", "another coordinator removes unreadable keys from the bucket "+
			i.Config.Description).After(time.Second)
	}
	return b.Bucket(i.Config.Description).restore(ctx)
}
