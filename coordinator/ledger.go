package coordinator

import (
	"context"

	"ao/coordinator/ledger"
)

// Ledger audits the stream (GET /ledger), whatever this coordinator's own fold says.
func (c *Coordinator) Ledger(ctx context.Context) (ledger.Report, error) {
	return ledger.Read(ctx, c.bus, ledger.Rules{Key: c.keys.Of, Checked: c.keys.Marked, Version: c.RecordVersion})
}
