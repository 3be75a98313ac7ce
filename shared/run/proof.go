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
	proofBegin = `,"proof":"`
	proofEnd   = `"}`
	proofBytes = 16
)

// Prove adds the proof to an event's message, a JSON object with a member or more, for that subject.
func Prove(key, subject string, body []byte) []byte {
	if !bytes.HasSuffix(body, []byte("}")) {
		return body
	}
	sum := proof(key, subject, body)
	body = append(body[:len(body)-1], proofBegin...)
	return append(append(body, sum...), proofEnd...)
}

// Proven takes the proof out of a message, and gives what tells whether it is by a key; nil: it has none.
func Proven(subject string, body []byte) (bare []byte, by func(key string) bool) {
	at := len(body) - len(proofEnd) - hex.EncodedLen(proofBytes) - len(proofBegin)
	if at <= 0 || !bytes.HasPrefix(body[at:], []byte(proofBegin)) || !bytes.HasSuffix(body, []byte(proofEnd)) {
		return body, nil
	}
	sum := body[at+len(proofBegin) : len(body)-len(proofEnd)]
	bare = append(bytes.Clone(body[:at]), '}')
	return bare, func(key string) bool { return hmac.Equal(sum, proof(key, subject, bare)) }
}

func proof(key, subject string, body []byte) []byte {
	m := hmac.New(sha256.New, []byte(key))
	for _, part := range [][]byte{[]byte("event\n"), []byte(subject), []byte("\n"), body} {
		m.Write(part)
	}
	return hex.AppendEncode(nil, m.Sum(nil)[:proofBytes])
}
