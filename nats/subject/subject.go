// Package subject has every name used over NATS: subjects, streams, buckets and durable consumers, each as a
// function or a constant. Tokens are checked once, where they enter (Check).
package subject

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// The streams.
const (
	Runs     = "RUNS"     // the one truth: queue and history; every subject takes one message, ever
	Events   = "EVENTS"   // messages and tool calls of sessions, without the life cycle
	Inbox    = "INBOX"    // work queue: run requests that NATS publishers leave, even while no coordinator is up
	Rejected = "REJECTED" // messages that could not be accepted, with the reason
	Audit    = "AUDIT"    // who changed what, and who was refused
)

// The key-value buckets and the object store.
const (
	Agents       = "agents"
	Schemas      = "schemas"
	Runners      = "runners"
	TaskQueues   = "lanes"
	Reservations = "idempotency" // tries of webhooks and batches of retries; older versions kept keys there
	Secrets      = "secrets"
	Drafts       = "drafts"    // schemas of agents that are being written
	Logins       = "logins"    // ids of ended logins
	HighWater    = "highwater" // how far RUNS has come, outside of RUNS
	Payloads     = "payloads"  // object store: bodies too large for a message
)

// MarkKey is the key of the bucket HighWater for the mark of RUNS.
const MarkKey = "runs"

// Restoring is a stream without messages. It exists from the start of a restore to its end: while it does, the other
// streams are not complete, and coordinators wait.
const Restoring = "RESTORING"

// RestoringSubject is the stream's subject, which nobody uses.
const RestoringSubject = "ao.restoring"

// RestoredKey is the key of the bucket HighWater under which a restore stores the Incarnation of the RUNS that it made.
const RestoredKey = "restored"

