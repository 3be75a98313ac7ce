package sessions

// New makes a Service.
func New(n Needs) *Service {
	return &Service{
		Tokens:  &Tokens{started: n.Started, ready: n.Ready, keys: n.Keys, history: n.History, reads: n.Reads},
		history: n.History, reads: n.Reads, stops: n.Stops, records: n.Records, stream: n.Stream, version: n.Version,
		runOf: n.RunOf, log: n.Log,
	}
}
