package httpapi

import (
	"context"
	"time"
)

// shutdown are the ends of requests that last: of live streams, and of those that wait for a run.
type shutdown struct {
	streaming, waiting      context.Context
	endStreams, endTheWaits context.CancelFunc
}

func newEnds() *shutdown {
	e := &shutdown{}
	e.streaming, e.endStreams = context.WithCancel(context.Background())
	e.waiting, e.endTheWaits = context.WithCancel(context.Background())
	return e
}

// drain ends the streams at once, and the waits after a grace.
func (e *shutdown) drain(grace time.Duration) {
	e.endStreams()
	time.AfterFunc(grace, e.endTheWaits)
}
