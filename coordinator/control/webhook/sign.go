package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"ao/shared/fault"
)

// The headers of Standard Webhooks.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// keys reads the secrets: 24 to 64 random bytes each, as Standard Webhooks asks.
func keys(secrets string) ([][]byte, error) {
	var all [][]byte
	for _, s := range strings.FieldsFunc(secrets, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r'
	}) {
		text, ok := strings.CutPrefix(s, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			key, err = base64.RawStdEncoding.DecodeString(text)
		}
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fault.New(fault.Invalid, "",
				"AO_CALLBACK_SECRET: a secret is whsec_ and 24 to 64 bytes in base64; create one with: echo "+
					"whsec_$(openssl rand -base64 32)")
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Invalid, "",
			"AO_CALLBACK_SECRET is empty, but callbacks must be signed; create one with: echo whsec_$(openssl "+
				"rand -base64 32)")
	}
	return all, nil
}

// signature returns the value of headerSignature: one signature by each key, so that the receiver may know any of them.
func signature(keys [][]byte, id string, at time.Time, body []byte) string {
	var all []string
	for _, key := range keys {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		h.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	return strings.Join(all, " ")
}
