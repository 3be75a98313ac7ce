package sessions

// New makes a Service.
func New(n Needs) *Service {
	return &Service{&Tokens{n.Started, n.Ready, n.Keys, n.History, n.Reads}, n}
}
