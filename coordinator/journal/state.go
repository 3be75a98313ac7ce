package journal

import "ao/shared/fleet"

// States are the pointers to kept conversations that sessions are bound to.
func (j *Journal) States() map[string]bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	all := map[string]bool{}
	for _, s := range j.fold.sessions {
		if fleet.IsStatePointer(s.bond().model) {
			all[s.bond().model] = true
		}
	}
	return all
}
