package run

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// A proof is the last member of an event's message: who wrote it holds the attempt's key. Whoever does not, however many ids of
// sessions and runs it knows, cannot write events of theirs.
const (
	signaturePrefix = `,"proof":"`
	signatureSuffix = `"}`
	signatureBytes  = 16
)

// SignEvent adds the proof to an event's message, a JSON object with a member or more, for that subject.
func SignEvent(key, subject string, body []byte) []byte {
	if !bytes.HasSuffix(body, []byte("}")) {
		return body
	}
	sum := signature(key, subject, body)
	body = append(body[:len(body)-1], signaturePrefix...)
	return append(append(body, sum...), signatureSuffix...)
}

// SplitSignature takes the proof out of a message, and gives what tells whether it is by a key; nil: it has none.
func SplitSignature(subject string, body []byte) (bare []byte, by func(key string) bool) {
	at := len(body) - len(signatureSuffix) - hex.EncodedLen(signatureBytes) - len(signaturePrefix)
	if at <= 0 || !bytes.HasPrefix(body[at:], []byte(signaturePrefix)) || !bytes.HasSuffix(body, []byte(signatureSuffix)) {
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
