package projection

import (
	"maps"
	"time"
)

// Overlay is what runners report between records. It is shown, and nothing is decided by it.
type Overlay struct{ p *Projection }

// Idle notes the sessions for which a runner has idle processes, and forgets those no longer listed. Sessions that do
// not exist, or whose last turn another runner did, are ignored.
func (x *Overlay) Idle(runner string, sessions []string) {
	before := read(x.p, func(*reducer) int { return len(x.p.idle.reported[runner].sessions) })
	if before == 0 && len(sessions) == 0 {
		return
	}
	x.p.changing(func(f *reducer) {
		if x.p.idle.of == nil {
			x.p.idle = idles{map[ident]string{}, map[string]idleAt{}}
		}
		own := map[ident]bool{}
		for _, id := range sessions {
			if s := f.session(id); s != nil && s.isWith(runner) {
				own[s.Ident] = true
			}
		}
		x.p.idle.now(runner, own, &x.p.liveChanges)
	})
}

// ExpireIdle forgets the idle processes of runners without a heartbeat for so long.
func (x *Overlay) ExpireIdle(patience time.Duration) {
	silent := func(_ string, a idleAt) bool { return time.Since(a.at) > patience }
	found := false
	x.p.reading(func(*reducer) {
		for runner, a := range x.p.idle.reported {
			found = found || silent(runner, a)
		}
	})
	if !found {
		return
	}
	x.p.changing(func(*reducer) {
		for runner, a := range maps.Clone(x.p.idle.reported) {
			if silent(runner, a) {
				x.p.idle.now(runner, nil, &x.p.liveChanges)
			}
		}
	})
}

// Started notes that a runner reports its executor as running. For a time more than a year away it notes the present.
func (x *Overlay) Started(id, key string, at time.Time) {
	if now := time.Now().UTC(); now.Sub(at).Abs() > 365*24*time.Hour {
		at = now
	}
	known := read(x.p, func(f *reducer) bool {
		r := f.run(id)
		return r == nil || r.live == nil || r.live.snap.Started != nil
	})
	if known {
		return
	}
	x.p.changing(func(f *reducer) {
		r := f.run(id)
		if r == nil || r.live == nil || r.live.snap.Key != key || r.live.snap.Claim == nil ||
			r.live.snap.Started != nil {
			return
		}
		r.change().Started = &at
		r.show()
		x.p.liveChanges.add(id)
		f.changes.add(f.seq, r)
	})
}
