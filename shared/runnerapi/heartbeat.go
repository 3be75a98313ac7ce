package runnerapi

import (
	"bytes"
	"encoding/json"

	"ao/shared/fault"
)

// The limits of one heartbeat. A worker with more attempts sends several heartbeats. The largest one is smaller
// than a NATS message.
const (
	maxHeartbeatBytes    = 1 << 20
	MaxHeartbeatAttempts = 1000
	MaxHeartbeatIdle     = 10_000
)

// maxHeartbeatElements limits the members and elements of a heartbeat: decoded, each may take 30 times its
// bytes. Older workers list as many idle sessions as fit into a message.
const maxHeartbeatElements = 32 << 10

// ReadHeartbeat reads a heartbeat. One beyond the limits is a TooLarge fault, at almost no cost.
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
	if b.Unable != nil {
		b.Unable.cut()
	}
	return b, nil
}

var errHeartbeatTooLarge = fault.Newf(fault.TooLarge,
	"a heartbeat may have at most %d bytes, %d attempts and %d idle sessions: name the attempts in several "+
		"heartbeats, and list fewer idle sessions", maxHeartbeatBytes,
	MaxHeartbeatAttempts, MaxHeartbeatIdle)
