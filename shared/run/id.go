package run

import (
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"ao/shared/fault"

	"github.com/google/uuid"
)

var (
	sessionID = regexp.MustCompile(`^ses_[0-9A-Za-z_-]{1,64}$`)
	runID     = regexp.MustCompile(`^run_[0-9A-Za-z]{1,64}$`)
)

// NewID makes a run id (UUIDv7 without dashes).
func NewID() string { return "run_" + v7() }

// NewSessionID makes a session id likewise.
func NewSessionID() string { return "ses_" + v7() }

// KeyedID makes a run id from 32 random hexadecimal digits that an idempotency key gives. It tells no time (UUIDv8).
func KeyedID(digits string) string { return "run_" + v8(digits) }

// KeyedSessionID makes a session id likewise.
func KeyedSessionID(digits string) string { return "ses_" + v8(digits) }

// v8 makes a UUID of version 8 of the digits of a hash.
func v8(digits string) string {
	variant := "89ab"[strings.IndexByte("0123456789abcdef", digits[16])&3]
	return digits[:12] + "8" + digits[13:16] + string(variant) + digits[17:32]
}

// CreatedAt is when an id was made, to the millisecond; false: a caller chose the id, or it was made from a key.
func CreatedAt(id string) (time.Time, bool) {
	_, digits, _ := strings.Cut(id, "_")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(uuid.UUID{}) || uuid.UUID(raw).Version() != 7 {
		return time.Time{}, false
	}
	return time.Unix(uuid.UUID(raw).Time().UnixTime()), true
}

func v7() string {
	id := uuid.Must(uuid.NewV7())
	return string(hex.AppendEncode(make([]byte, 0, 2*len(id)), id[:]))
}

// CheckSessionID checks a session id that a caller chose.
func CheckSessionID(id string) error {
	if sessionID.MatchString(id) {
		return nil
	}
	return fault.Newf(fault.Invalid, "session_id %.80q: use ses_ and 1 to 64 letters, digits, '_' or '-'",
		id).With("field", "session_id")
}

// CheckID checks whether id can be a run id.
func CheckID(id string) error {
	if runID.MatchString(id) {
		return nil
	}
	return fault.Newf(fault.Invalid, "run_id %.80q: a run's id is run_ and letters and digits", id).With("field",
		"run_id")
}
