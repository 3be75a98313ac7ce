// Package bus is typed messages over JetStream: appending records with compare-and-set and following them, pulling runs
// from task queues, requests and replies, key-value buckets. No other package uses nats.go or acknowledges messages.
package bus

import (
	"ao/nats/stream"
	"ao/shared/fault"
)

// Entry is a message to append.
type Entry struct {
	Subject string
	Body    []byte
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
