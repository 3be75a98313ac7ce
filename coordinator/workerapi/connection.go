package workerapi

import (
	"ao/nats/subject"
	"ao/shared/runnerapi"
)

// Connection tells a program that registered over HTTP how to take runs over NATS (shared/docs/protocol.md).
type Connection struct {
	URL       string            `json:"url"`
	Stream    string            `json:"stream"`
	Lanes     []QueueConsumer   `json:"lanes"`
	Beats     string            `json:"beats"` // heartbeat subject: a request every BeatEvery
	BeatEvery float64           `json:"beat_every_seconds"`
	Lease     float64           `json:"lease_seconds"`
	Commands  string            `json:"commands"` // command subject: requests to answer
	Fleet     map[string]string `json:"fleet"`    // operations and their request subjects
}

// QueueConsumer is a task queue and its durable pull consumer.
type QueueConsumer struct {
	Lane     string `json:"lane"`
	Consumer string `json:"consumer"`
}

// ConnectionOf returns the connection of a registered runner.
func ConnectionOf(url string, r runnerapi.Registered) Connection {
	c := Connection{
		URL: url, Stream: subject.Runs, Lanes: []QueueConsumer{}, Beats: subject.Heartbeats(r.RunnerID),
		BeatEvery: r.HeartbeatInterval.Seconds(), Lease: r.Lease.Seconds(),
		Commands: subject.Commands(r.RunnerID), Fleet: map[string]string{},
	}
	for _, lane := range r.TaskQueues {
		c.Lanes = append(c.Lanes, QueueConsumer{lane, subject.TaskQueueDurable(lane)})
	}
	for _, op := range []string{runnerapi.OpRegister, runnerapi.OpDeregister, runnerapi.OpGetPart, runnerapi.OpPutPart,
		runnerapi.OpDropState, subject.OpRecord} {
		c.Fleet[op] = subject.RunnerAPI(op)
	}
	return c
}
