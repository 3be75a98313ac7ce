package runnerapi

import (
	"bytes"
	"encoding/json"

	"ao/shared/fault"
)

// The bounds of one heartbeat. A worker that has more attempts sends several; of its idle sessions it names so many. The largest one
// of a worker stays below a message of NATS.
const (
	maxBeatBytes    = 1 << 20
	MaxBeatAttempts = 1000
	MaxBeatIdle     = 10_000
)

// beatElements bounds the members and elements of a heartbeat: each may take 30 times its bytes once it is read.
// Workers of older versions list as many idle sessions as fit into a message.
const beatElements = 32 << 10

// ReadBeat reads a heartbeat, if it is within its bounds. What is not is a TooLarge fault, and costs next to nothing.
func ReadBeat(body []byte) (b Beat, err error) {
	if len(body) > maxBeatBytes || bytes.Count(body, []byte{','}) > beatElements {
		return b, errBeat
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return b, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
	}
	if len(b.Attempts) > MaxBeatAttempts {
		return b, errBeat
	}
	return b, nil
}

var errBeat = fault.Newf(fault.TooLarge, "a heartbeat may have %d bytes, %d attempts and %d idle sessions: "+
	"name the attempts in several heartbeats, and list fewer idle sessions", maxBeatBytes, MaxBeatAttempts, MaxBeatIdle)
