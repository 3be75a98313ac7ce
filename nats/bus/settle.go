package bus

import (
	"context"
	"strconv"
	"time"

	"ao/nats/subject"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
)

// Delivery is a delivered message. It is redelivered until it is settled by Ack, NakWithDelay, Nak or Reject.
type Delivery struct {
	Message
	Header   map[string][]string
	Attempts uint64 // deliveries so far with this one, Naks included

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

// Ack ends the delivery: what the message asked for is durable elsewhere. It does not wait; if the ack is lost,
// the message is redelivered.
func (d Delivery) Ack() { d.settle("+ACK") }

// NakWithDelay has the message redelivered after a pause.
func (d Delivery) NakWithDelay(pause time.Duration) {
	ask, _ := strictjson.Encode(struct {
		Delay time.Duration `json:"delay"`
	}{pause})
	d.settle("-NAK " + string(ask))
}

// Nak has the message redelivered to another consumer at once.
func (d Delivery) Nak() { d.settle("-NAK") }

// rejectedHeaders is the room that headers of a rejected message take, in bytes.
const rejectedHeaders = 4 << 10

// Reject keeps the message in REJECTED with the reason, and acknowledges it. Where the headers leave no room for the
// whole body, its end is left out. If the message cannot be kept, it is redelivered.
func (d Delivery) Reject(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	body := d.Body[:min(len(d.Body), max(int(d.b.nc.MaxPayload())-rejectedHeaders, 0))]
	r, err := d.b.write(ctx, &nats.Msg{Subject: subject.RejectedRuns, Data: body, Header: nats.Header{
		"Nats-Msg-Id": {d.Time.UTC().Format(time.RFC3339Nano) + "." + d.Subject},
		"Ao-Reason":   {oneLine(reason)},
		"Ao-Subject":  {d.Subject},
		"Ao-Bytes":    {strconv.Itoa(len(d.Body))},
	}}, requestTimeout, subject.Rejected)
	if err == nil {
		_, err = checkPubAck(r)
	}
	if err != nil {
		d.b.log.WarnContext(ctx, "rejected message not kept; it is redelivered", "subject", d.Subject, "err", err)
		d.NakWithDelay(5 * time.Second)
		return
	}
	d.b.meter.rejected.Inc()
	d.Ack()
}

// settle is the only place that acknowledges.
func (d Delivery) settle(ack string) {
	if err := d.b.nc.Publish(d.reply, []byte(ack)); err != nil {
		d.b.log.Debug("message not acknowledged; it is redelivered", "subject", d.Subject, "err", err)
	}
}
