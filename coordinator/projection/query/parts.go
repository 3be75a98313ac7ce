package query

import (
	"ao/coordinator/projection"
)

// Parts answer questions, each about one subject. Callers hold the part they need, or an interface of their own. All
// methods may be called concurrently.
type Parts struct {
	Index      *Index
	Payloads   *Payloads
	ActiveRuns *ActiveRuns
	Worklist   *Worklist
	Reader     *Reader
	Lists      *Lists
	Feed       *Feed
}

// New returns the parts. key computes the keys of attempts; nil: events need no proof.
func New(p *projection.Projection, records Log, fresh Freshness, key func(run string, attempt int) string) Parts {
	reader := &Reader{p: p, records: records, fresh: fresh}
	lists := &Lists{p: p, fresh: fresh, reader: reader, stride: stride, searchTime: searchTime}
	return Parts{
		Index: &Index{p}, Payloads: &Payloads{p}, ActiveRuns: &ActiveRuns{p}, Worklist: &Worklist{p},
		Reader: reader, Lists: lists,
		Feed: &Feed{p: p, records: records, fresh: fresh, reader: reader, lists: lists, key: key},
	}
}
