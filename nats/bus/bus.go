// Package bus is typed messages over JetStream: records that are appended with compare-and-set and followed,
// runs that are taken from lanes, requests and their answers, definitions in buckets. It is the only code that
// knows nats.go, and the only code that acknowledges.
package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/metric"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Entry is a message to be written.
type Entry struct {
	Subject string
	Body    []byte
}

// Message is a message as a stream keeps it.
type Message struct {
	Seq     uint64
	Subject string
	Body    []byte
	Time    time.Time
}

var (
	// ErrTaken says that somebody else was first: the subject has its one message, the key its entry, the
	// revision is no longer the newest.
	ErrTaken = errors.New("taken")
	// ErrNone says that there is nothing under that subject, sequence, key or name.
	ErrNone = errors.New("none")
	// ErrRewound says that a stream is not the one that was read: it lost records and gave their sequences to others, or
	// truncated some that had not been read.
	ErrRewound = errors.New("rewound")
	// ErrNobody says that nobody answers requests on that subject now.
	ErrNobody = fault.New(fault.Unavailable, "", "Nobody answers at the moment; try again")
)

// Config is how a Bus behaves; its zero value works.
type Config struct {
	Replicas       int           // of streams and buckets, default 1
	MaxBytes       int64         // of RUNS, default 4 GiB, or what the server has room for
	EventMaxBytes  int64         // of EVENTS, default as MaxBytes; the oldest give way
	EventMaxAge    time.Duration // of EVENTS, default 168h
	RejectedMaxAge time.Duration // of REJECTED, default 168h
	KeyMaxAge      time.Duration // of the bucket "idempotency", default 168h
	Log            *slog.Logger  // default slog.Default()

	// Confined is for a worker on a NATS that asks who it is: it has no right to read RUNS, and asks a coordinator what became of a record of its own.
	Confined bool

	// With is another Bus of this process: what is appended here goes with its appends, over its connection and with its rights.
	// So both share each sync to disk.
	With *Bus

	// Disk says what keeps an embedded server from writing; nil: nothing. Without it a server that does not write is told by its silence.
	Disk func() error
	// Made is called when Setup has seen to the streams; nil: nobody wants to know.
	Made func()

	Metrics *metric.Registry // default nil: nothing is counted
}

// patience is how long a request to JetStream may take when its context has no deadline.
const patience = 10 * time.Second

// Bus is one connection's view of the streams. Its methods may be called from many goroutines.
type Bus struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	cfg     Config
	log     *slog.Logger
	group   *group // perhaps another Bus's (Config.With)
	meter   meter
	states  states
	slots   chan struct{} // one for each batch of AppendAll that is under way
	crowded atomic.Int64  // until when a batch that is refused is not sent again, in nanoseconds
	dropped atomic.Uint64
	revival atomic.Uint64
	calls   calls
	sinks   map[string]*sink
	buckets buckets
	share   float64               // of its size that a cluster's stream is made with; Setup's own
	cramped atomic.Pointer[error] // Setup waits for room; nil: it does not
	link    atomic.Pointer[link]
	seen    atomic.Pointer[link] // the one in which RUNS was last seen to hold what FollowRuns has read of it
	cluster atomic.Bool

	disbelief time.Duration

	mu       sync.Mutex
	revived  chan struct{} // closed at each reconnect
	hooks    []func()
	payloads jetstream.ObjectStore
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

// Open makes a Bus of a connection that has been made; it stays the caller's to close. It sends nothing.
func Open(nc *nats.Conn, cfg Config) (*Bus, error) {
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<30)
	cfg.EventMaxBytes = cmp.Or(cfg.EventMaxBytes, cfg.MaxBytes)
	cfg.EventMaxAge = cmp.Or(cfg.EventMaxAge, 168*time.Hour)
	cfg.RejectedMaxAge = cmp.Or(cfg.RejectedMaxAge, 168*time.Hour)
	cfg.KeyMaxAge = cmp.Or(cfg.KeyMaxAge, 168*time.Hour)
	if cfg.Replicas < 1 || cfg.Replicas > 5 {
		return nil, fmt.Errorf("AO_NATS_REPLICAS %d: use 1 to 5", cfg.Replicas)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience), jetstream.WithPublishAsyncMaxPending(16384), jetstream.WithPublishAsyncTimeout(patience))
	if err != nil {
		return nil, err
	}
	b := &Bus{
		nc: nc, js: js, cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()),
		disbelief: disbelief, slots: make(chan struct{}, maxBatches), revived: make(chan struct{}),
	}
	b.sinks = newSinks(b)
	if b.group = newGroup(b); cfg.With != nil {
		b.group = cfg.With.group
	}
	b.meter = newMeter(cfg.Metrics, b)
	b.link.Store(newLink())
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
	b.met()
	return b, nil
}

