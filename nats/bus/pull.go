package bus

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
)

// The timing of pulls. The server sends heartbeats for a pull that it knows. A leader change forgets pulls
// without notice; a pull during the change may not even get a first heartbeat, and is repeated soon.
const (
	pullExpires        = 8 * time.Second
	pullHeartbeat      = time.Second
	pullLost           = 4 * pullHeartbeat
	pullFirstHeartbeat = 5 * pullHeartbeat / 2
)

var (
	errNoConsumer = errors.New("no such consumer")
	errLost       = errors.New("pull lost")
)

// maxPull is the most bytes of one pull; no message is as large. The server sends them at once, and cuts off a client
// that has too much to read (max_pending).
const maxPull = 4 << 20

// puller pulls messages from a consumer over one subscription. One goroutine owns it.
type puller struct {
	b         *Conn
	api       string
	sub       *nats.Subscription
	inbox     string
	in        chan *nats.Msg
	asked     int       // messages asked for and not received
	lastHeard time.Time // the last message or heartbeat
	proven    bool      // there was one since the subscription began
	pulls     uint64
}

func newPuller(b *Conn, stream, consumer string, room int) (*puller, error) {
	p := &puller{
		b: b, api: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		inbox: b.nc.NewInbox(), in: make(chan *nats.Msg, room), lastHeard: time.Now(),
	}
	var err error
	p.sub, err = b.nc.ChanSubscribe(p.inbox+".*", p.in)
	return p, err
}

// ask asks for n more messages.
func (p *puller) ask(n int) error {
	ask, err := strictjson.Encode(struct {
		Expires time.Duration `json:"expires"`
		Batch   int           `json:"batch"`
		Bytes   int           `json:"max_bytes"`
		Beat    time.Duration `json:"idle_heartbeat"`
	}{pullExpires, n, maxPull, pullHeartbeat})
	if err != nil {
		return err
	}
	if p.asked == 0 {
		p.lastHeard = time.Now()
	}
	p.pulls++
	if err := p.b.nc.PublishRequest(p.api, p.inbox+"."+strconv.FormatUint(p.pulls, 36), ask); err != nil {
		return err
	}
	p.asked += n
	return nil
}

// note processes a message. record is true for a message of the stream. The error means that the consumer or
// the pulls are gone.
func (p *puller) note(m *nats.Msg) (record bool, err error) {
	p.lastHeard, p.proven = time.Now(), true
	if len(m.Data) > 0 || m.Header == nil || m.Reply != "" {
		p.asked = max(p.asked-1, 0)
		return true, nil
	}
	switch m.Header.Get("Status") {
	case "":
		p.asked = max(p.asked-1, 0)
		return true, nil
	case "100":
		return false, nil
	case "404", "408", "409":
		if text := m.Header.Get("Description"); strings.EqualFold(text, "Consumer Deleted") {
			return false, errNoConsumer
		}
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			return false, errLost
		}
		p.asked = max(p.asked-left, 0)
		return false, nil
	case "503":
		return false, errNoConsumer
	default:
		return false, errLost
	}
}

// lost reports whether a pull is in flight and nothing was heard for too long.
func (p *puller) lost() bool {
	timeout := pullLost
	if !p.proven {
		timeout = pullFirstHeartbeat
	}
	return p.asked > 0 && len(p.in) == 0 && time.Since(p.lastHeard) > timeout
}

// close ends the subscription. Messages that were on their way are then in p.in.
func (p *puller) close() { p.b.drain(p.sub) }

// origin is what the reply subject of a delivery contains.
type origin struct {
	delivered, stream, consumer uint64
	at                          time.Time
	pending                     uint64 // messages that the consumer has left
}

// readOrigin parses $JS.ACK.[domain.account.]stream.consumer.delivered.sseq.cseq.time.pending[.token].
func readOrigin(reply string) (origin, bool) {
	skip := 4
	if strings.Count(reply, ".") >= 10 {
		skip = 6
	}
	var n [5]uint64
	for i := 0; i < skip+len(n); i++ {
		var token string
		token, reply, _ = strings.Cut(reply, ".")
		if i < skip {
			continue
		}
		v, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return origin{}, false
		}
		n[i-skip] = v
	}
	return origin{n[0], n[1], n[2], time.Unix(0, int64(n[3])), n[4]}, true
}
