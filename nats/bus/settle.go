package bus

import (
	"context"
	"encoding/json"
	"time"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// Delivery is a message on loan: it comes again, here or elsewhere, until it is settled by one of Done, Later,
// GiveBack and Reject.
type Delivery struct {
	Message
	Header   map[string][]string
	Attempts uint64 // deliveries so far, this one included; hand-backs count too

	b     *Conn
	reply string
}

func deliveryOf(b *Conn, m *nats.Msg) (Delivery, bool) {
	o, ok := readOrigin(m.Reply)
	if !ok {
		return Delivery{}, false
	}
	return Delivery{
		Message: Message{Seq: o.stream, Subject: m.Subject, Body: m.Data, Time: o.at},
		Header:  m.Header, Attempts: o.delivered, b: b, reply: m.Reply,
	}, true
}

// Ack ends the loan: what the message asked for is durable elsewhere. It does not wait; if it is lost the
// message comes again.
func (d Delivery) Ack() { d.settle("+ACK") }

// NakWithDelay asks for the message again after a pause.
func (d Delivery) NakWithDelay(pause time.Duration) {
	ask, _ := json.Marshal(struct {
		Delay time.Duration `json:"delay"`
	}{pause})
	d.settle("-NAK " + string(ask))
}

// Nak hands a surplus back, for somebody else to take at once.
func (d Delivery) Nak() { d.settle("-NAK") }

// Reject keeps the message with the reason in REJECTED and ends the loan; while it can't be kept there, the
// message comes again.
func (d Delivery) Reject(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	r, err := d.b.write(ctx, &nats.Msg{Subject: subject.RejectedRuns, Data: d.Body, Header: nats.Header{
		"Nats-Msg-Id": {d.Time.UTC().Format(time.RFC3339Nano) + "." + d.Subject},
		"Ao-Reason":   {short(reason)},
		"Ao-Subject":  {d.Subject},
	}}, patience, subject.Rejected)
	if err == nil {
		_, err = verdict(r)
	}
	if err != nil {
		d.b.log.WarnContext(ctx, "a rejected message could not be kept, it comes again", "subject", d.Subject, "err", err)
		d.NakWithDelay(5 * time.Second)
		return
	}
	d.b.meter.rejected.Inc()
	d.Ack()
}

// settle is the only place that acknowledges.
func (d Delivery) settle(verdict string) {
	if err := d.b.nc.Publish(d.reply, []byte(verdict)); err != nil {
		d.b.log.Debug("a delivery could not be settled, it comes again", "subject", d.Subject, "err", err)
	}
}
