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

	"github.com/nats-io/nats.go"
)

// kindHeader carries a fault's kind in an answer; its body is the fault.
const kindHeader = "Ao-Fault"

// On one subject a process works on so many requests at a time, and on so many bytes of them; the others wait, up to so many bytes.
// What is beyond that is dropped, which Dropped counts. Read, a request may take several times its bytes.
const (
	serving      = 256
	servingBytes = 32 << 20
	waitingBytes = 64 << 20
)

// Requests asks other processes, and answers them.
type Requests struct{ *Conn }

// Request asks and gives the answer. ErrNoResponders: nobody listens on that subject. A fault that the answering side
// returned comes back as that fault. Without a deadline in ctx it waits 10 s.
func (b *Requests) Request(ctx context.Context, subject string, body []byte) ([]byte, error) {
	most := patience
	if end, ok := ctx.Deadline(); ok {
		most = time.Until(end)
	}
	began := b.meter.asked.Start()
	r, err := b.request(ctx, &nats.Msg{Subject: subject, Data: body}, most)
	b.meter.asked.ObserveSince(began)
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
		return fault.Wrap(fault.Internal, "", "The answer cannot be read", err)
	}
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if k.String() == kind {
			f.Kind = k
		}
	}
	return f
}

// Serve answers requests on a subject until ctx ends, and then until those under way are answered. Processes
// with the same queue share them; with an empty queue each process gets all. f runs in many goroutines; its
// error goes back as a fault.
func (b *Requests) Serve(ctx context.Context, subject, queue string, f func(ctx context.Context, subject string, body []byte) ([]byte, error)) error {
	d, err := b.Listen(subject, queue)
	if err != nil {
		return away(ctx, err)
	}
	return d.Serve(ctx, f)
}

// Endpoint is a subject whose requests already come here; they wait for Serve.
type Endpoint struct {
	b   *Requests
	sub *nats.Subscription
}

// Listen is the first half of Serve: when it returns without an error, who asks finds somebody.
func (b *Requests) Listen(subject, queue string) (d *Endpoint, err error) {
	d = &Endpoint{b: b}
	if queue == "" {
		d.sub, err = b.nc.SubscribeSync(subject)
	} else {
		d.sub, err = b.nc.QueueSubscribeSync(subject, queue)
	}
	if err == nil {
		err = d.sub.SetPendingLimits(-1, waitingBytes)
		_ = b.nc.FlushTimeout(time.Second) // a server that just went hears of it when it is back
	}
	return d, err
}

// Serve answers what comes; see Bus.Serve.
func (d *Endpoint) Serve(ctx context.Context, f func(ctx context.Context, subject string, body []byte) ([]byte, error)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	load := newLoad(servingBytes)
	under := context.WithoutCancel(ctx)
	serve := func(m *nats.Msg) {
		size := load.take(max(len(m.Data), servingBytes/serving))
		wg.Go(func() {
			defer load.give(size)
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

// close takes no more; what has come by then is served.
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

// load is how many bytes of requests are worked on. One goroutine takes, many give back.
type load struct {
	all, free int
	mu        sync.Mutex
	more      *sync.Cond
}

func newLoad(all int) *load {
	l := &load{all: all, free: all}
	l.more = sync.NewCond(&l.mu)
	return l
}

// take waits until there is room for so many bytes, or for nothing else beside them, and gives what is to be given back.
func (l *load) take(n int) int {
	n = min(n, l.all)
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.free < n {
		l.more.Wait()
	}
	l.free -= n
	return n
}

func (l *load) give(n int) {
	l.mu.Lock()
	l.free += n
	l.mu.Unlock()
	l.more.Signal()
}

// answer sends a handler's value or error to who asked.
func (b *Requests) answer(m *nats.Msg, body []byte, err error) {
	if !subject.ReplyAllowed(m.Reply) {
		if err != nil {
			b.log.Debug("a message without a reply subject that may be answered", "subject", m.Subject, "err", err)
		}
		return
	}
	r := &nats.Msg{Subject: m.Reply, Data: body}
	if err != nil {
		f := fault.Of(err)
		if f.Kind == fault.Internal {
			b.log.Error("request", "subject", m.Subject, "err", err)
		}
		r.Header = nats.Header{kindHeader: {f.Kind.String()}}
		if f.RetryAfter > 0 {
			r.Header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds()+0.999)))
		}
		r.Data, err = json.Marshal(f)
		if err != nil {
			b.log.Error("answer", "subject", m.Subject, "err", err)
		}
	}
	if err := b.nc.PublishMsg(r); err != nil {
		b.log.Warn("an answer could not be sent", "subject", m.Subject, "err", err)
	}
}
