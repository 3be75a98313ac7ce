package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is a key-value bucket. Keys are letters, digits, and "-", "_", "=", ".", "/".
type Bucket struct {
	b    *Store
	name string
}

// Value is what a bucket keeps under a key.
type Value struct {
	Body []byte
	Rev  uint64
	Time time.Time
}

// Change is what happened to a key.
type Change struct {
	Key string
	Value
	Deleted bool
}

// relist is how often a watch compares itself with a full list.
const relist = time.Minute

// Bucket gives the bucket of that name; it is looked for at the first use.
func (b *Store) Bucket(name string) *Bucket { return &Bucket{b, name} }

func (k *Bucket) kv(ctx context.Context) (jetstream.KeyValue, error) {
	if kv := k.b.buckets.get(k.name); kv != nil {
		return kv, nil
	}
	kv, err := k.b.js.KeyValue(ctx, k.name)
	if err != nil {
		return nil, k.err(ctx, err)
	}
	k.b.buckets.put(k.name, kv)
	return kv, nil
}

// buckets are those that were found.
type buckets struct {
	mu  sync.Mutex
	all map[string]jetstream.KeyValue
}

// get gives a bucket; nil: it was not found yet.
func (s *buckets) get(name string) jetstream.KeyValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func (s *buckets) put(name string, kv jetstream.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]jetstream.KeyValue{}
	}
	s.all[name] = kv
}

func (k *Bucket) err(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == codeInFlight: // nats.go takes it for ErrKeyExists, but there may never be such a key
		return unreachable(err)
	case errors.Is(err, jetstream.ErrKeyExists), code(err) == codeWrongLast:
		return ErrTaken
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return ErrNotFound
	case errors.Is(err, jetstream.ErrInvalidKey):
		return fault.Wrap(fault.Invalid, "", "A key is letters, digits, '-', '_', '=', '.' and '/'", err)
	}
	return away(ctx, wrap("bucket "+k.name, err))
}

// expect writes what depends on a revision. While another write of the key is on its way, which in a cluster may come to
// nothing, it waits a moment for what becomes of that.
func (k *Bucket) expect(ctx context.Context, write func() (uint64, error)) (uint64, error) {
	for pause, end := 2*time.Millisecond, time.Now().Add(time.Second); ; pause *= 2 {
		rev, err := write()
		if code(err) != codeInFlight || time.Now().Add(pause).After(end) || ctx.Err() != nil {
			return rev, k.err(ctx, err)
		}
		rest(ctx, pause)
	}
}

// Get gives the value of a key and its revision, or ErrNotFound.
func (k *Bucket) Get(ctx context.Context, key string) (body []byte, rev uint64, err error) {
	ctx, done := k.b.within(ctx, k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return nil, 0, err
	}
	if k.b.clustered() {
		m, header, err := k.b.leaders(ctx, k.stream(), lookup{Subject: k.prefix() + key})
		if err == nil && deleted(header) {
			err = ErrNotFound
		}
		if err != nil {
			return nil, 0, k.err(ctx, err)
		}
		return m.Body, m.Seq, nil
	}
	e, err := kv.Get(ctx, key)
	if err != nil {
		return nil, 0, k.err(ctx, err)
	}
	return e.Value(), e.Revision(), nil
}

// stream is the bucket's stream, and prefix what the subjects of its keys begin with.
func (k *Bucket) stream() string { return "KV_" + k.name }
func (k *Bucket) prefix() string { return "$KV." + k.name + "." }

// deleted says that a message is the mark of a key that was deleted.
func deleted(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}

// Create sets a key that isn't there, or was deleted; ErrTaken: it is there.
func (k *Bucket) Create(ctx context.Context, key string, body []byte) (rev uint64, err error) {
	ctx, done := k.b.writing(ctx, k.stream(), k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return 0, err
	}
	return k.expect(ctx, func() (uint64, error) { return kv.Create(ctx, key, body) })
}

