package bus

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// How long a pull lives, how often the server says that it still knows it, and after how long without a sound
// it counts as lost: a leader change forgets pulls without a word, and who asks in the middle of one, so that not even the
// first sound comes, must soon ask again. A leader that knows a pull and still hands out nothing is asked anew when it ends.
const (
	pullExpires = 8 * time.Second
	pullBeat    = time.Second
	pullLost    = 4 * pullBeat
	pullUnheard = 5 * pullBeat / 2
)

var (
	errGone = errors.New("no such consumer")
	errLost = errors.New("pull lost")
)

// puller asks a consumer for messages over one subscription. One goroutine owns it.
type puller struct {
	b      *Conn
	api    string
	sub    *nats.Subscription
	inbox  string
	in     chan *nats.Msg
	asked  int       // messages asked for that have not come
	heard  time.Time // the last sound
	proven bool      // there was one since the line began
	pulls  uint64
}

func newPuller(b *Conn, stream, consumer string, room int) (*puller, error) {
	p := &puller{
		b: b, api: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		inbox: b.nc.NewInbox(), in: make(chan *nats.Msg, room), heard: time.Now(),
	}
	var err error
	p.sub, err = b.nc.ChanSubscribe(p.inbox+".*", p.in)
	return p, err
}

// ask asks for n more messages, at most maxBytes in all (0: no limit).
func (p *puller) ask(n, maxBytes int) error {
	ask, err := json.Marshal(struct {
		Expires  time.Duration `json:"expires"`
		Batch    int           `json:"batch"`
		MaxBytes int           `json:"max_bytes,omitempty"`
		Beat     time.Duration `json:"idle_heartbeat"`
	}{pullExpires, n, maxBytes, pullBeat})
	if err != nil {
		return err
	}
	if p.asked == 0 {
		p.heard = time.Now()
	}
	p.pulls++
	if err := p.b.nc.PublishRequest(p.api, p.inbox+"."+strconv.FormatUint(p.pulls, 36), ask); err != nil {
		return err
	}
	p.asked += n
	return nil
}

// hear takes note of what came. It says whether it is a message of the stream; an error says that the consumer
// is gone or that the pulls are.
func (p *puller) hear(m *nats.Msg) (record bool, err error) {
	p.heard, p.proven = time.Now(), true
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
			return false, errGone
		}
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			return false, errLost
		}
		p.asked = max(p.asked-left, 0)
		return false, nil
	case "503":
		return false, errGone
	default:
		return false, errLost
	}
}

// lost says that a pull is under way and nothing was heard for too long.
func (p *puller) lost() bool {
	patience := pullLost
	if !p.proven {
		patience = pullUnheard
	}
	return p.asked > 0 && len(p.in) == 0 && time.Since(p.heard) > patience
}

// close ends the subscription; what was on its way then lies in p.in.
func (p *puller) close() { p.b.drain(p.sub) }

// origin is what a delivery's reply subject tells.
type origin struct {
	delivered, stream, consumer uint64
	at                          time.Time
	pending                     uint64 // messages that the consumer has left
}

// readOrigin takes $JS.ACK.[domain.account.]stream.consumer.delivered.sseq.cseq.time.pending[.token] apart.
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
