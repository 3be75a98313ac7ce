package runnerapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// HeaderSession names the session of an agent that calls the API. The worker sets it for its executors.
const HeaderSession = "X-Agent-Session-Id"

// TokenPrefix begins every session token, so that none is mistaken for an API token.
const TokenPrefix = "aos_"

// SessionToken authenticates an executor's session at the API. It is valid for that session only, and while
// that attempt runs. It is derived from the attempt's key and does not reveal it.
func SessionToken(run string, attempt int, key string) string {
	name := run + "." + strconv.Itoa(attempt)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("session token " + name))
	return TokenPrefix + name + "." + hex.EncodeToString(mac.Sum(nil)[:16])
}

// ReadSessionToken returns whose token it claims to be. To verify it, make SessionToken of that and compare in
// constant time.
func ReadSessionToken(token string) (run string, attempt int, ok bool) {
	rest, ok := strings.CutPrefix(token, TokenPrefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 {
		return "", 0, false
	}
	attempt, err := strconv.Atoi(parts[1])
	return parts[0], attempt, err == nil && attempt > 0 && parts[0] != ""
}
