package coordinator

import "ao/nats/bus"

// What is said where NATS did not answer.
var (
	unavailable = bus.NotStored
	unsure      = bus.NotSure
)