// Incarnation names a stream by its time of creation: one that was deleted and made again has another.
func Incarnation(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// What the streams hold.
const (
	AllRuns     = "ao.runs.>"
	AllEvents   = "ao.events.>"
	AllInbox    = "ao.inbox.>"
	AllRejected = "ao.rejected.>"
	AllAudit    = "ao.audit.>"
)

// IsInbox reports whether publishers leave messages on a subject.
func IsInbox(subj string) bool { return strings.HasPrefix(subj, strings.TrimSuffix(AllInbox, ">")) }

// InboxRuns takes run requests of publishers, RejectedRuns rejected messages. InboxDurable is the consumer that
// all coordinators share.
const (
	InboxRuns    = "ao.inbox.runs"
	RejectedRuns = "ao.rejected.runs"
	InboxDurable = "inbox"
)

// AuditEntries takes the entries of the audit log.
const AuditEntries = "ao.audit.entries"

// The public micro service, and the queue group of coordinators that answer requests. Each coordinator answers APIPing.
const (
	APIService    = "ao"
	APIPing       = "$SRV.PING." + APIService
	APIRunsCreate = "ao.api.runs.create"
	APIRunsGet    = "ao.api.runs.get"
	APIRunsStop   = "ao.api.runs.stop"
	APIAgentsList = "ao.api.agents.list"
	Coordinators  = "coordinators"
)

// AllHeartbeats is the heartbeats of all runners, AllRunnerAPI all requests of workers to coordinators.
const (
	AllHeartbeats = "ao.beats.*"
	AllRunnerAPI  = "ao.fleet.>"
)

// partitions must never change: a session's records are found by its partition.
const partitions = 64

// maxTokenLength is the longest token, in characters.
const maxTokenLength = 128

// Check checks a token: 1 to 128 letters, digits, '-' or '_'.
func Check(token string) error {
	ok := len(token) > 0 && len(token) <= maxTokenLength
	for i := 0; ok && i < len(token); i++ {
		c := token[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if !ok {
		return fmt.Errorf("name %.140q: use 1 to %d letters, digits, '-' or '_'", token, maxTokenLength)
	}
	return nil
}

// Partition returns the partition of a session: the FNV-1a hash of its id modulo 64, as a decimal. All partitions
// are in one stream now; several streams can share them later.
func Partition(session string) string {
	h := fnv.New32a()
	h.Write([]byte(session))
	return strconv.FormatUint(uint64(h.Sum32()%partitions), 10)
}

// Queued takes a run that may be claimed now.
func Queued(partition, queue, run string, attempt int) string {
	return "ao.runs." + partition + ".queued." + queue + "." + run + "." + strconv.Itoa(attempt)
}

// Session takes the creation of a session.
func Session(partition, session string) string {
	return "ao.runs." + partition + ".session." + session
}

// Accepted takes a run that waits for its turn in the session, or for a runner.
func Accepted(partition, session, run string) string {
	return "ao.runs." + partition + ".accepted." + session + "." + run
}

// Claimed takes the claim of an attempt, by a runner or a coordinator.
func Claimed(partition, run, key string) string {
	return "ao.runs." + partition + ".claimed." + run + "." + key
}

// Bound takes the executor session id of an attempt.
func Bound(partition, run, key string) string {
	return "ao.runs." + partition + ".bound." + run + "." + key
}

// Offered takes the unverified result of an attempt.
func Offered(partition, run, key string) string {
	return "ao.runs." + partition + ".offered." + run + "." + key
}

// Ended takes the end record of an attempt.
func Ended(partition, run, key string) string {
	return "ao.runs." + partition + ".ended." + run + "." + key
}

// Stopping takes the request to stop a run.
func Stopping(partition, run string) string {
	return "ao.runs." + partition + ".stopping." + run
}

// Tree takes the request to stop the descendants of a session. run is the session's last run that was claimed.
func Tree(partition, session, run string) string {
	return "ao.runs." + partition + ".tree." + session + "." + run
}

// Callback takes the list of children that a callback turn of a parent session reports. It is named after the
// first child, and the number of failed callbacks for it before.
func Callback(partition, parent, child string, before int) string {
	s := "ao.runs." + partition + ".callback." + parent + "." + child
	if before > 0 {
		s += "-" + strconv.Itoa(before)
	}
	return s
}

// Notified takes the n-th try of a run's webhook.
func Notified(partition, run string, n int) string {
	return "ao.runs." + partition + ".notified." + run + "." + strconv.Itoa(n)
}

// LastBackup is the key in the bucket Secrets with the time of the last complete backup.
const LastBackup = "last_backup"

// WebhookTryKey returns the key in the bucket Reservations with which a coordinator reserves the n-th try of a run's
// webhook.
func WebhookTryKey(run string, n int) string { return "try." + run + "." + strconv.Itoa(n) }

// Deleted takes the deletion of a session.
func Deleted(partition, session string) string {
	return "ao.runs." + partition + ".deleted." + session
}

// Event takes an event for a session's readers; kind may be "*".
func Event(partition, session, run, kind string) string {
	return "ao.events." + partition + "." + session + "." + run + "." + kind
}

// SessionEvents is every event of a session.
func SessionEvents(session string) string {
	return "ao.events." + Partition(session) + "." + session + ".>"
}

// RunEvents is every event of a run.
func RunEvents(session, run string) string { return Event(Partition(session), session, run, "*") }

// Heartbeats takes a runner's heartbeat, a request.
func Heartbeats(runner string) string { return "ao.beats." + runner }

// Commands takes the commands to a runner, requests.
func Commands(runner string) string { return "ao.commands." + runner }

// RunnerAPI returns an operation that workers request from coordinators.
func RunnerAPI(op string) string { return "ao.fleet." + op }

// TaskQueue returns the name of a task queue. Profile "_" is any profile, match "_" no further demand.
func TaskQueue(executorType, profile, match string) string {
	return executorType + "." + profile + "." + match
}

// IsBaseTaskQueue reports whether a task queue is named by type and profile alone.
func IsBaseTaskQueue(queue string) bool { return strings.HasSuffix(queue, "._") }

// TaskQueueFilter is every queued run of a task queue.
func TaskQueueFilter(queue string) string { return "ao.runs.*.queued." + queue + ".*.*" }

// TaskQueueOf returns the task queue of a consumer of RUNS; not ok: the consumer is of another kind.
func TaskQueueOf(durable string) (queue string, ok bool) {
	queue, ok = strings.CutPrefix(durable, "lane=")
	return strings.ReplaceAll(queue, "=", "."), ok
}

// TaskQueueDurable returns the consumer of a task queue. Its separator '=' cannot be in a token, so names never
// collide.
func TaskQueueDurable(queue string) string { return "lane=" + strings.ReplaceAll(queue, ".", "=") }

// QueuedOf is every queued record of a run, in any task queue and of any attempt.
func QueuedOf(partition, run string) string {
	return "ao.runs." + partition + ".queued.*.*.*." + run + ".*"
}

// RecordsOf is what workers wrote about a run, and the steps of its webhook.
func RecordsOf(run string) string { return "ao.runs.*.*." + run + ".>" }

// NotifiedOf is every step of a run's webhook.
func NotifiedOf(partition, run string) string {
	return "ao.runs." + partition + ".notified." + run + ".*"
}
