package runs

// New makes a Service.
func New(n Needs) *Service {
	s := &Service{
		Needs:       n,
		Plans:       &Planner{n.Limits, n.History, n.Reads, n.Agents, n.Runners, n.Schema, n.Embed, n.Callback},
		Idempotency: &Idempotency{n.IDs, n.History, n.Stream, n.Damaged},
		treeStops:   TreeStops{n.History, n.Stream}, meter: newRunMeter(n.Metrics),
	}
	s.Stopper = &Stopper{n.Ends, n.Records, n.History, n.Reads, s.Show, n.Version}
	return s
}
