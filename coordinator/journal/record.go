package journal

import "time"

// Record is a message of a stream, as the fold and its readers know it: nothing of what carried it.
type Record struct {
	Seq     uint64 // in its stream, from 1
	Subject string
	Body    []byte
	Time    time.Time // when the stream took it
}
