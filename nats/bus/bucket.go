package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is a key-value bucket. Keys consist of letters, digits, and "-", "_", "=", ".", "/".
type Bucket struct {
	b    *Store
	name string
}

// Value is the value of a key.
type Value struct {
	Body []byte
	Rev  uint64
}

// Change is a change of a key.
type Change struct {
	Key string
	Value
	Deleted bool
}

// relistInterval is how often a watch compares itself with a full list.
const relistInterval = time.Minute

// Bucket returns the bucket of that name. It is looked up at its first use.
func (b *Store) Bucket(name string) *Bucket { return &Bucket{b, name} }

func (k *Bucket) kv(ctx context.Context) (jetstream.KeyValue, error) {
	if kv, ok := k.b.buckets.Load(k.name); ok {
		return kv.(jetstream.KeyValue), nil
	}
	kv, err := k.b.js.KeyValue(ctx, k.name)
	if err != nil {
		return nil, k.mapErr(ctx, err)
	}
	k.b.buckets.Store(k.name, kv)
	return kv, nil
}

func (k *Bucket) mapErr(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errorCode(err) == codeInFlight: // nats.go reports it as ErrKeyExists, but the key may never exist
		return unavailable(err)
	case errors.Is(err, jetstream.ErrKeyExists), errorCode(err) == codeWrongLast:
		return ErrTaken
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return ErrNotFound
	case errors.Is(err, jetstream.ErrInvalidKey):
		return fault.Wrap(fault.Invalid, "", "A key consists of letters, digits, '-', '_', '=', '.' and '/'", err)
	}
	return asFault(ctx, wrap("bucket "+k.name, err))
}

// write calls f, which writes a key. While another write of the key is in flight it waits up to a second for the
// outcome.
func (k *Bucket) write(ctx context.Context, f func(context.Context, jetstream.KeyValue) (uint64, error),
) (rev uint64, err error) {
	ctx, done := k.b.withStorage(ctx, k.stream(), k.b.recordTimeout())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return 0, err
	}
	for pause, end := 2*time.Millisecond, time.Now().Add(time.Second); ; pause *= 2 {
		rev, err := f(ctx, kv)
		k.b.sinks[k.stream()].noteRefusal(err)
		if errorCode(err) != codeInFlight || time.Now().Add(pause).After(end) || ctx.Err() != nil {
			return rev, k.mapErr(ctx, err)
		}
		clock.Sleep(ctx, pause)
	}
}

// Get returns the value of a key and its revision, or ErrNotFound.
func (k *Bucket) Get(ctx context.Context, key string) (body []byte, rev uint64, err error) {
	ctx, done := k.b.withDeadline(ctx, k.b.recordTimeout())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return nil, 0, err
	}
	if k.b.clustered() {
		m, header, err := k.b.leaderGet(ctx, k.stream(), lookup{Subject: k.prefix() + key})
		if err == nil && deleted(header) {
			err = ErrNotFound
		}
		if err != nil {
			return nil, 0, k.mapErr(ctx, err)
		}
		return m.Body, m.Seq, nil
	}
	e, err := kv.Get(ctx, key)
	if err != nil {
		return nil, 0, k.mapErr(ctx, err)
	}
	return e.Value(), e.Revision(), nil
}

// stream returns the name of the bucket's stream.
func (k *Bucket) stream() string { return "KV_" + k.name }

// prefix returns what the subjects of the keys begin with.
func (k *Bucket) prefix() string { return "$KV." + k.name + "." }

// deleted reports whether a message is a tombstone.
func deleted(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}

// Create sets a key that does not exist, or was deleted. The error is ErrTaken if it exists.
func (k *Bucket) Create(ctx context.Context, key string, body []byte) (rev uint64, err error) {
	return k.write(ctx, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		return kv.Create(ctx, key, body)
	})
}

// Put sets a key unconditionally.
func (k *Bucket) Put(ctx context.Context, key string, body []byte) (rev uint64, err error) {
	return k.write(ctx, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		return kv.Put(ctx, key, body)
	})
}

// Update sets a key whose revision is rev. The error is ErrTaken if it has another one.
func (k *Bucket) Update(ctx context.Context, key string, body []byte, rev uint64) (next uint64, err error) {
	return k.write(ctx, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		return kv.Update(ctx, key, body, rev)
	})
}

// Delete removes a key. A missing key is no error.
func (k *Bucket) Delete(ctx context.Context, key string) error { return k.DeleteRev(ctx, key, 0) }

// DeleteRev removes a key whose revision is rev (0: any). The error is ErrTaken if it has another one.
func (k *Bucket) DeleteRev(ctx context.Context, key string, rev uint64) error {
	_, err := k.write(ctx, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		return 0, kv.Delete(ctx, key, jetstream.LastRevision(rev))
	})
	return err
}

// List returns every key with its value, as of the call or later.
func (k *Bucket) List(ctx context.Context) (map[string]Value, error) {
	ctx, done := k.b.withConnection(ctx)
	defer done()
	timeout := firstTryTimeout
	if !k.b.clustered() {
		timeout = requestTimeout
	}
	for ; ; timeout = nextTryTimeout(timeout) {
		all := map[string]Value{}
		newest, err := k.newest(ctx)
		if err == nil {
			var read uint64
			err = k.watch(ctx, timeout, func(c Change) error {
				read = c.Rev
				if c.Deleted {
					delete(all, c.Key)
				} else {
					all[c.Key] = c.Value
				}
				return nil
			}, func() (bool, error) {
				if read < newest {
					return true, errReplicaBehind
				}
				return true, nil
			})
		}
		if err == nil || ctx.Err() != nil || !k.b.clustered() {
			return all, err
		}
		clock.Sleep(ctx, 100*time.Millisecond) // until there is another leader, or the replica has caught up
	}
}

