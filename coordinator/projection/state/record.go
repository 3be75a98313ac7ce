package state

import "ao/nats/stream"

// Record is a message of a stream, independent of what carried it.
type Record = stream.Message
