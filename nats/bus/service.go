package bus

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Service is a public NATS micro service: `nats micro ls` shows it, any NATS client may ask it.
type Service struct {
	Name        string // letters, digits, '-' and '_'
	Version     string // semantic, such as "1.0.0"
	Description string
	Endpoints   []Endpoint
}

// Endpoint is one thing that a service does. Do gives the body of the answer and its HTTP status, which goes into
// the header "status"; it runs in many goroutines.
type Endpoint struct {
	Name    string
	Subject string
	Do      func(ctx context.Context, header map[string][]string, body []byte) (status int, answer []byte)
}

// Offer answers a service's requests until ctx ends, and then until those under way are answered. Every process
// that offers it takes a share.
func (b *Bus) Offer(ctx context.Context, s Service) error {
	srv, err := micro.AddService(b.nc, micro.Config{Name: s.Name, Version: s.Version, Description: s.Description})
	if err != nil {
		return away(ctx, wrap("service "+s.Name, err))
	}
	slots := make(chan struct{}, serving)
	defer func() { // full: nothing is under way any more
		srv.Stop()
		for range serving {
			slots <- struct{}{}
		}
	}()
	for _, e := range s.Endpoints {
		err := srv.AddEndpoint(e.Name, micro.HandlerFunc(func(r micro.Request) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				b.reply(r, 503, []byte(`{"error":"unavailable","message":"This process ends; ask again"}`))
				return
			}
			go func() {
				defer func() { <-slots }()
				status, body := e.Do(context.WithoutCancel(ctx), r.Headers(), r.Data())
				b.reply(r, status, body)
			}()
		}), micro.WithEndpointSubject(e.Subject))
		if err != nil {
			return away(ctx, wrap("endpoint "+e.Subject, err))
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// reply answers by itself: micro notes an error it answers in the request, and reads it as soon as the handler has returned,
// which here is before the answer.
func (b *Bus) reply(r micro.Request, status int, body []byte) {
	m := &nats.Msg{Subject: r.Reply(), Data: body, Header: nats.Header{"status": {strconv.Itoa(status)}}}
	if m.Subject == "" {
		return // nobody wants to know
	}
	if status >= 400 {
		m.Header[micro.ErrorCodeHeader], m.Header[micro.ErrorHeader] = []string{strconv.Itoa(status)}, []string{"see the body"}
	}
	if err := b.nc.PublishMsg(m); err != nil {
		b.log.Warn("an answer could not be sent", "subject", r.Subject(), "err", err)
	}
}
