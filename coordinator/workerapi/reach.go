package workerapi

import (
	"ao/nats/subject"
	"ao/shared/runnerapi"
)

// Reach is what a program that registered over HTTP must know to take runs over NATS (shared/docs/protocol.md).
type Reach struct {
	URL       string            `json:"url"`
	Stream    string            `json:"stream"`
	Lanes     []LaneReach       `json:"lanes"`
	Beats     string            `json:"beats"` // a request every BeatEvery
	BeatEvery float64           `json:"beat_every_seconds"`
	Lease     float64           `json:"lease_seconds"`
	Commands  string            `json:"commands"` // to be answered
	Fleet     map[string]string `json:"fleet"`    // operations, each a request
}

// LaneReach is a queue and its durable pull consumer.
type LaneReach struct {
	Lane     string `json:"lane"`
	Consumer string `json:"consumer"`
}

// ReachOf tells a registered runner where everything is.
func ReachOf(url string, r runnerapi.Registered) Reach {
	reach := Reach{
		URL: url, Stream: subject.Runs, Lanes: []LaneReach{}, Beats: subject.Heartbeats(r.RunnerID),
		BeatEvery: r.BeatEvery.Seconds(), Lease: r.Lease.Seconds(),
		Commands: subject.Commands(r.RunnerID), Fleet: map[string]string{},
	}
	for _, lane := range r.Lanes {
		reach.Lanes = append(reach.Lanes, LaneReach{lane, subject.TaskQueueDurable(lane)})
	}
	for _, op := range []string{runnerapi.OpRegister, runnerapi.OpDeregister, runnerapi.OpGetPart, runnerapi.OpPutPart,
		runnerapi.OpDropState, subject.OpRecord} {
		reach.Fleet[op] = subject.RunnerAPI(op)
	}
	return reach
}
