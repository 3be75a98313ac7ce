package query

import (
	"testing"

	"ao/nats/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
