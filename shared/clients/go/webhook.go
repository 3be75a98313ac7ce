package ao

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// SignatureError says why a webhook is not accepted.
type SignatureError struct{ Message string }

func (e *SignatureError) Error() string { return "webhook: " + e.Message }

// Webhook is the end of a run, as sent to its callback_url.
type Webhook struct {
	ID   string `json:"-"`    // the same for all deliveries of one end
	Type string `json:"type"` // run.completed, run.failed or run.stopped
	Run  Run    `json:"data"`
}

// VerifyWebhook checks the signature of a request to a callback_url and returns what it says. The secrets are those of
// AO_CALLBACK_SECRET; one that fits is enough. A receiver may see a delivery twice: it compares the ID.
func VerifyWebhook(body []byte, header http.Header, secrets ...string) (w Webhook, err error) {
	id, at := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)).Abs(); err != nil || id == "" || age > 5*time.Minute {
		return w, &SignatureError{"its id or time is missing, or more than five minutes off"}
	}
	for _, secret := range secrets {
		key, err := base64.RawStdEncoding.DecodeString(strings.Trim(strings.TrimPrefix(secret, "whsec_"), "="))
		if err != nil || len(key) == 0 {
			return w, &SignatureError{"a secret is not whsec_ and base64"}
		}
		h := hmac.New(sha256.New, key)
		h.Write([]byte(id + "." + at + "." + string(body)))
		want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
		for _, got := range strings.Fields(header.Get("webhook-signature")) {
			if hmac.Equal([]byte(got), []byte(want)) {
				w.ID, err = id, json.Unmarshal(body, &w)
				return w, err
			}
		}
	}
	return w, &SignatureError{"no signature is by one of the secrets"}
}
