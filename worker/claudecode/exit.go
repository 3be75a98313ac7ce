package claudecode

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// exitDelay is how long claude may take to exit after its result.
const exitDelay = 10 * time.Second

// taskWaitEnv sets how long claude waits for its background tasks, in milliseconds. 0 is without end.
const taskWaitEnv = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"

// taskWait returns how long a claude with this environment waits for its background tasks. 0 is without end.
func taskWait(env []string) time.Duration {
	wait := 10 * time.Minute
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, taskWaitEnv+"="); ok {
			if ms, err := strconv.ParseUint(value, 10, 64); err == nil {
				wait = time.Duration(min(ms, 1<<32)) * time.Millisecond
			}
		}
	}
	return wait
}

// maxTasks and maxTaskID bound what is kept of a program's tasks: their number, and the bytes of an id. What is beyond
// does not count as open.
const maxTasks, maxTaskID = 1000, 200

// exitWatch ends a claude that has reported its result and does not exit, unless another turn is open. Claude waits for
// its background tasks, and may then continue with another turn.
type exitWatch struct {
	delay    time.Duration
	taskWait time.Duration // added to delay while a task is open; 0: without end
	kill     func()
	waiting  bool            // the last turn has its result
	tasks    map[string]bool // those that have not ended
	timer    *time.Timer
	expired  atomic.Bool // claude was ended, and what it reports of that is no result
}

// activity begins the kinds of lines that show work of a turn or a task. Hooks and others may write on without it.
var activity = []string{"system/init", "system/task_", "assistant/", "user/", "result/"}

// onLine notes a line. One that shows work restarts the delay.
func (w *exitWatch) onLine(kind string, raw []byte) {
	if !slices.ContainsFunc(activity, func(begin string) bool { return strings.HasPrefix(kind, begin) }) {
		return
	}
	w.stop()
	var l struct {
		Task string `json:"task_id"`
	}
	switch kind {
	case "system/init":
		w.waiting = false
	case "system/task_started":
		if json.Unmarshal(raw, &l) == nil && len(l.Task) <= maxTaskID && len(w.tasks) < maxTasks {
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
	delay := w.delay
	if len(w.tasks) > 0 {
		delay += w.taskWait
	}
	if w.waiting && (len(w.tasks) == 0 || w.taskWait > 0) {
		w.timer = time.AfterFunc(delay, func() {
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
