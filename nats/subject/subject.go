// Package subject is every name that goes over NATS: subjects, streams, buckets and durable consumers, each
// as a function or a constant, so that a name is spelled in one place. Tokens are checked once, where they
// enter (Check), and trusted ever after.
package subject

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// The streams.
const (
	Runs     = "RUNS"     // the one truth: queue and history at once, every subject takes one message, ever
	Events   = "EVENTS"   // messages and tool calls of sessions, apart from the life cycle
	Inbox    = "INBOX"    // work queue: runs that NATS publishers leave while no coordinator is up
	Rejected = "REJECTED" // what could not be taken, with the reason
	Audit    = "AUDIT"    // who changed what, and who was refused
)

// The key-value buckets and the object store.
const (
	Agents      = "agents"
	Schemas     = "schemas"
	Runners     = "runners"
	TaskQueues  = "lanes"
	Idempotency = "idempotency"
	Secrets     = "secrets"
	Drafts      = "drafts"   // schemas of agents that are being written
	Logins      = "logins"   // the ids of logins that are over
	Payloads    = "payloads" // object store: bodies too large for a message
)

// What the streams hold.
const (
	AllRuns     = "ao.runs.>"
	AllEvents   = "ao.events.>"
	AllInbox    = "ao.inbox.>"
	AllRejected = "ao.rejected.>"
	AllAudit    = "ao.audit.>"
)

// InboxRuns is the publishers' durable door, RejectedRuns where refused messages go, InboxDurable the
// consumer that all coordinators share.
const (
	InboxRuns    = "ao.inbox.runs"
	RejectedRuns = "ao.rejected.runs"
	InboxDurable = "inbox"
)

// AuditEntries takes what coordinators did and refused.
const AuditEntries = "ao.audit.entries"

// The public micro service, and the queue group of coordinators that answer requests. Each coordinator answers the ping.
const (
	APIService    = "ao"
	APIPing       = "$SRV.PING." + APIService
	APIRunsCreate = "ao.api.runs.create"
	APIRunsGet    = "ao.api.runs.get"
	APIRunsStop   = "ao.api.runs.stop"
	APIAgentsList = "ao.api.agents.list"
	Coordinators  = "coordinators"
)

// AllBeats is every runner's heartbeat, AllFleet every request of workers to coordinators.
const (
	AllHeartbeats = "ao.beats.*"
	AllRunnerAPI  = "ao.fleet.>"
)

// partitions is fixed for ever: records of a session are found under its partition.
const partitions = 64

// longest is the longest token, in characters.
const longest = 128

