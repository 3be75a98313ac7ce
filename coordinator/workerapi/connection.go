package workerapi

import (
	"ao/nats/subject"
	"ao/shared/runnerapi"
)

// Connection describes to a program that registered over HTTP how to take runs over NATS (shared/docs/protocol.md).
type Connection struct {
	URL              string            `json:"url"`
	Stream           string            `json:"stream"`
	Queues           []QueueConsumer   `json:"lanes"`
	Heartbeats       string            `json:"beats"` // subject of a request every HeartbeatSeconds
	HeartbeatSeconds float64           `json:"beat_every_seconds"`
	Lease            float64           `json:"lease_seconds"`
	Commands         string            `json:"commands"` // command subject: requests to answer
	Operations       map[string]string `json:"fleet"`    // operations and their request subjects
}

// QueueConsumer is a task queue and its durable pull consumer.
type QueueConsumer struct {
	Queue    string `json:"lane"`
	Consumer string `json:"consumer"`
}

// ConnectionOf returns the connection of a registered runner.
func ConnectionOf(url string, r runnerapi.Registered) Connection {
	c := Connection{
		URL: url, Stream: subject.Runs, Queues: []QueueConsumer{}, Heartbeats: subject.Heartbeats(r.RunnerID),
		HeartbeatSeconds: r.HeartbeatInterval.Seconds(), Lease: r.Lease.Seconds(),
		Commands: subject.Commands(r.RunnerID), Operations: map[string]string{},
	}
	for _, queue := range r.TaskQueues {
		c.Queues = append(c.Queues, QueueConsumer{queue, subject.TaskQueueDurable(queue)})
	}
	for _, op := range []string{runnerapi.OpRegister, runnerapi.OpDeregister, runnerapi.OpGetPart, runnerapi.OpPutPart,
		runnerapi.OpDropState, subject.OpRecord} {
		c.Operations[op] = subject.RunnerAPI(op)
	}
	return c
}
