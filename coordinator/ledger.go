package coordinator

import (
	"context"

	"ao/coordinator/ledger"
	"ao/nats/bus"
)

// auditor reads the stream anew, whatever this coordinator's own fold says.
type auditor struct {
	stream *bus.Bus
	rules  ledger.Rules
}

// Ledger audits the stream (GET /ledger).
func (a *auditor) Ledger(ctx context.Context) (ledger.Report, error) {
	return ledger.Read(ctx, a.stream, a.rules)
}
