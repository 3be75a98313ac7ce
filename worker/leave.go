package worker

import (
	"context"
	"sync"
	"time"
)

// going marks the worker as one that leaves: it takes and registers no more.
func (w *Worker) going() {
	w.end.leaving.Store(true)
	w.joins.close()
}

// leave takes no more, hands back what has come and not begun, and returns when every attempt has its last word. From the
// moment that told ends the executors have the grace and are ended after it; until then they have all the time they
// need.
func (w *Worker) leave(told context.Context, why string) {
	w.going()
	w.sessions.drain()
	w.log.Info("takes no more", "why", why, "running", w.slots.busy())
	w.pulse.now()
	defer w.deregister(false)
	var bye sync.WaitGroup
	defer bye.Wait()
	notice := sync.OnceFunc(func() { // at once; the leases of what runs go on
		if w.slots.busy() > 0 {
			bye.Go(func() { w.deregister(true) })
		}
	})
	if told.Err() != nil {
		notice()
	}
	w.lanes.close()
	over := make(chan struct{})
	go func() {
		w.slots.runs.Wait()
		close(over)
	}()
	say := time.NewTicker(5 * time.Second)
	defer say.Stop()
	end, now := told.Done(), w.end.now
	var patience <-chan time.Time
	for {
		select {
		case <-over:
			return
		case <-say.C:
			w.log.Info("waiting for runs to end", "runs", w.attempts.running())
		case <-end:
			end, patience = nil, time.After(w.Grace)
			notice()
			if w.slots.busy() > 0 {
				w.log.Info("waiting for runs to end", "runs", w.attempts.running(), "grace", w.Grace)
			}
		case <-patience:
			patience = nil
			w.log.Warn("the grace is over; ending what still runs", "runs", w.attempts.running())
			w.abandon(errShutdown)
		case <-now:
			now, patience = nil, nil
			w.log.Warn("told to end at once; ending what still runs", "runs", w.attempts.running())
			w.abandon(errShutdown)
		}
	}
}

// abandon ends every executor for this reason, and after a while waits for nothing any more.
func (w *Worker) abandon(why error) {
	w.attempts.abandon(why, why != errSuperseded)
	t := time.AfterFunc(lastWords, w.end.killAll)
	if why == errSuperseded {
		w.lanes.close()
		w.slots.runs.Wait()
		t.Stop()
		return
	}
	context.AfterFunc(w.end.dead, func() { t.Stop() })
}
