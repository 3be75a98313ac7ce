package projection

import (
	"time"
)

// idles is which sessions have a process that waits for their next turn, as their runners say. No record says it and
// nothing is decided by it: it is shown, and that is all.
type idles struct {
	of   map[ident]string // session → runner
	told map[string]idleAt
}

type idleAt struct {
	at       time.Time
	sessions map[ident]bool
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

// starts is which runs were seen running last, and which sessions became idle or ceased to be: no record says it, so
// live readers are told apart from the streams.
type starts struct {
	ring  [256]string
	count uint64        // how many there have been
	more  chan struct{} // closed when there is one more
}

func (s *starts) add(id string) {
	s.ring[s.count%uint64(len(s.ring))] = id
	s.count++
	close(s.more)
	s.more = make(chan struct{})
}

// since are the last of those after the first so many.
func (s *starts) since(heard uint64) (ids []string) {
	for i := max(heard, s.count-min(s.count, uint64(len(s.ring)))); i < s.count; i++ {
		ids = append(ids, s.ring[i%uint64(len(s.ring))])
	}
	return ids
}