// Put sets a key, whatever it was.
func (k *Bucket) Put(ctx context.Context, key string, body []byte) (rev uint64, err error) {
	ctx, done := k.b.writing(ctx, k.stream(), k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return 0, err
	}
	rev, err = kv.Put(ctx, key, body)
	return rev, k.err(ctx, err)
}

// Update sets a key whose revision is rev; ErrTaken: somebody changed it.
func (k *Bucket) Update(ctx context.Context, key string, body []byte, rev uint64) (next uint64, err error) {
	ctx, done := k.b.writing(ctx, k.stream(), k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return 0, err
	}
	return k.expect(ctx, func() (uint64, error) { return kv.Update(ctx, key, body, rev) })
}

// Delete removes a key; one that isn't there is no error.
func (k *Bucket) Delete(ctx context.Context, key string) error {
	ctx, done := k.b.writing(ctx, k.stream(), k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return err
	}
	return k.err(ctx, kv.Delete(ctx, key))
}

// DeleteRev removes a key whose revision is rev; ErrTaken: somebody changed it.
func (k *Bucket) DeleteRev(ctx context.Context, key string, rev uint64) error {
	ctx, done := k.b.writing(ctx, k.stream(), k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return err
	}
	_, err = k.expect(ctx, func() (uint64, error) { return 0, kv.Delete(ctx, key, jetstream.LastRevision(rev)) })
	return err
}

// List gives every key with its value, as it was when List began or later.
func (k *Bucket) List(ctx context.Context) (map[string]Value, error) {
	ctx, done := k.b.linked(ctx)
	defer done()
	most := impatience
	if !k.b.clustered() {
		most = patience
	}
	for ; ; most = more(most) {
		all := map[string]Value{}
		newest, err := k.newest(ctx)
		if err == nil {
			var read uint64
			err = k.watch(ctx, most, func(c Change) error {
				read = c.Rev
				if c.Deleted {
					delete(all, c.Key)
				} else {
					all[c.Key] = c.Value
				}
				return nil
			}, func() (bool, error) {
				if read < newest {
					return true, errBehind
				}
				return true, nil
			})
		}
		if err == nil || ctx.Err() != nil || !k.b.clustered() {
			return all, err
		}
		rest(ctx, 100*time.Millisecond) // another leader will come, or the replica catch up
	}
}

// Keys are the keys that are there, in no order, and how many bytes the bucket takes.
func (k *Bucket) Keys(ctx context.Context) (keys []string, bytes uint64, err error) {
	ctx, done := k.b.within(ctx, k.b.brief())
	defer done()
	kv, err := k.kv(ctx)
	if err != nil {
		return nil, 0, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, 0, k.err(ctx, err)
	}
	if status.Values() == 0 {
		return nil, status.Bytes(), nil
	}
	keys, err = kv.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, status.Bytes(), nil
	}
	return keys, status.Bytes(), k.err(ctx, err)
}

var errBehind = errors.New("the replica has yet to catch up")

// newest is the revision of the last change, which in a cluster only the leader is sure to have: the consumer of a list may be at a
// replica that lags behind. 0: there is none, or no other replica.
func (k *Bucket) newest(ctx context.Context) (rev uint64, err error) {
	if !k.b.clustered() {
		return 0, nil
	}
	m, _, err := k.b.leaders(ctx, k.stream(), lookup{Subject: k.prefix() + ">"})
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return m.Seq, err
}

