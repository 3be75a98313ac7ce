package worker

import (
	"context"
	"slices"
	"time"
)

// lastWords is how long executors that were ended and their last words are waited for: the time between TERM and
// KILL, and some for NATS.
const lastWords = 15 * time.Second

// going marks the worker as one that leaves: it takes and registers no more.
func (w *Worker) going() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving.Store(true)
}

// leave takes no more, hands back what has come and not begun, and returns when every attempt has its last word. After the
// grace (negative: endless) the executors are ended.
func (w *Worker) leave(why string, grace time.Duration) {
	w.beatNow()
	w.lanes.close()
	over := make(chan struct{})
	go func() {
		w.runs.Wait()
		close(over)
	}()
	w.log.Info("takes no more", "why", why, "running", w.used.Load())
	say := time.NewTicker(5 * time.Second)
	defer say.Stop()
	var patience <-chan time.Time
	if grace >= 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		patience = t.C
		if w.used.Load() > 0 && grace > 0 {
			w.log.Info("waiting for runs to end", "runs", w.running(), "grace", grace)
		}
	}
	now := w.now
	for {
		select {
		case <-over:
			return
		case <-say.C:
			w.log.Info("waiting for runs to end", "runs", w.running())
		case <-patience:
			if w.used.Load() > 0 {
				w.log.Warn("the grace is over; ending what still runs", "runs", w.running())
			}
			patience = nil
			w.abandon(errShutdown)
		case <-now:
			w.log.Warn("told to end at once; ending what still runs", "runs", w.running())
			now, patience = nil, nil
			w.abandon(errShutdown)
		}
	}
}

// abandon ends every executor for this reason, and after a while waits for nothing any more.
func (w *Worker) abandon(why error) {
	w.mu.Lock()
	for _, a := range w.attempts {
		if why == errSuperseded {
			a.unwant()
		}
		a.cancel(why)
	}
	w.mu.Unlock()
	t := time.AfterFunc(lastWords, w.killAll)
	if why == errSuperseded {
		w.lanes.close()
		w.runs.Wait()
		t.Stop()
		return
	}
	context.AfterFunc(w.dead, func() { t.Stop() })
}

// running lists some of the runs that are waited for.
func (w *Worker) running() []string {
	var ids []string
	for _, a := range w.alive() {
		ids = append(ids, a.RunID)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 10)]
}
