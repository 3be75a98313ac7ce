package embed_test

import (
	"os"
	"regexp"
	"testing"

	"ao/nats/natstest"

	"github.com/nats-io/nats-server/v2/server"
)

// TestTheStoreOfOurConfigurationHasRoomForAllStreams: what compose lets NATS store is no less than what the streams may hold.
func TestTheStoreOfOurConfigurationHasRoomForAllStreams(t *testing.T) {
	b := natstest.Bus(t, natstest.MaxStore(1<<40)) // as large as they are where there is room
	s, err := b.Standing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../docker-compose.yml", "../../docker-compose.cluster.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`AO_NATS_STORE: \$\{AO_NATS_STORE:-(\w+)\}`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s does not say how much NATS stores", file)
		}
		t.Setenv("AO_NATS_STORE", string(m[1]))
		opts, err := server.ProcessConfigFile("../server.conf")
		if err != nil {
			t.Fatal(err)
		}
		if limits := int64(s.Limits()); opts.JetStreamMaxStore < limits || opts.JetStreamMaxStore > 2*limits {
			t.Errorf("%s: NATS stores %d bytes at most, the streams may hold %d", file, opts.JetStreamMaxStore, limits)
		}
	}
}
