//go:build compose

package compose

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestCluster tests the stack of docker-compose.cluster.yml under faults: losing a server or a coordinator loses no
// data.
func TestCluster(t *testing.T) {
	if os.Getenv("AO_TEST_COMPOSE") == "" {
		t.Fatal("AO_TEST_COMPOSE is not set: start this by scripts/compose-test, which brings the stack up")
	}
	s := open(t)
	ready(t, s)
	for n := range 3 {
		s.stores(t, fmt.Sprintf("nats-%d", n+1), fmt.Sprintf("/own/%d", n+1), 3)
	}
	confinedCluster(t, s)
	checkSecrets(t, s)
	second := *s
	second.http = "http://127.0.0.1:" + os.Getenv("AO_HTTP_PORT_2")
	s.until(t, time.Minute, "the second coordinator is ready", func() error { return second.get("/ready", nil) })
	l := s.load(t)
	l.more("before anything is killed")
	for _, n := range []string{"nats-2", "nats-3"} {
		s.kill(t, n)
		l.more("without " + n)
		s.docker(t, "start", n)
		l.more("with " + n + " again")
		s.until(t, time.Minute, "the cluster is whole", func() error { return s.current(t) })
	}
	s.kill(t, "coordinator-2")
	l.more("without the second coordinator")
	s.docker(t, "start", "coordinator-2")
	l.settle("two NATS servers and a coordinator killed")
	s.verify(t)
	s.until(t, time.Minute, "the second coordinator proves it too", func() error { return second.get("/ready", nil) })
	second.verify(t)
}

func confinedCluster(t *testing.T, s *stack) {
	s.until(t, 90*time.Second, "every container is as it should be", func() error {
		for _, id := range strings.Fields(s.docker(t, "ps", "-q")) {
			if err := checkContainer(id); err != nil {
				return err
			}
		}
		return nil
	})
	// No one else can reach the servers' own network.
	if out, err := s.try("exec", "-T", "worker-procedural", "getent", "hosts", "route-1"); err == nil {
		t.Errorf("a worker finds the address at which the NATS servers speak to each other: %s", out)
	}
}

// current reports whether the replicas of every stream have caught up.
func (s *stack) current(t *testing.T) error {
	nc, err := s.coordinator(t)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	n := 0
	list := js.ListStreams(t.Context())
	for i := range list.Info() {
		n++
		if i.Config.Replicas != 3 || i.Cluster == nil || len(i.Cluster.Replicas) != 2 {
			return fmt.Errorf("%s has not three copies: %+v", i.Config.Name, i.Cluster)
		}
		for _, r := range i.Cluster.Replicas {
			if !r.Current || r.Offline {
				return fmt.Errorf("%s at %s has not caught up", i.Config.Name, r.Name)
			}
		}
	}
	if n < 11 {
		return fmt.Errorf("%d streams, %v", n, list.Err())
	}
	return nil
}