// Watch calls f with every key that is there, and then with every change, until ctx ends or f errs. Should the
// watcher die in silence, a full list every minute and after each reconnect brings what it missed; f sees a
// revision once, and a deletion perhaps twice. listed is what the caller has of a List already: f hears only of what
// is different since.
func (k *Bucket) Watch(ctx context.Context, listed map[string]Value, f func(Change) error) error {
	w := watching{Bucket: k, f: f, known: make(map[string]uint64, len(listed))}
	for key, v := range listed {
		w.known[key] = v.Rev
	}
	var said time.Time
	for most := impatience; ; most = more(most) {
		err := w.round(ctx, most)
		if w.listed {
			most = 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stop, ok := errors.AsType[*stopped](err); ok {
			return stop.err
		}
		if err == nil {
			continue
		}
		if k.b.Connected() && time.Since(said) > 5*time.Second { // that NATS is away was told by who saw it go
			k.b.log.Warn("watching a bucket begins anew", "bucket", k.name, "err", err)
			said = time.Now()
		}
		rest(ctx, 200*time.Millisecond)
	}
}

// watching is a Watch under way.
type watching struct {
	*Bucket
	f      func(Change) error
	known  map[string]uint64 // what f has: the keys with their revisions
	seen   map[string]bool   // of this round's list
	listed bool              // this round's list is complete
}

// round is a full list and what comes after it, until a new list is due: then it gives nil.
func (w *watching) round(ctx context.Context, most time.Duration) error {
	round, cancel := context.WithTimeout(ctx, relist)
	defer cancel()
	defer afterClose(w.b.reconnect(), cancel)()
	w.seen, w.listed = map[string]bool{}, false
	err := w.watch(round, most, w.hear, func() (bool, error) {
		w.listed = true
		return false, w.forget(round)
	})
	if _, ours := errors.AsType[*stopped](err); !ours && round.Err() != nil {
		return nil
	}
	return err
}

// hear tells f of a change that it does not have.
func (w *watching) hear(c Change) error {
	if c.Deleted {
		if _, ok := w.known[c.Key]; !ok {
			return nil
		}
		delete(w.known, c.Key)
		return w.f(c)
	}
	if !w.listed {
		w.seen[c.Key] = true
	}
	if w.known[c.Key] >= c.Rev {
		return nil
	}
	w.known[c.Key] = c.Rev
	return w.f(c)
}

// forget tells f of the keys that it has and that are not in the list.
func (w *watching) forget(ctx context.Context) error {
	for key := range w.known {
		if w.seen[key] {
			continue
		}
		// The list may come from a replica that lags behind, and the key be there.
		if _, _, err := w.Get(ctx, key); err == nil {
			continue
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		delete(w.known, key)
		if err := w.f(Change{Key: key, Deleted: true}); err != nil {
			return &stopped{err}
		}
	}
	return nil
}

// watch calls f with every key's newest change, then listed, then f with what comes, unless listed says that it
// is enough. f's errors come back as *stopped.
func (k *Bucket) watch(ctx context.Context, most time.Duration, f func(Change) error, listed func() (enough bool, err error)) error {
	enough := errors.New("enough")
	list := func() error {
		if done, err := listed(); err != nil || !done {
			return err
		}
		return enough
	}
	var before uint64 // how many are to come before the list is complete
	began := func(pending uint64) error {
		if before = pending; before == 0 {
			return list()
		}
		return nil
	}
	newest := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{k.prefix() + ">"}}
	err := k.b.feed(ctx, k.stream(), newest, k.b.reconnect(), most, began, func(m *nats.Msg, o origin) error {
		c := Change{Key: strings.TrimPrefix(m.Subject, k.prefix()), Value: Value{m.Data, o.stream, o.at}, Deleted: deleted(m.Header)}
		if err := f(c); err != nil {
			return &stopped{err}
		}
		if before > 0 && (o.consumer >= before || o.pending == 0) {
			before = 0
			return list()
		}
		return nil
	})
	switch err {
	case enough:
		return nil
	case errLost, errGone: // NATS did not refuse: it hung, or was away for a moment
		return unreachable(wrap("bucket "+k.name, err))
	}
	return k.err(ctx, err)
}

// afterClose calls f when ch closes, until stop is called.
func afterClose(ch <-chan struct{}, f func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-ch:
			f()
		case <-done:
		}
	}()
	return func() { close(done) }
}
