// Package stream has the types of a stream's content, for readers that need not know NATS.
package stream

import (
	"errors"
	"hash/crc32"
	"time"
)

// Message is a stored message.
type Message struct {
	Seq     uint64 // in its stream, from 1
	Subject string
	Body    []byte
	Time    time.Time // when the stream took it
}

// State is the state of a stream; if it is empty, First is Last+1.
type State struct {
	First, Last uint64
	LastTime    time.Time // of the last record, also of a removed one
	Msgs        uint64
	Bytes       uint64
	MaxBytes    int64 // -1: no limit
	MaxMsgs     int64 // likewise
	Created     time.Time
}

var (
	// ErrNotFound means that there is nothing under that subject, sequence, key or name.
	ErrNotFound = errors.New("none")
	// ErrHistoryReplaced means that a stream is not the one that was read: it lost records and reused their
	// sequences, or truncated unread ones.
	ErrHistoryReplaced = errors.New("rewound")
)

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
