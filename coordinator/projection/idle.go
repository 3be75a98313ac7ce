package projection

import (
	"time"

	"ao/coordinator/projection/state"
)

// idles are the sessions with a process that waits for their next turn, as runners report. No record has this; it is
// only shown.
type idles struct {
	of       map[state.Ident]string // session → runner
	reported map[string]idleAt
}

type idleAt struct {
	at       time.Time
	sessions map[state.Ident]bool
}

// now notes a runner's idle processes. It adds the sessions that became idle, or stopped being idle, to the changes for
// live readers.
func (i *idles) now(runner string, sessions map[state.Ident]bool, changes *liveChanges) {
	for id := range i.reported[runner].sessions {
		if i.of[id] == runner && !sessions[id] {
			delete(i.of, id)
			changes.add(id.Text(state.SessionPrefix))
		}
	}
	for id := range sessions {
		if i.of[id] != runner {
			i.of[id] = runner
			changes.add(id.Text(state.SessionPrefix))
		}
	}
	if len(sessions) == 0 {
		delete(i.reported, runner)
		return
	}
	i.reported[runner] = idleAt{time.Now(), sessions}
}

// liveChanges is a ring of recent state changes that no record carries: a run started, a session went idle or was
// deleted. Live readers poll it besides the streams.
type liveChanges struct {
	ring  [256]string
	count uint64        // of all changes ever
	more  chan struct{} // closed when there is one more
}

func (s *liveChanges) add(id string) {
	s.ring[s.count%uint64(len(s.ring))] = id
	s.count++
	close(s.more)
	s.more = make(chan struct{})
}

// since returns the changes after the first heard ones, as far as they are kept.
func (s *liveChanges) since(heard uint64) (ids []string) {
	for i := max(heard, s.count-min(s.count, uint64(len(s.ring)))); i < s.count; i++ {
		ids = append(ids, s.ring[i%uint64(len(s.ring))])
	}
	return ids
}
