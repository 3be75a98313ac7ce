package httpapi

import (
	"context"
	"time"
)

// shutdown ends long requests: live streams, and waits for runs.
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