// Check says whether a token may stand in a subject: 1 to 128 letters, digits, '-' or '_'.
func Check(token string) error {
	ok := len(token) > 0 && len(token) <= longest
	for i := 0; ok && i < len(token); i++ {
		c := token[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if !ok {
		return fmt.Errorf("name %.140q: use 1 to %d letters, digits, '-' or '_'", token, longest)
	}
	return nil
}

// Partition is the token under which everything of a session lies: the FNV-1a hash of its id modulo 64, as a
// decimal. Today all partitions lie in one stream; later several can share them.
func Partition(session string) string {
	h := fnv.New32a()
	h.Write([]byte(session))
	return strconv.FormatUint(uint64(h.Sum32()%partitions), 10)
}

// Queued takes a run that may be taken now. A lane is made by Lane.
func Queued(partition, lane, run string, attempt int) string {
	return "ao.runs." + partition + ".queued." + lane + "." + run + "." + strconv.Itoa(attempt)
}

// Session takes the begin of a session.
func Session(partition, session string) string {
	return "ao.runs." + partition + ".session." + session
}

// Accepted takes a run that waits: for its turn in the session, or for a runner.
func Accepted(partition, session, run string) string {
	return "ao.runs." + partition + ".accepted." + session + "." + run
}

// Claimed takes the claim of an attempt: it is begun, and by whom.
func Claimed(partition, run, key string) string {
	return "ao.runs." + partition + ".claimed." + run + "." + key
}

// Bound takes the model side's session id of an attempt.
func Bound(partition, run, key string) string {
	return "ao.runs." + partition + ".bound." + run + "." + key
}

// Offered takes the result of an attempt that is yet to be checked.
func Offered(partition, run, key string) string {
	return "ao.runs." + partition + ".offered." + run + "." + key
}

// Ended takes the last word of an attempt.
func Ended(partition, run, key string) string {
	return "ao.runs." + partition + ".ended." + run + "." + key
}

// Stopping takes the wish to stop a run.
func Stopping(partition, run string) string {
	return "ao.runs." + partition + ".stopping." + run
}

// Tree takes the wish to stop what is below a session, as of the run of it that was begun last.
func Tree(partition, session, run string) string {
	return "ao.runs." + partition + ".tree." + session + "." + run
}

// Callback takes the list of children that a callback turn of a parent session reports: it is named after the first of them,
// and how often that was reported before, in vain.
func Callback(partition, parent, child string, before int) string {
	s := "ao.runs." + partition + ".callback." + parent + "." + child
	if before > 0 {
		s += "-" + strconv.Itoa(before)
	}
	return s
}

// Notified takes the n-th try of a run's HTTP callback.
func Notified(partition, run string, n int) string {
	return "ao.runs." + partition + ".notified." + run + "." + strconv.Itoa(n)
}

// LastBackup is the key in the bucket Secrets under which stands when the last whole backup was begun.
const LastBackup = "last_backup"

// WebhookTryKey is the key in the bucket Idempotency under which a coordinator takes the n-th try of a run's HTTP callback.
func WebhookTryKey(run string, n int) string { return "try." + run + "." + strconv.Itoa(n) }

// Deleted takes the end of a session.
func Deleted(partition, session string) string {
	return "ao.runs." + partition + ".deleted." + session
}

// Event takes what a session's reader sees; kind may be "*".
func Event(partition, session, run, kind string) string {
	return "ao.events." + partition + "." + session + "." + run + "." + kind
}

// SessionEvents is every event of a session.
func SessionEvents(session string) string {
	return "ao.events." + Partition(session) + "." + session + ".>"
}

// RunEvents is every event of a run.
func RunEvents(session, run string) string { return Event(Partition(session), session, run, "*") }

// Heartbeats is a runner's heartbeat, a request.
func Heartbeats(runner string) string { return "ao.beats." + runner }

// Commands is what a runner is told, a request.
func Commands(runner string) string { return "ao.commands." + runner }

// RunnerAPI is an operation that workers ask of coordinators.
func RunnerAPI(op string) string { return "ao.fleet." + op }

// TaskQueue is the name of a queue. Profile "_" is any profile, match "_" no further demand.
func TaskQueue(executorType, profile, match string) string {
	return executorType + "." + profile + "." + match
}

// IsBaseTaskQueue tells whether a lane is named by type and profile alone.
func IsBaseTaskQueue(lane string) bool { return strings.HasSuffix(lane, "._") }

// TaskQueueFilter is every queued run of a lane.
func TaskQueueFilter(lane string) string { return "ao.runs.*.queued." + lane + ".*.*" }

// TaskQueueOf is the lane of a consumer of RUNS; not ok: it is of none.
func TaskQueueOf(durable string) (lane string, ok bool) {
	lane, ok = strings.CutPrefix(durable, "lane=")
	return strings.ReplaceAll(lane, "=", "."), ok
}

// TaskQueueDurable is the consumer of a lane. Its separator '=' cannot stand in a token, so two lanes never share
// a name.
func TaskQueueDurable(lane string) string {
	name := []byte("lane=" + lane)
	for i, c := range name {
		if c == '.' {
			name[i] = '='
		}
	}
	return string(name)
}
