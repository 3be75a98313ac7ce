package bus

import "time"

// fewest is the smallest batch: below it a batch costs more than its members one by one, on every server.
const fewest = 8

// How long a way is tried before it is judged, and after how long the other one is tried again: twice as long after each trial
// in vain, up to the last.
const (
	trial  = 150 * time.Millisecond
	again  = 10 * time.Second
	seldom = 5 * time.Minute
)

// byFar is how many trials in vain a way counts for that lost with less than half of what the other one answered: 80 s pass until
// its next trial, in which a crowd waits for it.
const byFar = 3

// clearly is what is left of a trial's rate when it is compared with the usual way's: it has to win by a tenth. Of two ways that are
// worth the same, noise would take either.
const clearly = 0.9

// pace tells whether a crowd's appends should go as batches. It tries both ways and keeps the one in which more are answered,
// instead of asking anybody to configure it: with a sync to disk per write that is batches, without one it is not. What a
// message or a batch takes tells less: both wait for what other processes write to the same server. A trial stands between two
// times of the usual way and has to win against both, so that a process that warms up, or a machine that is lent to others, is no
// reason for the way that was tried meanwhile.
type pace struct {
	batches bool      // the way that is taken
	usual   float64   // answers a second of the usual way; 0: not known
	other   float64   // likewise of the other one, in its last trial
	tested  time.Time // when that was
	stage   stage
	vain    int       // trials in a row that the other way has lost
	since   time.Time // the begin of what is counted; zero: nothing is
	last    time.Time // the last answer
	answers int       // since then
	crowded int       // of these, while many were under way
	settled bool      // it is known and not tried
}

// stage is where a pace is between two trials.
type stage int

const (
	asUsual  stage = iota
	trying         // the other way is taken
	checking       // the usual way is taken again, to compare
)

// worth says whether n messages should go as a batch.
func (p *pace) worth(n int) bool { return p.batches && n >= fewest }

// quiet says that nothing else is under way at this moment: a trial with a long pause in it tells nothing.
func (p *pace) quiet(now time.Time) {
	if now.Sub(p.last) > trial/2 {
		p.since = time.Time{}
	}
}

// answered counts n answers, while load appends were under way or waited.
func (p *pace) answered(n, load int, now time.Time) {
	switch {
	case p.settled:
		return
	case p.since.IsZero():
		p.since, p.last, p.answers, p.crowded = now, now, 0, 0
		return
	}
	p.last = now
	p.answers += n
	if load >= fewest {
		p.crowded += n
	}
	took := now.Sub(p.since)
	if took < trial {
		return
	}
	rate, crowd := float64(p.answers)/took.Seconds(), 2*p.crowded > p.answers
	p.since, p.answers, p.crowded = now, 0, 0
	if crowd { // else there is nothing to learn
		p.judge(rate, now)
	}
}

// judge takes what the way that is taken has answered a second, and chooses the one to take from now on.
func (p *pace) judge(rate float64, now time.Time) {
	switch p.stage {
	case trying:
		p.other, p.tested = rate, now
		p.batches, p.stage = !p.batches, checking
	case checking:
		p.stage = asUsual
		p.compare(max(p.usual, rate))
	default:
		if p.usual > 0 {
			rate = (p.usual + rate) / 2
		}
		p.usual = rate
		dear := clearly*p.other > p.usual // than it was when the other way was tried
		if p.other == 0 || dear || now.Sub(p.tested) > min(again<<min(p.vain, 10), seldom) {
			p.batches, p.stage = !p.batches, trying
		}
	}
}

// compare takes the better way. usual is what the usual one was worth before or after the trial, whichever was more.
func (p *pace) compare(usual float64) {
	p.usual = usual
	p.vain++
	if clearly*p.other > usual {
		p.batches, p.vain = !p.batches, 0
		p.usual, p.other = p.other, p.usual
	}
	if p.usual > 2*p.other {
		p.vain = max(p.vain, byFar)
	}
}
