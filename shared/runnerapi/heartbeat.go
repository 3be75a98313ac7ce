package runnerapi

import (
	"bytes"
	"encoding/json"

	"ao/shared/fault"
)

// The bounds of one heartbeat. A worker that has more attempts sends several; of its idle sessions it names so many. The largest one
// of a worker stays below a message of NATS.
const (
	maxHeartbeatBytes    = 1 << 20
	MaxHeartbeatAttempts = 1000
	MaxHeartbeatIdle     = 10_000
)

// maxHeartbeatElements bounds the members and elements of a heartbeat: each may take 30 times its bytes once it is read.
// Workers of older versions list as many idle sessions as fit into a message.
const maxHeartbeatElements = 32 << 10

// ReadHeartbeat reads a heartbeat, if it is within its bounds. What is not is a TooLarge fault, and costs next to nothing.
func ReadHeartbeat(body []byte) (b Heartbeat, err error) {
	if len(body) > maxHeartbeatBytes || bytes.Count(body, []byte{','}) > maxHeartbeatElements {
		return b, errHeartbeatTooLarge
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return b, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
	}
	if len(b.Attempts) > MaxHeartbeatAttempts {
		return b, errHeartbeatTooLarge
	}
	return b, nil
}

var errHeartbeatTooLarge = fault.Newf(fault.TooLarge, "a heartbeat may have %d bytes, %d attempts and %d idle sessions: "+
	"name the attempts in several heartbeats, and list fewer idle sessions", maxHeartbeatBytes, MaxHeartbeatAttempts, MaxHeartbeatIdle)
