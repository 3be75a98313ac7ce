package projection

import "ao/nats/bus"

// allParts is all parts in one, for tests that use many.
type allParts struct {
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

func joined(b *bus.Bus, cfg Config) *allParts {
	p := New(b, cfg)
	return &allParts{p.Projection, p.Index, p.ActiveRuns, p.Worklist, p.Overlay, p.Reader, p.Lists, p.Feed, p.Follower}
}
