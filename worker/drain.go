package worker

import (
	"context"
	"sync"
	"time"
)

// stopTaking makes the worker take and register no more.
func (w *Worker) stopTaking() {
	w.shutdown.stopping.Store(true)
	w.registrations.close()
}

// drain takes no more runs, returns unclaimed deliveries, and waits until every attempt has its end record. Executors
// get the grace period from the moment request ends and are ended after it. Until then they may run as long as they
// need.
func (w *Worker) drain(request context.Context, why string) {
	w.stopTaking()
	w.sessions.Drain()
	w.log.Info("taking no more runs", "why", why, "running", w.slots.busy())
	w.heartbeats.sendNow()
	defer w.deregister(false)
	var bye sync.WaitGroup
	defer bye.Wait()
	notice := sync.OnceFunc(func() { // immediately; running attempts keep their leases
		if w.slots.busy() > 0 {
			bye.Go(func() { w.deregister(true) })
		}
	})
	if request.Err() != nil {
		notice()
	}
	w.queues.close()
	over := make(chan struct{})
	go func() {
		w.slots.wg.Wait()
		close(over)
	}()
	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	end, now := request.Done(), w.shutdown.immediate
	var grace <-chan time.Time
	for {
		select {
		case <-over:
			return
		case <-progress.C:
			w.log.Info("waiting for runs to end", "runs", w.attempts.runIDs())
		case <-end:
			end, grace = nil, time.After(w.Grace)
			notice()
			if w.slots.busy() > 0 {
				w.log.Info("waiting for runs to end", "runs", w.attempts.runIDs(), "grace", w.Grace)
			}
		case <-grace:
			grace = nil
			w.log.Warn("grace period over, ending the running executors", "runs", w.attempts.runIDs())
			w.endAll(errShutdown)
		case <-now:
			now, grace = nil, nil
			w.log.Warn("immediate stop requested, ending the running executors", "runs", w.attempts.runIDs())
			w.endAll(errShutdown)
		}
	}
}

// endAll ends every executor for this reason, and stops waiting after shutdownTimeout.
func (w *Worker) endAll(why error) {
	w.attempts.endAll(why, why != errSuperseded)
	t := time.AfterFunc(shutdownTimeout, w.shutdown.stopHard)
	if why == errSuperseded {
		w.queues.close()
		w.slots.wg.Wait()
		t.Stop()
		return
	}
	context.AfterFunc(w.shutdown.hardStop, func() { t.Stop() })
}
