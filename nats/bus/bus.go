// Package bus is typed messages over JetStream: records that are appended with compare-and-set and followed,
// runs that are taken from lanes, requests and their answers, definitions in buckets. It is the only code that
// knows nats.go, and the only code that acknowledges.
package bus

import (
	"errors"

	"ao/nats/stream"
	"ao/shared/fault"
)

// Entry is a message to be written.
type Entry struct {
	Subject string
	Body    []byte
}

// What streams hold, for those who know this package and not what carries it.
type (
	Message = stream.Message
	State   = stream.State
)

var (
	// ErrTaken says that somebody else was first: the subject has its one message, the key its entry, the
	// revision is no longer the newest.
	ErrTaken           = errors.New("taken")
	ErrNotFound        = stream.ErrNotFound
	ErrHistoryReplaced = stream.ErrHistoryReplaced
	// ErrNoResponders says that nobody answers requests on that subject now.
	ErrNoResponders = fault.New(fault.Unavailable, "", "Nobody answers at the moment; try again")
)
