// Package bus is typed messages over JetStream: records that are appended with compare-and-set and followed,
// runs that are taken from lanes, requests and their answers, definitions in buckets. It is the only code that
// knows nats.go, and the only code that acknowledges.
package bus

import (
	"errors"
	"time"

	"ao/shared/fault"
)

// Entry is a message to be written.
type Entry struct {
	Subject string
	Body    []byte
}

// Message is a message as a stream keeps it.
type Message struct {
	Seq     uint64
	Subject string
	Body    []byte
	Time    time.Time
}

var (
	// ErrTaken says that somebody else was first: the subject has its one message, the key its entry, the
	// revision is no longer the newest.
	ErrTaken = errors.New("taken")
	// ErrNone says that there is nothing under that subject, sequence, key or name.
	ErrNone = errors.New("none")
	// ErrRewound says that a stream is not the one that was read: it lost records and gave their sequences to others, or
	// truncated some that had not been read.
	ErrRewound = errors.New("rewound")
	// ErrNobody says that nobody answers requests on that subject now.
	ErrNobody = fault.New(fault.Unavailable, "", "Nobody answers at the moment; try again")
)