// Keys returns the existing keys in no order, and the bucket's size in bytes.
func (k *Bucket) Keys(ctx context.Context) (keys []string, bytes uint64, err error) {
	ctx, done := k.b.withDeadline(ctx, k.b.recordTimeout())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return nil, 0, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, 0, k.mapErr(ctx, err)
	}
	if status.Values() == 0 {
		return nil, status.Bytes(), nil
	}
	keys, err = kv.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, status.Bytes(), nil
	}
	return keys, status.Bytes(), k.mapErr(ctx, err)
}

var errReplicaBehind = errors.New("the replica has not caught up")

// newest returns the revision of the last change, from the leader, since the consumer of a list may be at a replica
// that lags. 0: there is no change, or no cluster.
func (k *Bucket) newest(ctx context.Context) (rev uint64, err error) {
	if !k.b.clustered() {
		return 0, nil
	}
	m, _, err := k.b.leaderGet(ctx, k.stream(), lookup{Subject: k.prefix() + ">"})
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return m.Seq, err
}

// Watch calls f with every existing key, then with every change, until ctx ends or f fails. listed is the
// result of an earlier List: f then gets only the differences. A full list every minute and after each
// reconnect recovers missed changes. f gets each revision once, also deletions of keys that it never got.
func (k *Bucket) Watch(ctx context.Context, listed map[string]Value, f func(Change) error) error {
	w := watcher{Bucket: k, f: f, known: make(map[string]uint64, len(listed))}
	for key, v := range listed {
		w.known[key] = v.Rev
	}
	var logged time.Time
	for timeout := firstTryTimeout; ; timeout = nextTryTimeout(timeout) {
		err := w.round(ctx, timeout)
		if w.listed {
			timeout = 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stop, ok := errors.AsType[*callbackError](err); ok {
			return stop.err
		}
		if err == nil {
			continue
		}
		if k.b.Connected() && time.Since(logged) > 5*time.Second { // a lost connection is logged elsewhere
			k.b.log.Warn("restarting the watch of a bucket", "bucket", k.name, "err", err)
			logged = time.Now()
		}
		clock.Sleep(ctx, 200*time.Millisecond)
	}
}

// watcher is a running Watch.
type watcher struct {
	*Bucket
	f      func(Change) error
	known  map[string]uint64 // the revisions that f got, also of deletions
	seen   map[string]bool   // the keys of this round's list
	listed bool              // this round's list is complete
}

// round reads a full list and follows the changes until the next list is due. Then it returns nil.
func (w *watcher) round(ctx context.Context, timeout time.Duration) error {
	round, cancel := context.WithTimeout(ctx, relistInterval)
	defer cancel()
	w.seen, w.listed = map[string]bool{}, false
	err := w.watch(round, timeout, w.apply, func() (bool, error) {
		w.listed = true
		return false, w.applyMissing(round)
	})
	if _, ours := errors.AsType[*callbackError](err); !ours && round.Err() != nil {
		return nil
	}
	return err
}

// apply passes a change to f unless f has it. A deletion is passed as well if f never got the key: f may have put it.
func (w *watcher) apply(c Change) error {
	if !w.listed {
		w.seen[c.Key] = true
	}
	switch known := w.known[c.Key]; {
	case known == c.Rev, known > c.Rev && w.b.clustered(): // a replica may lag
		return nil
	case known > c.Rev: // the server has lost its last changes: f may ignore revisions before those
		if err := w.f(Change{Key: c.Key, Deleted: true}); err != nil {
			return err
		}
	}
	w.known[c.Key] = c.Rev
	return w.f(c)
}

// applyMissing passes the keys that are not in the list to f as deleted.
func (w *watcher) applyMissing(ctx context.Context) error {
	for key := range w.known {
		if w.seen[key] {
			continue
		}
		// A replica that lags may have made the list: ask for the key.
		if _, _, err := w.Get(ctx, key); err == nil {
			continue
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		delete(w.known, key)
		if err := w.f(Change{Key: key, Deleted: true}); err != nil {
			return &callbackError{err}
		}
	}
	return nil
}

// watch calls f with the newest change of every key, then listed, then f with new changes, unless listed
// reports that the list is enough. An error of f comes back as *callbackError.
func (k *Bucket) watch(
	ctx context.Context, timeout time.Duration, f func(Change) error, listed func() (enough bool, err error),
) error {
	enough := errors.New("enough")
	list := func() error {
		if done, err := listed(); err != nil || !done {
			return err
		}
		return enough
	}
	var before uint64 // messages until the list is complete
	started := func(pending uint64) error {
		before = pending
		if before == 0 {
			return list()
		}
		return nil
	}
	newest := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{k.prefix() + ">"},
	}
	read := func(m jetstream.Msg, o origin) error {
		key := strings.TrimPrefix(m.Subject(), k.prefix())
		c := Change{Key: key, Value: Value{m.Data(), o.stream}, Deleted: deleted(m.Headers())}
		if err := f(c); err != nil {
			return &callbackError{err}
		}
		if before > 0 && (o.consumer >= before || o.pending == 0) {
			before = 0
			return list()
		}
		return nil
	}
	err := k.b.consume(ctx, k.b.link.Load(), k.stream(), newest, timeout, started, read)
	switch {
	case err == enough:
		return nil
	case errors.Is(err, errLost): // NATS did not refuse: it hung, or was not reachable for a moment
		return unavailable(wrap("bucket "+k.name, err))
	}
	return k.mapErr(ctx, err)
}

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
