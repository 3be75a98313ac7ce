package worker

import (
	"context"
)

// keeper is an executor that keeps processes of sessions between their turns (lifecycle persistent).
type keeper interface {
	Watch(changed func())      // Sessions' answer has changed; told from the beginning
	Sessions() []string        // those whose process waits for the next turn
	Forget(sessions []string)  // end the processes of these
	Drain()                    // end those that wait, and from now on each after its turn
	Close(ctx context.Context) // end all of them; at ctx's end the hard way
}

// kept are the processes that an executor keeps; the zero value keeps none.
type kept struct{ by keeper }

// keptBy has changed called when another session's process waits, or one does no longer.
func keptBy(e Executor, changed func()) (k kept) {
	if by, ok := e.(keeper); ok {
		k.by = by
		by.Watch(changed)
	}
	return k
}

// idle lists the sessions whose process waits for the next turn, for a beat.
func (k kept) idle() []string {
	if k.by == nil {
		return nil
	}
	return k.by.Sessions()
}

func (k kept) forget(sessions []string) {
	if k.by != nil {
		k.by.Forget(sessions)
	}
}

func (k kept) drain() {
	if k.by != nil {
		k.by.Drain()
	}
}

// close ends the processes that are left when the worker ends.
func (k kept) close() {
	if k.by == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	k.by.Close(ctx)
}
