package httpapi

import (
	"context"
	"time"
)

// ends are the ends of requests that last: of live streams, and of those that wait for a run.
type ends struct {
	streaming, waiting      context.Context
	endStreams, endTheWaits context.CancelFunc
}

func newEnds() *ends {
	e := &ends{}
	e.streaming, e.endStreams = context.WithCancel(context.Background())
	e.waiting, e.endTheWaits = context.WithCancel(context.Background())
	return e
}

// drain ends the streams at once, and the waits after a grace.
func (e *ends) drain(grace time.Duration) {
	e.endStreams()
	time.AfterFunc(grace, e.endTheWaits)
}
