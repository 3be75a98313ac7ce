package payload

import (
	"maps"
	"time"

	"ao/shared/runnerapi"
)

// upload is a payload that no record of the projection names.
type upload struct {
	owner Owner
	bytes int64
	at    time.Time // when a part of it was last admitted
}

// unnamed are those payloads, and their bytes: in all, and of each caller. A record may come for an upload, and never
// does for a state of a conversation. There are many states, so nothing that is done for each part walks them.
type unnamed struct {
	uploads, states map[string]upload
	all             int64
	of              map[string]int64
}

// kind returns where a payload of this name is.
func (p *unnamed) kind(name string) map[string]upload {
	if _, state := runnerapi.StatePointerOf(name); state {
		return p.states
	}
	return p.uploads
}

func (p *unnamed) find(name string) (u upload, ok bool) {
	u, ok = p.kind(name)[name]
	return u, ok
}

func (p *unnamed) put(name string, u upload) {
	if p.of == nil {
		p.uploads, p.states, p.of = map[string]upload{}, map[string]upload{}, map[string]int64{}
	}
	p.drop(name)
	p.kind(name)[name] = u
	p.all += u.bytes
	p.of[brief(u.owner.Caller)] += u.bytes
}

func (p *unnamed) drop(name string) {
	u, ok := p.find(name)
	if !ok {
		return
	}
	delete(p.kind(name), name)
	caller := brief(u.owner.Caller)
	p.all -= u.bytes
	p.of[caller] -= u.bytes
	if p.of[caller] == 0 {
		delete(p.of, caller)
	}
}

// missing drops those that are not in a list of the store, but for those that were being stored since a time.
func (p *unnamed) missing(sizes map[string]int64, since time.Time) {
	gone := func(name string, u upload) bool {
		_, there := sizes[name]
		return !there && u.at.Before(since)
	}
	for _, all := range []map[string]upload{p.uploads, p.states} {
		for name, u := range maps.Clone(all) {
			if gone(name, u) {
				p.drop(name)
			}
		}
	}
}

// brief returns as much of a caller's hash as is kept with each run.
func brief(caller string) string { return caller[:min(8, len(caller))] }
