package bus

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"
)

// kindHeader carries a fault's kind in a reply. The body is the fault.
const kindHeader = "Ao-Fault"

// The limits for one subject in one process: requests handled at once, their bytes, and the bytes of those that
// wait. What exceeds them is dropped and counted (Dropped). A decoded request may take several times its bytes.
const (
	maxServing      = 256
	maxServingBytes = 32 << 20
	maxWaitingBytes = 64 << 20
)

// Requests sends requests to other processes and serves them.
type Requests struct{ *Conn }

// Request sends a request and returns the reply. ErrNoResponders: no process serves the subject. A fault of the
// server comes back as that fault. Without a deadline it waits 10 s.
func (b *Requests) Request(ctx context.Context, subject string, body []byte) ([]byte, error) {
	began := b.meter.requests.Start()
	r, err := b.request(ctx, &nats.Msg{Subject: subject, Data: body}, remaining(ctx))
	b.meter.requests.ObserveSince(began)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, ErrNoResponders
	}
	if err != nil {
		return nil, err
	}
	if kind := r.Header.Get(kindHeader); kind != "" {
		return nil, readFault(kind, r.Data)
	}
	return r.Data, nil
}

func readFault(kind string, body []byte) error {
	f := new(fault.Fault)
	if err := json.Unmarshal(body, f); err != nil {
		return fault.Wrap(fault.Internal, "", "The reply cannot be read", err)
	}
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if k.String() == kind {
			f.Kind = k
		}
	}
	return f
}

// Serve answers requests on a subject until ctx ends, and then those in progress. Processes with the same queue share
// the requests; with an empty queue each process gets all. f is called concurrently. Its error is sent back as a fault.
func (b *Requests) Serve(ctx context.Context, subject, queue string, f Handler) error {
	d, err := b.Listen(subject, queue)
	if err != nil {
		return asFault(ctx, err)
	}
	return d.Serve(ctx, f)
}

// Handler answers one request.
type Handler func(ctx context.Context, subject string, body []byte) ([]byte, error)

// Endpoint is a subject whose requests arrive and wait for Serve.
type Endpoint struct {
	b   *Requests
	sub *nats.Subscription
}

// Listen is the first half of Serve: after it, requesters no longer get ErrNoResponders.
func (b *Requests) Listen(subject, queue string) (d *Endpoint, err error) {
	d = &Endpoint{b: b}
	if queue == "" {
		d.sub, err = b.nc.SubscribeSync(subject)
	} else {
		d.sub, err = b.nc.QueueSubscribeSync(subject, queue)
	}
	if err == nil {
		err = d.sub.SetPendingLimits(-1, maxWaitingBytes)
		_ = b.nc.FlushTimeout(time.Second) // a server that has just gone learns of it after the reconnect
	}
	return d, err
}

// Serve answers the requests; see Requests.Serve.
func (d *Endpoint) Serve(ctx context.Context, f Handler) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	load := semaphore.NewWeighted(maxServingBytes)
	under := context.WithoutCancel(ctx)
	serve := func(m *nats.Msg) {
		size := int64(min(max(len(m.Data), maxServingBytes/maxServing), maxServingBytes))
		_ = load.Acquire(under, size) // under never ends
		wg.Go(func() {
			defer load.Release(size)
			body, err := f(d.b.withCaller(under, m), m.Subject, m.Data)
			d.b.answer(m, body, err)
		})
	}
	for ctx.Err() == nil {
		switch m, err := d.sub.NextMsgWithContext(ctx); {
		case err == nil:
			serve(m)
		case !d.sub.IsValid(): // the connection was closed
			<-ctx.Done()
		}
	}
	d.close(serve)
	return ctx.Err()
}

// close accepts no more, and serves what has arrived.
func (d *Endpoint) close(serve func(*nats.Msg)) {
	if d.b.nc.IsConnected() && d.sub.Drain() == nil {
		d.b.nc.FlushTimeout(time.Second)
	}
	for {
		if n, _, err := d.sub.Pending(); err != nil || n == 0 {
			break
		}
		if m, err := d.sub.NextMsg(time.Second); err == nil {
			serve(m)
		}
	}
	d.sub.Unsubscribe()
}

// answer sends a handler's result or error to the requester.
func (b *Requests) answer(m *nats.Msg, body []byte, err error) {
	if !subject.ReplyAllowed(m.Reply) {
		if err != nil {
			b.log.Debug("a request's reply subject is missing or not allowed", "subject", m.Subject, "err", err)
		}
		return
	}
	r := &nats.Msg{Subject: m.Reply, Data: body}
	if err != nil {
		f := fault.Of(err)
		if f.Kind == fault.Internal {
			b.log.Error("a request failed", "subject", m.Subject, "err", err)
		}
		r.Header = nats.Header{kindHeader: {f.Kind.String()}}
		if f.RetryAfter > 0 {
			r.Header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds()+0.999)))
		}
		r.Data, err = strictjson.Encode(f)
		if err != nil {
			b.log.Error("reply cannot be encoded", "subject", m.Subject, "err", err)
		}
	}
	if err := b.nc.PublishMsg(r); err != nil {
		b.log.Warn("reply not sent", "subject", m.Subject, "err", err)
	}
}
