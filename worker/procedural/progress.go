package procedural

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ao/shared/run"
	"ao/worker/process"
)

// Rate limit of stderr lines as session events: a burst, and a rate per second. Lines above it are counted, and the
// count is an event.
const (
	maxEventBurst = 100
	maxEventRate  = 20
)

// progress turns a command's stderr lines into session events.
type progress struct {
	emit    func(kind string, body json.RawMessage)
	now     func() time.Time
	last    time.Time
	tokens  float64
	started bool
	skipped int
}

func (p *progress) onLine(b []byte) {
	if len(strings.TrimSpace(string(b))) == 0 {
		return
	}
	now := p.now()
	if !p.started {
		p.started, p.tokens = true, maxEventBurst
	} else {
		p.tokens = min(maxEventBurst, p.tokens+now.Sub(p.last).Seconds()*maxEventRate)
	}
	p.last = now
	if p.tokens < 1 {
		p.skipped++
		return
	}
	p.tokens--
	p.flushSkipped()
	p.message(process.Plain(b))
}

// flushSkipped emits how many lines were dropped.
func (p *progress) flushSkipped() {
	if p.skipped > 0 {
		p.message(fmt.Sprintf("[… %d lines dropped …]", p.skipped))
		p.skipped = 0
	}
}

func (p *progress) message(text string) { p.emit(run.EventMessage, run.TextMessage("system", text)) }
