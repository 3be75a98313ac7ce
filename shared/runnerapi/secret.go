package runnerapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"ao/shared/fault"
)

// The shortest and longest secret of a process, in characters.
const (
	shortestSecret = 16
	longestSecret  = 128
)

// NewSecret makes the secret of a worker process: 130 random bits. It is sent to coordinators alone, and stored by nobody.
func NewSecret() string { return rand.Text() }

// proofOf is what coordinators store of a secret. A secret has enough random bits for a plain hash.
func proofOf(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Admitted is the runner that a registration announces, with the proof of its secret in place of the secret. What the
// registration itself says of a proof counts for nothing.
func (r Registration) Admitted() (Runner, error) {
	if n := len(r.Secret); n != 0 && (n < shortestSecret || n > longestSecret) {
		return Runner{}, fault.Newf(fault.Invalid, "secret must be %d to %d characters", shortestSecret, longestSecret).With("field", "secret")
	}
	r.Proof = proofOf(r.Secret)
	return r.Runner, nil
}

// IsProcess reports whether instance and secret are those of the registered process. A registration without a proof is
// that of an older worker: its instance alone decides.
func (r Runner) IsProcess(instance, secret string) bool {
	return r.Instance == instance && (r.Proof == "" || subtle.ConstantTimeCompare([]byte(r.Proof), []byte(proofOf(secret))) == 1)
}

// Answered reports whether a reply to a command can be the registered process's.
func (r Runner) Answered(reply CommandReply) bool {
	return r.Proof == "" || r.IsProcess(reply.Instance, reply.Secret)
}

// longestID is the longest runner id, in characters after its prefix.
const longestID = 64

// IsID reports whether a text can be a runner's id: rnr_ and 1 to 64 letters and digits. Nothing else that is kept beside
// registrations has such a name.
func IsID(text string) bool {
	rest, ok := strings.CutPrefix(text, "rnr_")
	return ok && rest != "" && len(rest) <= longestID && strings.Trim(rest, alphanumeric) == ""
}

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// CheckID refuses what IsID does not take.
func CheckID(text string) error {
	if IsID(text) {
		return nil
	}
	return fault.Newf(fault.Invalid, "runner_id %.80q: a runner's id is rnr_ and letters and digits", text).With("field", "runner_id")
}
