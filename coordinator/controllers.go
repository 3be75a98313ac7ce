package coordinator

import (
	"context"

	"ao/shared/run"
)

// What the controllers are made of. None of them knows the Coordinator.

func newTrees(c *Coordinator) *trees {
	return &trees{history: c.Journal, records: c.records, ends: c.ends, log: c.log}
}

func newUnfinished(c *Coordinator) *unfinished {
	records := struct {
		*writer
		*ender
	}{c.records, c.ends}
	return &unfinished{history: c.Journal, records: records, torn: c.torn, log: c.log}
}

func newOffers(c *Coordinator) *offers {
	return &offers{history: c.Journal, words: c.ends, meter: c.meters, spans: c.Trace, log: c.log, pool: newCheckers(func() { c.scheduler.Wake(offered) })}
}

func newTellings(c *Coordinator) *tellings {
	plan := func(ctx context.Context, req run.Request) (run.Spec, error) {
		p, err := c.plan(ctx, req)
		return p.spec, err
	}
	return &tellings{
		history: c.Journal, records: c.records, submissions: submissions{plan, c.tooLarge}, most: c.MaxPayload, spans: c.Trace, log: c.log,
		pool: newTellers(func() { c.scheduler.Wake(callbackDue) }),
	}
}
