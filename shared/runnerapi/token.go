package runnerapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// TokenPrefix is how every session token begins, so that nobody takes one for an API token.
const TokenPrefix = "aos_"

// SessionToken is what an executor's session shows to the API: good for that session alone, and while that
// attempt runs. It is made from the attempt's key, which only its worker and the coordinators have, and does not show it.
func SessionToken(run string, attempt int, key string) string {
	name := run + "." + strconv.Itoa(attempt)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("session token " + name))
	return TokenPrefix + name + "." + hex.EncodeToString(mac.Sum(nil)[:16])
}

// ReadSessionToken tells whose token it says it is; who trusts it makes SessionToken of that and compares in constant time.
func ReadSessionToken(token string) (run string, attempt int, ok bool) {
	rest, ok := strings.CutPrefix(token, TokenPrefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 {
		return "", 0, false
	}
	attempt, err := strconv.Atoi(parts[1])
	return parts[0], attempt, err == nil && attempt > 0 && parts[0] != ""
}
