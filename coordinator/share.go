package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// What many share and nobody may use up has one rule: a sharer may have as many as are free. One alone so gets half of all, two a third
// each, and there is always room for another. Callers share the queues that their runs' demands make, profiles those of their runners'
// agents, and the places of runners.

// has tells whether who has mine of all that are taken may have one more.
func has(room, all, mine int) bool { return mine < room-all }

// callerOf is whose share a request counts to: who asks, without saying who that is. An executor's session counts to whoever its run
// counts to.
func (c *Coordinator) callerOf(scope string) string {
	if session, ok := strings.CutPrefix(scope, "session:"); ok {
		for _, a := range c.Journal.Open(session) {
			if a.Claim != nil {
				return a.Spec.Caller
			}
		}
		scope = "session:"
	}
	sum := sha256.Sum256([]byte(scope))
	return hex.EncodeToString(sum[:8])
}
