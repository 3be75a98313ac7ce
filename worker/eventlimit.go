package worker

import (
	"fmt"
	"time"

	"ao/shared/run"
	"ao/shared/share"
)

// eventCost is what an event counts beside its body, in bytes: NATS stores about as much more.
const eventCost = 512

// metadataParts is which part of a run's share its metadata has beside it, such as its usage, which comes at the end.
const metadataParts = 16

// eventLimit leaves out events of a run that writes too many: they would displace those of other sessions.
type eventLimit struct {
	share *share.Rate // of all runs of the worker; nil: no limit
	run   string
	most  int64            // bytes of a run in a minute
	now   func() time.Time // as of share

	until time.Time // events are left out until then
	n     int       // left out, and not said yet
	bytes int64
}

// admit reports whether an event may be written. If one is left out, so are those that follow in its minute.
func (l *eventLimit) admit(kind string, bytes int) bool {
	if l.share == nil {
		return true
	}
	cost := int64(bytes) + eventCost
	if kind == run.EventMetadata {
		if ok, _ := l.share.Take(l.run+" metadata", cost*metadataParts); ok {
			return true
		}
	} else if !l.now().Before(l.until) {
		ok, wait := l.share.Take(l.run, cost)
		if ok {
			return true
		}
		l.until = l.now().Add(wait)
	}
	l.n++
	l.bytes += int64(bytes)
	return false
}

// takeNote returns what a session's readers are told about what was left out; not ok: nothing was, since the last note.
func (l *eventLimit) takeNote() (text string, ok bool) {
	if l.n == 0 {
		return "", false
	}
	text = fmt.Sprintf("%d events of %d bytes are left out here: a run may write %d bytes of events in a minute "+
		"(AO_EVENT_BYTES)", l.n, l.bytes, l.most)
	l.n, l.bytes = 0, 0
	return text, true
}

// maxEventOwners is how many runs a worker remembers the share of: more than it runs at once.
const maxEventOwners = 10_000

// newEventLimit returns the limit of a run's events. Its attempts share it.
func newEventLimit(share *share.Rate, run string, most int64) eventLimit {
	return eventLimit{share: share, run: run, most: most, now: time.Now}
}
