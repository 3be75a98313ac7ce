package follow

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"ao/coordinator/projection"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// NATS may lose its newest records (power loss without a sync per write) or be restored from an older copy. It then
// gives their sequences to other records. A reader that continued after the last sequence it read would see none of
// those.
func TestReplacedHistoryIsReadAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fresh int // runs in the new history
	}{{"shorter", 1}, {"longer", 5}} {
		t.Run(tt.name, func(t *testing.T) {
			server := natstest.Server(t)
			js, err := jetstream.New(natstest.Conn(t, server))
			if err != nil {
				t.Fatal(err)
			}
			conn := natstest.Open(t, server)
			if err := conn.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := &bench{another(t, conn, projection.Config{}), t, conn, conn.Emitter(context.Background(), nil)}
			lost, other := b.actor(run.NewSessionID()), b.actor(run.NewSessionID())
			if err := b.Await(t.Context(), b.write(lost.Queued(1), lost.Claimed(1), other.Accepted(),
				lost.Ended(1, run.Failed, 0))); err != nil {
				t.Fatal(err)
			}
			if err := js.DeleteStream(t.Context(), subject.Runs); err != nil {
				t.Fatal(err)
			}
			if err := conn.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range tt.fresh {
				a := b.actor(run.NewSessionID())
				b.write(a.Queued(1), a.Claimed(1))
			}
			natstest.Until(t, "the new history is read, and only that", func() bool {
				waiting, claimed, ended := b.Counts()
				return b.Ready() == nil && waiting == 0 && claimed == tt.fresh && ended == 0
			})
			if _, err := b.Get(t.Context(), lost.Spec.ID); fault.KindOf(err) != fault.NotFound {
				t.Errorf("a run that is gone: %v", err)
			}
		})
	}
}
