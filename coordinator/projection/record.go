package projection

import "ao/nats/stream"

// Record is a message of a stream, as the fold and its readers know it: nothing of what carried it.
type Record = stream.Message
