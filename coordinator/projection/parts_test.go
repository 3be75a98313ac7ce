package projection

import "ao/nats/bus"

// Journal is all parts in one, for tests that look at many.
type Journal struct {
	*Projection
	*Index
	*Lives
	*Agenda
	*Overlay
	*Reader
	*Lists
	*Feed
	*Follower
}

func joined(b *bus.Bus, cfg Config) *Journal {
	p := New(b, cfg)
	return &Journal{p.Projection, p.Index, p.Lives, p.Agenda, p.Overlay, p.Reader, p.Lists, p.Feed, p.Follower}
}
