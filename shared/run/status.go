package run

// Status is where a run stands.
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

// Statuses are all of them, in the order of a life.
var Statuses = []Status{Pending, Claimed, Running, Stopping, Completed, Failed, Stopped}

// Move is what can happen to a run.
type Move string

// The moves. Completed, failed and stopped are the ways an attempt's last word can go.
const (
	MoveClaimed   Move = "claimed"   // a worker began it
	MoveStarted   Move = "started"   // its executor runs
	MoveStopping  Move = "stopping"  // somebody wants it stopped
	MoveRetried   Move = "retried"   // the attempt is over, the next one is queued
	MoveCompleted Move = "completed" // the last word: it ended well
	MoveFailed    Move = "failed"    // the last word: it did not
	MoveStopped   Move = "stopped"   // the last word: it was stopped
)

// transitions is the life of a run. A pair that is missing changes nothing; a row that is missing is an end.
var transitions = map[Status]map[Move]Status{
	Pending:  {MoveClaimed: Claimed, MoveStopping: Stopping, MoveCompleted: Completed, MoveFailed: Failed, MoveStopped: Stopped},
	Claimed:  {MoveStarted: Running, MoveStopping: Stopping, MoveRetried: Pending, MoveCompleted: Completed, MoveFailed: Failed, MoveStopped: Stopped},
	Running:  {MoveStopping: Stopping, MoveRetried: Pending, MoveCompleted: Completed, MoveFailed: Failed, MoveStopped: Stopped},
	Stopping: {MoveCompleted: Completed, MoveFailed: Failed, MoveStopped: Stopped},
}

// After is the status a move leads to; the same status where the move changes nothing.
func (s Status) After(m Move) Status {
	if to, ok := transitions[s][m]; ok {
		return to
	}
	return s
}

// Final tells whether s is an end: it never changes, whoever reports later.
func (s Status) Final() bool { return len(transitions[s]) == 0 }
