package bus

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is how long a request to JetStream may take when its context has no deadline.
const patience = 10 * time.Second

// Conn is the connection: what is asked over it, and what is known of it and of who is at its other end.
type Conn struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	cfg   Config
	log   *slog.Logger
	meter meter

	calls   calls
	sinks   map[string]*sink
	cramped atomic.Pointer[error] // Setup waits for room; nil: it does not
	link    atomic.Pointer[link]
	cluster atomic.Bool
	dropped atomic.Uint64

	mu      sync.Mutex
	revived chan struct{} // closed at each reconnect
	hooks   []func()
}

// newConn makes a Conn, which hears from now on what becomes of the connection.
func newConn(nc *nats.Conn, js jetstream.JetStream, cfg Config) *Conn {
	b := &Conn{nc: nc, js: js, cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), revived: make(chan struct{})}
	b.sinks = newSinks(b)
	b.meter = newMeter(cfg.Metrics, nc, health{b.Connected, b.Storage, b.Reconnects, b.Dropped})
	b.link.Store(newLink())
	b.hear()
	b.met()
	return b
}

// hear has us told of what becomes of the connection, and then whoever was told before.
func (b *Conn) hear() {
	nc := b.nc
	disconnected, reconnected, closed, failed := nc.DisconnectErrHandler(), nc.ReconnectHandler(), nc.ClosedHandler(), nc.ErrorHandler()
	nc.SetDisconnectErrHandler(func(nc *nats.Conn, err error) {
		b.link.Swap(newLink()).cut()
		b.calls.cut()
		if disconnected != nil {
			disconnected(nc, err)
		}
	})
	nc.SetReconnectHandler(func(nc *nats.Conn) {
		b.revive()
		if reconnected != nil {
			reconnected(nc)
		}
	})
	nc.SetClosedHandler(func(nc *nats.Conn) {
		b.calls.cut()
		if closed != nil {
			closed(nc)
		}
	})
	nc.SetErrorHandler(func(nc *nats.Conn, s *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			b.dropped.Add(1)
		}
		if failed != nil {
			failed(nc, s, err)
		}
	})
}

// link is one uninterrupted time of the connection. Who waits for an answer when it ends waits in vain.
type link struct {
	context.Context
	cut context.CancelFunc
}

func newLink() *link {
	ctx, cut := context.WithCancel(context.Background())
	return &link{ctx, cut}
}

func (b *Conn) revive() {
	b.met()
	b.mu.Lock()
	close(b.revived)
	b.revived = make(chan struct{})
	hooks := b.hooks
	b.mu.Unlock()
	for _, f := range hooks {
		f()
	}
}

// CredentialID is the token under which we are spoken to where we logged in; "": we did not.
func (b *Conn) CredentialID() string { return subject.CredentialIDOf(b.nc.Opts.InboxPrefix) }

// Connected says whether NATS is reachable now.
func (b *Conn) Connected() bool { return b.nc.IsConnected() }

// Reconnects counts the reconnects: two equal answers mean that nothing was missed in between on that account.
// nats.go counts one before the first message goes over it, and calls the handlers some time later.
func (b *Conn) Reconnects() uint64 { return b.nc.Stats().Reconnects }

// Dropped counts how often messages of this connection were dropped since this process was too slow.
func (b *Conn) Dropped() uint64 { return b.dropped.Load() }

// OnReconnect has f called after each reconnect. f must return soon.
func (b *Conn) OnReconnect(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks = append(b.hooks[:len(b.hooks):len(b.hooks)], f)
}

// reconnect gives the channel that the next reconnect closes.
func (b *Conn) reconnect() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revived
}

// linked is ctx with an end: at its own, after 10 s where it has no deadline, and when the connection is lost.
func (b *Conn) linked(ctx context.Context) (context.Context, context.CancelFunc) {
	return b.within(ctx, most(ctx))
}

// most is how long something may take: until the context's deadline, or 10 s where it has none.
func most(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return patience
}

// within is linked with an end after so long at most.
func (b *Conn) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	link := b.link.Load()
	wait, lose := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(link, func() { lose(unreachable(nats.ErrDisconnected)) })
	wait, cancel := context.WithTimeout(wait, most)
	return wait, func() { unhook(); cancel(); lose(nil) }
}

// brief is how long the answer to a read or a write of one record is awaited. In a cluster such an answer comes soon or, where
// the server that led the stream has died or hangs, never: then another will soon lead, and must be asked.
func (b *Conn) brief() time.Duration {
	if b.clustered() {
		return 3 * time.Second
	}
	return patience
}

// clustered says that the server we talk to, or have talked to, is one of several.
func (b *Conn) clustered() bool { return b.cluster.Load() }

// met notes what kind of server we talk to.
func (b *Conn) met() {
	if b.nc.ConnectedClusterName() != "" {
		b.cluster.Store(true)
	}
}

// askAgain asks, as long as ctx lives, until there is an answer: what reached a server that died just then is never answered.
func askAgain(ctx context.Context, ask func(context.Context) error) error {
	for most := impatience; ; most = more(most) {
		try, done := context.WithTimeout(ctx, most)
		err := ask(try)
		ended := try.Err()
		done()
		if err == nil || ended == nil || ctx.Err() != nil {
			return err
		}
	}
}

// impatience is how long an answer is awaited at the first try, more how long at the next.
const impatience = time.Second

func more(d time.Duration) time.Duration { return min(d*3/2, patience) }

// drain ends a subscription to a channel; what was on its way then lies in the channel.
func (b *Conn) drain(sub *nats.Subscription) {
	if b.nc.IsConnected() && sub.Drain() == nil {
		b.nc.FlushTimeout(time.Second)
	}
	sub.Unsubscribe()
}

// rest waits for d or the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// short keeps a text that goes into a header on one line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}
