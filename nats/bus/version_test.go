package bus_test

import (
	"strings"
	"testing"
	"time"
)

// A server without atomic batches is refused at the start, whatever it would answer.
func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	asked := func(subj string) (string, time.Duration) { t.Errorf("%s was asked", subj); return "-", 0 }
	err := scriptedAs(t, "2.11.17", asked).Setup(t.Context())
	if err == nil || !strings.Contains(err.Error(), "nats-server 2.11.17 is too old: run 2.12 or newer") {
		t.Errorf("Setup with nats-server 2.11.17: %v", err)
	}
}
