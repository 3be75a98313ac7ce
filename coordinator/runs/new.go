package runs

// New makes a Service.
func New(n Needs) *Service {
	s := &Service{
		Plans: &Planner{
			limits: n.Limits, history: n.History, reads: n.Reads, agents: n.Agents, runners: n.Runners,
			schema:   n.Schema,
			callback: n.Callback,
		},
		Idempotency: &Idempotency{keys: n.Keys, stream: n.Stream, history: n.History, torn: n.Torn},
		records:     n.Records, stream: n.Stream, torn: n.Torn, history: n.History, reads: n.Reads, runners: n.Runners,
		treeStops: TreeStops{n.History, n.Stream},
		queues:    n.Queues,
		version:   n.Version, ready: n.Ready, checkDisk: n.CheckDisk, waiting: n.Waiting, retry: n.Retry,
		spans: n.Spans, meter: newRunMeter(n.Metrics), maxWaiting: n.Limits.Waiting,
	}
	s.Stopper = &Stopper{ends: n.Ends, records: n.Records, history: n.History, reads: n.Reads, show: s.Show,
		version: n.Version}
	return s
}
