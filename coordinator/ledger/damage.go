package ledger

import "ao/coordinator/highwater"

// accept lets damages that an admin has accepted explain what is wrong.
func (r *Rules) accept(damages []highwater.Damage) {
	for _, d := range damages {
		if d.AcceptedAt != nil {
			r.Damaged.At, r.Damaged.Seq = d.FoundAt, max(r.Damaged.Seq, d.Ends, d.Reached)
		}
	}
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
