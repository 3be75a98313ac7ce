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
	minSecret = 16
	maxSecret = 128
)

// NewSecret makes the secret of a worker process: 130 random bits. It is sent to coordinators alone, and stored by nobody.
func NewSecret() string { return rand.Text() }

// hashSecret is what coordinators store of a secret. A secret has enough random bits for a plain hash.
func hashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// HashSecret is the runner that a registration announces, with the proof of its secret in place of the secret. What the
// registration itself says of a proof counts for nothing.
func (r Registration) HashSecret() (Runner, error) {
	if n := len(r.Secret); n != 0 && (n < minSecret || n > maxSecret) {
		return Runner{}, fault.Newf(fault.Invalid, "secret must be %d to %d characters", minSecret, maxSecret).With("field", "secret")
	}
	r.SecretHash = hashSecret(r.Secret)
	return r.Runner, nil
}

// IsProcess reports whether instance and secret are those of the registered process. A registration without a proof is
// that of an older worker: its instance alone decides.
func (r Runner) IsProcess(instance, secret string) bool {
	return r.Instance == instance && (r.SecretHash == "" || subtle.ConstantTimeCompare([]byte(r.SecretHash), []byte(hashSecret(secret))) == 1)
}

// IsReplyOf reports whether a reply to a command can be the registered process's.
func (r Runner) IsReplyOf(reply CommandReply) bool {
	return r.SecretHash == "" || r.IsProcess(reply.Instance, reply.Secret)
}

// maxID is the longest runner id, in characters after its prefix.
const maxID = 64

// IsID reports whether a text can be a runner's id: rnr_ and 1 to 64 letters and digits. Nothing else that is kept beside
// registrations has such a name.
func IsID(text string) bool {
	rest, ok := strings.CutPrefix(text, "rnr_")
	return ok && rest != "" && len(rest) <= maxID && strings.Trim(rest, alphanumeric) == ""
}

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// CheckID refuses what IsID does not take.
func CheckID(text string) error {
	if IsID(text) {
		return nil
	}
	return fault.Newf(fault.Invalid, "runner_id %.80q: a runner's id is rnr_ and letters and digits", text).With("field", "runner_id")
}
