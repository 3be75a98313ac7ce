package claudecode

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// exitDelay is how long claude may take to exit after its result, or after a later line.
const exitDelay = 10 * time.Second

// exitWatch ends a claude that has reported its result and does not exit, unless a turn or a task is open. Claude waits
// for its background tasks, ten minutes at most, and may then continue with another turn.
type exitWatch struct {
	delay   time.Duration
	kill    func()
	waiting bool            // the last turn has its result
	tasks   map[string]bool // those that have not ended
	timer   *time.Timer
	expired atomic.Bool // claude was ended, and what it reports of that is no result
}

// onLine notes a line and restarts the delay.
func (w *exitWatch) onLine(kind string, raw []byte) {
	w.stop()
	var l struct {
		Task string `json:"task_id"`
	}
	switch kind {
	case "system/init":
		w.waiting = false
	case "system/task_started":
		if json.Unmarshal(raw, &l) == nil {
			if w.tasks == nil {
				w.tasks = map[string]bool{}
			}
			w.tasks[l.Task] = true
		}
	case "system/task_notification":
		if json.Unmarshal(raw, &l) == nil {
			delete(w.tasks, l.Task)
		}
	}
	if w.waiting && len(w.tasks) == 0 {
		w.timer = time.AfterFunc(w.delay, func() {
			w.expired.Store(true)
			w.kill()
		})
	}
}

func (w *exitWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
