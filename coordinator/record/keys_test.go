package record

import (
	"testing"

	"ao/shared/run"
)

// TestIDsOfAKey: they have the form of other ids, tell no time, and belong to one key of one caller of one deployment.
func TestIDsOfAKey(t *testing.T) {
	k, other := NewKeys(), NewKeys()
	seen := map[string]bool{}
	for _, keys := range []*Keys{k, other} {
		for _, scope := range []string{"a", "b", ""} {
			for _, key := range []string{"k", "ak", "\x00k"} {
				id, session := keys.IDs(scope, key)
				again, _ := keys.IDs(scope, key)
				_, dated := run.CreatedAt(id)
				if run.CheckID(id) != nil || run.CheckSessionID(session) != nil || len(id) != len(run.NewID()) ||
					dated || id != again || seen[id] || seen[session] || id[4:] == session[4:] {
					t.Errorf("scope %q, key %q: got %s and %s", scope, key, id, session)
				}
				seen[id], seen[session] = true, true
			}
		}
	}
}
