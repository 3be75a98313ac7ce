package stream

import "hash/crc32"

// Fingerprint identifies a message of a stream.
type Fingerprint struct {
	Seq  uint64 `json:"sequence"`
	Time int64  `json:"time"` // when the stream took it, in nanoseconds
	Sum  uint32 `json:"sum"`  // CRC-32C of subject and body
}

// FingerprintOf returns a message's fingerprint, and scratch, which saves an allocation for the next one.
func FingerprintOf(m Message, scratch []byte) (Fingerprint, []byte) {
	scratch = append(scratch[:0], m.Subject...)
	sum := crc32.Update(crc32.Checksum(scratch, castagnoli), castagnoli, m.Body)
	return Fingerprint{m.Seq, m.Time.UnixNano(), sum}, scratch
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
