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

// requestTimeout is the time limit of a JetStream request whose context has no deadline.
const requestTimeout = 10 * time.Second

// Conn is the connection to NATS, with what is known of its state and of the server.
type Conn struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	cfg   Config
	log   *slog.Logger
	meter meter

	calls   calls
	sinks   map[string]*sink
	waits   atomic.Pointer[error] // why Setup waits: for space, or a restore; nil: it does not
	link    atomic.Pointer[link]
	cluster atomic.Bool
	dropped atomic.Uint64

	mu          sync.Mutex
	onReconnect []func()
}

// newConn makes a Conn and watches the connection's state from now on.
func newConn(nc *nats.Conn, js jetstream.JetStream, cfg Config) *Conn {
	b := &Conn{nc: nc, js: js, cfg: cfg, log: cmp.Or(cfg.Log, slog.Default())}
	b.sinks = newSinks(b)
	b.meter = newMeter(cfg.Metrics, nc, connStatus{b.Connected, b.Storage, b.Reconnects, b.Dropped})
	b.link.Store(newLink())
	b.installHandlers()
	b.detectCluster()
	return b
}

// installHandlers puts our handlers in front of those that the connection has.
func (b *Conn) installHandlers() {
	nc := b.nc
	disconnected, reconnected, closed, failed := nc.DisconnectErrHandler(), nc.ReconnectHandler(),
		nc.ClosedHandler(), nc.ErrorHandler()
	nc.SetDisconnectErrHandler(func(nc *nats.Conn, err error) {
		b.link.Swap(newLink()).end()
		b.calls.failAll()
		if disconnected != nil {
			disconnected(nc, err)
		}
	})
	nc.SetReconnectHandler(func(nc *nats.Conn) {
		b.reconnected()
		if reconnected != nil {
			reconnected(nc)
		}
	})
	nc.SetClosedHandler(func(nc *nats.Conn) {
		b.calls.failAll()
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

// link is one uninterrupted period of the connection. No reply arrives after its end.
type link struct {
	context.Context
	end context.CancelFunc
}

func newLink() *link {
	ctx, end := context.WithCancel(context.Background())
	return &link{ctx, end}
}

func (b *Conn) reconnected() {
	b.detectCluster()
	b.mu.Lock()
	hooks := b.onReconnect
	b.mu.Unlock()
	for _, f := range hooks {
		f()
	}
}

// CredentialID returns the id of the credential we logged in with (see subject.CredentialID), "" without a login.
func (b *Conn) CredentialID() string { return subject.CredentialIDOf(b.nc.Opts.InboxPrefix) }

// Connected reports whether NATS is reachable now.
func (b *Conn) Connected() bool { return b.nc.IsConnected() }

// Reconnects counts the reconnects. Two equal results mean that the connection was not lost in between. nats.go
// counts a reconnect before the first message, and calls the handlers some time later.
func (b *Conn) Reconnects() uint64 { return b.nc.Stats().Reconnects }

// Dropped counts how often messages were dropped because this process was too slow.
func (b *Conn) Dropped() uint64 { return b.dropped.Load() }

// OnReconnect calls f after each reconnect. f must return soon.
func (b *Conn) OnReconnect(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onReconnect = append(b.onReconnect[:len(b.onReconnect):len(b.onReconnect)], f)
}

// withConnection returns ctx that also ends when the connection is lost, and after 10 s if it has no deadline.
func (b *Conn) withConnection(ctx context.Context) (context.Context, context.CancelFunc) {
	return b.withDeadline(ctx, remaining(ctx))
}

// remaining returns the time until the context's deadline, 10 s without one.
func remaining(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return requestTimeout
}

// withDeadline returns ctx that also ends when the connection is lost, and after the timeout.
func (b *Conn) withDeadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	link := b.link.Load()
	wait, fail := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(link, func() { fail(unavailable(nats.ErrDisconnected)) })
	wait, cancel := context.WithTimeout(wait, timeout)
	return wait, func() { unhook(); cancel(); fail(nil) }
}

// recordTimeout returns the time limit for reading or writing one record. In a cluster a reply comes soon, or never
// if the leader has died: then the next leader must be asked.
func (b *Conn) recordTimeout() time.Duration {
	if b.clustered() {
		return 3 * time.Second
	}
	return requestTimeout
}

// clustered reports whether the server we talk to, or talked to, is one of several.
func (b *Conn) clustered() bool { return b.cluster.Load() }

// detectCluster notes whether the server is part of a cluster.
func (b *Conn) detectCluster() {
	if b.nc.ConnectedClusterName() != "" {
		b.cluster.Store(true)
	}
}

// retryRequest asks until there is a reply or ctx ends: a server that has just died never replies.
func retryRequest[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for timeout := firstTryTimeout; ; timeout = nextTryTimeout(timeout) {
		try, done := context.WithTimeout(ctx, timeout)
		reply, err := ask(try)
		ended := try.Err()
		done()
		if err == nil || ended == nil || ctx.Err() != nil {
			return reply, err
		}
	}
}

// firstTryTimeout is the time limit of the first try. nextTryTimeout is that of the next one.
const firstTryTimeout = time.Second

func nextTryTimeout(d time.Duration) time.Duration { return min(d*3/2, requestTimeout) }

// drain ends a subscription to a channel. Messages that were on their way are then in the channel.
func (b *Conn) drain(sub *nats.Subscription) {
	if b.nc.IsConnected() && sub.Drain() == nil {
		b.nc.FlushTimeout(time.Second)
	}
	sub.Unsubscribe()
}

// oneLine makes a text fit into a header: one line, about 500 bytes.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}

// Clustered reports whether the server is one of several, so that another may know more.
func (b *Conn) Clustered() bool { return b.clustered() }
