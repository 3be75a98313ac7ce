package runnerapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"ao/shared/fault"
)

// The length limits of a process's secret, in characters.
const (
	minSecret = 16
	maxSecret = 128
)

// NewSecret makes the secret of a worker process: 130 random bits. It is sent to coordinators only, and never stored.
func NewSecret() string { return rand.Text() }

// hashSecret returns what coordinators store of a secret. A secret has enough random bits for a plain hash.
func hashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// HashSecret returns the registered runner with the hash of its secret instead of the secret. A hash in the
// registration itself is ignored.
func (r Registration) HashSecret() (Runner, error) {
	if n := len(r.Secret); n != 0 && (n < minSecret || n > maxSecret) {
		return Runner{}, fault.Newf(fault.Invalid, "secret must be %d to %d characters", minSecret,
			maxSecret).With("field", "secret")
	}
	r.SecretHash = hashSecret(r.Secret)
	return r.Runner, nil
}

// IsProcess reports whether instance and secret are those of the registered process. A registration without a
// hash is an older worker's: only its instance is compared.
func (r Runner) IsProcess(instance, secret string) bool {
	return r.Instance == instance && (r.SecretHash == "" ||
		subtle.ConstantTimeCompare([]byte(r.SecretHash), []byte(hashSecret(secret))) == 1)
}

// IsReplyOf reports whether a reply to a command can be the registered process's.
func (r Runner) IsReplyOf(reply CommandReply) bool {
	return r.SecretHash == "" || r.IsProcess(reply.Instance, reply.Secret)
}

// maxID is the longest runner id, in characters after its prefix.
const maxID = 64

// IsID reports whether a text can be a runner id: rnr_ and 1 to 64 letters and digits. No other key beside the
// registrations looks like that.
func IsID(text string) bool {
	rest, ok := strings.CutPrefix(text, "rnr_")
	return ok && rest != "" && len(rest) <= maxID && strings.Trim(rest, alphanumeric) == ""
}

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// CheckID refuses a text that IsID does not accept.
func CheckID(text string) error {
	if IsID(text) {
		return nil
	}
	return fault.Newf(fault.Invalid, "runner_id %.80q: use rnr_ and letters and digits", text).With("field",
		"runner_id")
}
