package procedural

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ao/shared/run"
	"ao/worker/process"
)

// How many lines of stderr become session events: so many at once, and so many a second after that. What is over
// is counted, and the count is told.
const (
	EventsAtOnce    = 100
	EventsPerSecond = 20
)

// progress makes session events of what a command writes to stderr.
type progress struct {
	tell    func(kind string, body json.RawMessage)
	now     func() time.Time
	last    time.Time
	tokens  float64
	started bool
	skipped int
}

func (p *progress) line(b []byte) {
	if len(strings.TrimSpace(string(b))) == 0 {
		return
	}
	now := p.now()
	if !p.started {
		p.started, p.tokens = true, EventsAtOnce
	} else {
		p.tokens = min(EventsAtOnce, p.tokens+now.Sub(p.last).Seconds()*EventsPerSecond)
	}
	p.last = now
	if p.tokens < 1 {
		p.skipped++
		return
	}
	p.tokens--
	p.end()
	p.say(process.Plain(b))
}

// end tells how many lines were left out.
func (p *progress) end() {
	if p.skipped > 0 {
		p.say(fmt.Sprintf("[… %d lines left out …]", p.skipped))
		p.skipped = 0
	}
}

func (p *progress) say(text string) { p.tell(run.EventMessage, run.TextMessage("system", text)) }
