package projection

import (
	"maps"
	"time"

	"ao/coordinator/projection/state"
)

// Overlay is what runners report between records. It is shown, and nothing is decided by it.
type Overlay struct{ p *Projection }

// Idle notes the sessions for which a runner has idle processes, and forgets those no longer listed. Sessions that do
// not exist, or whose last turn another runner did, are ignored.
func (x *Overlay) Idle(runner string, sessions []string) {
	before := Read(x.p, func(*state.State) int { return len(x.p.idle.reported[runner].sessions) })
	if before == 0 && len(sessions) == 0 {
		return
	}
	x.p.Updating(func(f *state.State) {
		if x.p.idle.of == nil {
			x.p.idle = idles{map[state.Ident]string{}, map[string]idleAt{}}
		}
		own := map[state.Ident]bool{}
		for _, id := range sessions {
			if s := f.Session(id); s != nil && s.IsWith(runner) {
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
	x.p.Reading(func(*state.State) {
		for runner, a := range x.p.idle.reported {
			found = found || silent(runner, a)
		}
	})
	if !found {
		return
	}
	x.p.Updating(func(*state.State) {
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
	known := Read(x.p, func(f *state.State) bool {
		r := f.Run(id)
		return r == nil || r.Active() == nil || r.Active().Started != nil
	})
	if known {
		return
	}
	x.p.Updating(func(f *state.State) {
		if state.NoteStarted(f, id, key, at) {
			x.p.liveChanges.add(id)
		}
	})
}

// NewOverlay returns the projection's overlay.
func NewOverlay(p *Projection) *Overlay { return &Overlay{p} }
