// Package bus is typed messages over JetStream: appending records with compare-and-set and following them, pulling runs
// from task queues, requests and replies, key-value buckets. No other package uses nats.go or acknowledges messages.
package bus

import (
	"ao/nats/stream"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// Entry is a message to append.
type Entry struct {
	Subject string
	Body    []byte
	// ID is of what the message may be only one of, whatever its subject; empty: none. For two minutes NATS takes no
	// second message with it.
	ID string
}

// header returns the headers of a message that is written alone.
func (e Entry) header() nats.Header {
	if e.ID == "" {
		return nil
	}
	return nats.Header{nats.MsgIdHdr: {e.ID}}
}

// Aliases for packages that know bus and not stream.
type (
	Message = stream.Message
	State   = stream.State
)

var (
	ErrTaken           = stream.ErrTaken
	ErrStorageFailing  = stream.ErrStorageFailing
	ErrNotFound        = stream.ErrNotFound
	ErrHistoryReplaced = stream.ErrHistoryReplaced
	// ErrNoResponders means that no process answers requests on the subject now.
	ErrNoResponders = fault.New(fault.Unavailable, "", "No process answers this request now; try again")
)
