package bus_test

import (
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

func TestARecordOutlivesTheServerThatTookIt(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	b := c.Bus(t)
	seq, err := b.Append(t.Context(), bus.Entry{Subject: ended(1), Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	c.Leader(subject.Runs).Kill()
	natstest.Until(t, "another leads, and has it", func() bool {
		s, err := b.State(t.Context())
		return err == nil && s.Last == seq
	})
	if m, err := b.Last(t.Context(), ended(1)); err != nil || m.Seq != seq || string(m.Body) != "x" {
		t.Errorf("got %+v, %v", m, err)
	}
}
