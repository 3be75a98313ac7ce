package journal

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

// Idle notes which sessions a runner has idle processes of; what it has listed before and not now is over. Sessions that do not exist,
// or whose last turn another runner did, do not count.
func (j *Journal) Idle(runner string, sessions []string) {
	j.mu.RLock()
	before := len(j.idle.told[runner].sessions)
	j.mu.RUnlock()
	if before == 0 && len(sessions) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.idle.of == nil {
		j.idle = idles{map[ident]string{}, map[string]idleAt{}}
	}
	own := map[ident]bool{}
	for _, id := range sessions {
		if s := j.fold.sessions[identOf(sessionPrefix, id)]; s != nil && s.isWith(runner) {
			own[s.id] = true
		}
	}
	j.idleNow(runner, own)
}

// isWith tells whether the runner has the session's turn, or did the last one.
func (s *session) isWith(runner string) bool {
	return s.speaker().runner == runner || s.lastEnded != nil && s.lastEnded.runner == runner
}

// idleNow is Idle for who holds mu.
func (j *Journal) idleNow(runner string, sessions map[ident]bool) {
	for i := range j.idle.told[runner].sessions {
		if j.idle.of[i] == runner && !sessions[i] {
			delete(j.idle.of, i)
			j.starts.add(i.text(sessionPrefix))
		}
	}
	for i := range sessions {
		if j.idle.of[i] != runner {
			j.idle.of[i] = runner
			j.starts.add(i.text(sessionPrefix))
		}
	}
	if len(sessions) == 0 {
		delete(j.idle.told, runner)
		return
	}
	j.idle.told[runner] = idleAt{time.Now(), sessions}
}

// Silent forgets the idle processes of runners that were not heard for so long.
func (j *Journal) Silent(patience time.Duration) {
	silent := func(_ string, a idleAt) bool { return time.Since(a.at) > patience }
	j.mu.RLock()
	found := false
	for runner, a := range j.idle.told {
		found = found || silent(runner, a)
	}
	j.mu.RUnlock()
	if !found {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for runner, a := range maps.Clone(j.idle.told) {
		if silent(runner, a) {
			j.idleNow(runner, nil)
		}
	}
}

// statusOf is the session's status: as its runs make it, or idle where the last of them ended well and its process lives. The
// caller holds mu.
func (j *Journal) statusOf(s *session) run.SessionStatus {
	status := run.SessionStatusOf(s.speaker().shown())
	if status == run.SessionFinished && len(j.idle.of) > 0 && j.idle.of[s.id] != "" {
		return run.SessionIdle
	}
	return status
}

// viewOf is the session as readers see it. The caller holds mu.
func (j *Journal) viewOf(s *session) run.Session {
	v := j.fold.viewOf(s)
	v.Status = j.statusOf(s)
	return v
}

// LastBegun is the run of the session that a runner has begun last, beside the one given; empty: none is known. A worker knows
// by it whether the process that it keeps for the session did the turn before.
func (j *Journal) LastBegun(session, but string) string {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.fold.sessions[identOf(sessionPrefix, session)]
	if s == nil {
		return ""
	}
	var last *row
	for r := s.firstRow; r != nil; r = r.next {
		if r.begun && r.id != identOf(runPrefix, but) {
			last = r
		}
	}
	if last == nil {
		return ""
	}
	return last.runID()
}

// Gone tells whether a session was deleted, and none of that id has begun since.
func (j *Journal) Gone(session string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	id := identOf(sessionPrefix, session)
	return j.fold.deleted[id] != 0 && j.fold.sessions[id] == nil
}
