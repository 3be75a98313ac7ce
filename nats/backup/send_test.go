package backup

import (
	"testing"
	"time"

	"ao/nats/natstest"

	"github.com/nats-io/nats.go"
)

// TestChunkWaitsForItsReceiver: in a cluster the server that takes the pieces may be known a moment later than it
// said so.
func TestChunkWaitsForItsReceiver(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t, natstest.Server(t))
	time.AfterFunc(100*time.Millisecond, func() {
		_, _ = nc.Subscribe("taker", func(m *nats.Msg) { _ = m.Respond([]byte("taken")) })
	})
	answer, err := send(t.Context(), nc, "taker", []byte("piece"))
	if err != nil || string(answer) != "taken" {
		t.Errorf("%q, %v", answer, err)
	}
}
