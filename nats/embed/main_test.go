package embed_test

import (
	"os"
	"testing"

	"ao/nats/natstest"
)

// TestMain: these tests need files on a disk, and scripts/test has them in memory where it can.
func TestMain(m *testing.M) {
	os.Setenv("TMPDIR", "/var/tmp")
	natstest.Main(m)
}