func (b *Bus) revive() {
	b.met()
	b.revival.Add(1)
	b.mu.Lock()
	close(b.revived)
	b.revived = make(chan struct{})
	hooks := b.hooks
	b.mu.Unlock()
	for _, f := range hooks {
		f()
	}
}

// Door is the token under which we are spoken to where we logged in; "": we did not.
func (b *Bus) Door() string { return subject.DoorOf(b.nc.Opts.InboxPrefix) }

// Connected says whether NATS is reachable now.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// Generation counts the reconnects: two equal answers mean that nothing was missed in between on that account.
func (b *Bus) Generation() uint64 { return b.revival.Load() }

// Dropped counts how often messages of this connection were dropped since this process was too slow.
func (b *Bus) Dropped() uint64 { return b.dropped.Load() }

// OnReconnect has f called after each reconnect. f must return soon.
func (b *Bus) OnReconnect(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks = append(b.hooks[:len(b.hooks):len(b.hooks)], f)
}

// reconnect gives the channel that the next reconnect closes.
func (b *Bus) reconnect() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revived
}

// linked is ctx with an end: at its own, after 10 s where it has no deadline, and when the connection is lost.
func (b *Bus) linked(ctx context.Context) (context.Context, context.CancelFunc) {
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
func (b *Bus) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	link := b.link.Load()
	wait, lose := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(link, func() { lose(unreachable(nats.ErrDisconnected)) })
	wait, cancel := context.WithTimeout(wait, most)
	return wait, func() { unhook(); cancel(); lose(nil) }
}

// brief is how long the answer to a read or a write of one record is awaited. In a cluster such an answer comes soon or, where
// the server that led the stream has died or hangs, never: then another will soon lead, and must be asked.
func (b *Bus) brief() time.Duration {
	if b.clustered() {
		return 3 * time.Second
	}
	return patience
}

// clustered says that the server we talk to, or have talked to, is one of several.
func (b *Bus) clustered() bool { return b.cluster.Load() }

// met notes what kind of server we talk to.
func (b *Bus) met() {
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

// away turns what nats.go says of a NATS that is not there into a fault; the end of the caller's own context
// and everything else stay as they are.
func away(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrUnwritten): // nats.go has several words for a context that ended
		return context.Cause(ctx)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		if cause := context.Cause(ctx); fault.KindOf(cause) == fault.Unavailable {
			return cause
		}
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.Wrap(fault.TooLarge, "", "The message is larger than NATS takes", err)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionDraining),
		errors.Is(err, nats.ErrStaleConnection), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return unreachable(err)
	}
	// JetStream itself says 503 while it starts or has no leader, and where its storage is full.
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil && api.APIError().Code == 503 {
		return unreachable(err)
	}
	return err
}

// unreachable is the fault of what NATS did not do, with what that tells of NATS. It may have been done all the same.
func unreachable(cause error) error {
	message := "NATS is not reachable"
	switch no, refused := errors.AsType[*refusal](cause); {
	case code(cause) == codeNoStorage, refused && no.code == codeNoStorage:
		message = "JetStream has no room: what it may store (max_file_store) is used up"
	case errors.Is(cause, nats.ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		message = "NATS did not answer in time"
	case errors.Is(cause, nats.ErrNoResponders), errors.Is(cause, jetstream.ErrNoStreamResponse), errors.Is(cause, jetstream.ErrJetStreamNotEnabled):
		message = "NATS has no JetStream at the moment"
	case refused, code(cause) != 0:
		message = "JetStream cannot do it at the moment"
	}
	return fault.Wrap(fault.Unavailable, "", message+"; try again in a moment", cause).After(time.Second)
}

// code gives JetStream's error code in err, 0 where there is none.
func code(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		return api.APIError().ErrorCode
	}
	return 0
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
