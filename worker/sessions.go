package worker

import (
	"context"
)

// sessionKeeper is an executor that keeps the processes of sessions between turns (lifecycle persistent).
type sessionKeeper interface {
	Watch(changed func())      // changed is called whenever Sessions changes
	Sessions() []string        // the sessions whose process waits for the next turn
	Forget(sessions []string)  // ends the processes of these sessions
	Drain()                    // ends idle processes, and from now on each after its turn
	Close(ctx context.Context) // ends all processes; kills them when ctx ends
}

// keptSessions are the processes that an executor keeps; the zero value has none.
type keptSessions struct{ keeper sessionKeeper }

// newKeptSessions calls changed whenever the set of idle sessions changes.
func newKeptSessions(e Executor, changed func()) (k keptSessions) {
	if by, ok := e.(sessionKeeper); ok {
		k.keeper = by
		by.Watch(changed)
	}
	return k
}

// idle lists the sessions whose process waits for the next turn, for a heartbeat.
func (k keptSessions) idle() []string {
	if k.keeper == nil {
		return nil
	}
	return k.keeper.Sessions()
}

func (k keptSessions) forget(sessions []string) {
	if k.keeper != nil {
		k.keeper.Forget(sessions)
	}
}

func (k keptSessions) drain() {
	if k.keeper != nil {
		k.keeper.Drain()
	}
}

// close ends the remaining processes when the worker shuts down.
func (k keptSessions) close() {
	if k.keeper == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	k.keeper.Close(ctx)
}
