package ledger

import (
	"time"

	"ao/coordinator/highwater"
)

// acceptedAt is when the last accepted damage was found.
func acceptedAt(damages []highwater.Damage) (at time.Time) {
	for _, d := range damages {
		if d.AcceptedAt != nil {
			at = d.FoundAt
		}
	}
	return at
}

// addDamages adds what the comparison with the high-water mark has found.
func (r *Report) addDamages(damages []highwater.Damage) {
	r.Damages = append([]highwater.Damage{}, damages...)
	for _, d := range damages {
		if d.AcceptedAt == nil {
			r.OK, r.Count = false, r.Count+1
			r.Wrong = append([]Wrong{{Kind: kindDamage, Sequence: d.Ends, Message: d.Message}}, r.Wrong...)
		}
	}
	r.Wrong = r.Wrong[:min(len(r.Wrong), maxWrong)]
}
