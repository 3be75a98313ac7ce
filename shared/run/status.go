package run

// Status is the status of a run.
type Status string

// The statuses of a run.
const (
	Pending   Status = "pending"
	Claimed   Status = "claimed"
	Running   Status = "running"
	Stopping  Status = "stopping"
	Completed Status = "completed"
	Failed    Status = "failed"
	Stopped   Status = "stopped"
)

// Statuses are all statuses, in the order of a run's life.
var Statuses = []Status{Pending, Claimed, Running, Stopping, Completed, Failed, Stopped}

// Move is something that happens to a run.
type Move string

// The moves. The last three are the outcomes of an attempt's end record.
const (
	MoveClaimed   Move = "claimed"   // a worker claimed it
	MoveStarted   Move = "started"   // its executor runs
	MoveStopping  Move = "stopping"  // a stop was requested
	MoveRetried   Move = "retried"   // the attempt ended, the next one is queued
	MoveCompleted Move = "completed" // end record: success
	MoveFailed    Move = "failed"    // end record: failure
	MoveStopped   Move = "stopped"   // end record: stopped
)

// transitions is the life of a run. A missing pair changes nothing; a missing row is final.
var transitions = map[Status]map[Move]Status{
	Pending: {MoveClaimed: Claimed, MoveStopping: Stopping, MoveCompleted: Completed, MoveFailed: Failed,
		MoveStopped: Stopped},
	Claimed: {MoveStarted: Running, MoveStopping: Stopping, MoveRetried: Pending, MoveCompleted: Completed,
		MoveFailed: Failed, MoveStopped: Stopped},
	Running: {MoveStopping: Stopping, MoveRetried: Pending, MoveCompleted: Completed, MoveFailed: Failed,
		MoveStopped: Stopped},
	Stopping: {MoveCompleted: Completed, MoveFailed: Failed, MoveStopped: Stopped},
}

// After returns the status that a move leads to; the same status if the move changes nothing.
func (s Status) After(m Move) Status {
	if to, ok := transitions[s][m]; ok {
		return to
	}
	return s
}

// Final reports whether the status never changes.
func (s Status) Final() bool { return len(transitions[s]) == 0 }
