package projection

import (
	"maps"
	"time"

	"ao/shared/run"
)

// idles is which sessions have a process that waits for their next turn, as their runners say. No record says it and nothing is
// decided by it: it is shown, and that is all.
type idles struct {
	of   map[ident]string // session → runner
	told map[string]idleAt
}

type idleAt struct {
	at       time.Time
	sessions map[ident]bool
}

// Overlay is what runners say between records: it is shown, and decides nothing.
type Overlay struct{ p *Projection }

// Idle notes which sessions a runner has idle processes of; what it has listed before and not now is over. Sessions that do not exist,
// or whose last turn another runner did, do not count.
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

// isWith tells whether the runner has the session's turn, or did the last one.
func (s *session) isWith(runner string) bool {
	return s.speaker().runner == runner || s.lastEnded != nil && s.lastEnded.runner == runner
}

// now notes the idle processes of a runner, and has live readers told which sessions are idle since, or not any more.
func (i *idles) now(runner string, sessions map[ident]bool, told *starts) {
	for id := range i.told[runner].sessions {
		if i.of[id] == runner && !sessions[id] {
			delete(i.of, id)
			told.add(id.text(sessionPrefix))
		}
	}
	for id := range sessions {
		if i.of[id] != runner {
			i.of[id] = runner
			told.add(id.text(sessionPrefix))
		}
	}
	if len(sessions) == 0 {
		delete(i.told, runner)
		return
	}
	i.told[runner] = idleAt{time.Now(), sessions}
}

// Silent forgets the idle processes of runners that were not heard for so long.
func (x *Overlay) Silent(patience time.Duration) {
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

// statusOf is the session's status: as its runs make it, or idle where the last of them ended well and its process lives. The
// caller holds mu.
func (p *Projection) statusOf(s *session) run.SessionStatus {
	status := run.SessionStatusOf(s.speaker().shown())
	if status == run.SessionFinished && len(p.idle.of) > 0 && p.idle.of[s.id] != "" {
		return run.SessionIdle
	}
	return status
}

// viewOf is the session as readers see it. The caller holds mu.
func (p *Projection) viewOf(s *session) run.Session {
	v := sessionOf(p.fold, s)
	v.Status = p.statusOf(s)
	return v
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
		}
	})
}
