package run

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// The last member of an event's message, "proof", is an HMAC with the attempt's key. Without the key nobody can
// write events of a run, whatever ids they know.
const (
	signaturePrefix = `,"proof":"`
	signatureSuffix = `"}`
	signatureBytes  = 16
)

// SignEvent adds the signature to an event's message for that subject. body is a JSON object with at least one member.
func SignEvent(key, subject string, body []byte) []byte {
	if !bytes.HasSuffix(body, []byte("}")) {
		return body
	}
	sum := signature(key, subject, body)
	body = append(body[:len(body)-1], signaturePrefix...)
	return append(append(body, sum...), signatureSuffix...)
}

// SplitSignature separates the signature from a message. signedBy reports whether it was made with a key; nil:
// there is none.
func SplitSignature(subject string, body []byte) (bare []byte, signedBy func(key string) bool) {
	at := len(body) - len(signatureSuffix) - hex.EncodedLen(signatureBytes) - len(signaturePrefix)
	if at <= 0 || !bytes.HasPrefix(body[at:], []byte(signaturePrefix)) ||
		!bytes.HasSuffix(body, []byte(signatureSuffix)) {
		return body, nil
	}
	sum := body[at+len(signaturePrefix) : len(body)-len(signatureSuffix)]
	bare = append(bytes.Clone(body[:at]), '}')
	return bare, func(key string) bool { return hmac.Equal(sum, signature(key, subject, bare)) }
}

func signature(key, subject string, body []byte) []byte {
	m := hmac.New(sha256.New, []byte(key))
	for _, part := range [][]byte{[]byte("event\n"), []byte(subject), []byte("\n"), body} {
		m.Write(part)
	}
	return hex.AppendEncode(nil, m.Sum(nil)[:signatureBytes])
}
