package projection

import "ao/nats/bus"

// Journal is all parts in one, for tests that look at many.
type Journal struct {
	*Projection
	*Index
	*ActiveRuns
	*Worklist
	*Overlay
	*Reader
	*Lists
	*Feed
	*Follower
}

func joined(b *bus.Bus, cfg Config) *Journal {
	p := New(b, cfg)
	return &Journal{p.Projection, p.Index, p.ActiveRuns, p.Worklist, p.Overlay, p.Reader, p.Lists, p.Feed, p.Follower}
}
