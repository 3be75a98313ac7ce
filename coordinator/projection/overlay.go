package projection

import (
	"maps"
	"time"
)

// Overlay is what runners say between records: it is shown, and decides nothing.
type Overlay struct{ p *Projection }

// Idle notes which sessions a runner has idle processes of; what it has listed before and not now is over. Sessions
// that do not exist, or whose last turn another runner did, do not count.
func (x *Overlay) Idle(runner string, sessions []string) {
	before := read(x.p, func(*fold) int { return len(x.p.idle.told[runner].sessions) })
	if before == 0 && len(sessions) == 0 {
		return
	}
	x.p.changing(func(f *fold) {
		if x.p.idle.of == nil {
			x.p.idle = idles{map[ident]string{}, map[string]idleAt{}}
		}
		own := map[ident]bool{}
		for _, id := range sessions {
			if s := f.sessions[identOf(sessionPrefix, id)]; s != nil && s.isWith(runner) {
				own[s.id] = true
			}
		}
		x.p.idle.now(runner, own, &x.p.starts)
	})
}

// Silent forgets the idle processes of runners that were not heard for so long.
func (x *Overlay) ExpireIdle(patience time.Duration) {
	silent := func(_ string, a idleAt) bool { return time.Since(a.at) > patience }
	found := false
	x.p.reading(func(*fold) {
		for runner, a := range x.p.idle.told {
			found = found || silent(runner, a)
		}
	})
	if !found {
		return
	}
	x.p.changing(func(*fold) {
		for runner, a := range maps.Clone(x.p.idle.told) {
			if silent(runner, a) {
				x.p.idle.now(runner, nil, &x.p.starts)
			}
		}
	})
}

// Started notes what a runner says of its attempt: its executor runs. It shows, and decides nothing.
func (x *Overlay) Started(id, key string, at time.Time) {
	known := read(x.p, func(f *fold) bool {
		r := f.runs[identOf(runPrefix, id)]
		return r == nil || r.live == nil || r.live.snap.Started != nil
	})
	if known {
		return
	}
	x.p.changing(func(f *fold) {
		if f.startedAt(id, key, at) {
			x.p.starts.add(id)
			f.changes.add(f.seq, f.runs[identOf(runPrefix, id)])
		}
	})
}
