package bus

import "time"

// minBatch is the smallest batch. A smaller one costs more than its members one by one, on every server.
const minBatch = 8

// The length of a trial, and the time until the next one. The time doubles with each lost trial, up to
// maxTrialInterval.
const (
	trialTime        = 150 * time.Millisecond
	trialInterval    = 10 * time.Second
	maxTrialInterval = 5 * time.Minute
)

// clearLosses is how many losses a mode counts that got less than half of the other's rate. Its next trial comes after
// 80 s, since a trial delays many appends.
const clearLosses = 3

// winMargin lowers a trial's rate before it is compared: the other mode must be better by a tenth, more than noise.
const winMargin = 0.9

// batchTuner decides whether concurrent appends go as batches. It tries both modes and keeps the one with more
// replies a second: batches if each write is synced to disk, single messages if not. The latency of one message
// says less, since it includes the wait for other processes. A trial must win against the periods before and
// after it, so that a process that warms up, or a slow machine, does not decide.
type batchTuner struct {
	batches     bool      // the current mode
	usual       float64   // replies a second in the usual mode; 0: unknown
	other       float64   // the same for the other mode, in its last trial
	tested      time.Time // when that was
	stage       stage
	losses      int       // trials in a row that the other mode lost
	since       time.Time // when counting started; zero: it has not
	last        time.Time // the last reply
	answers     int       // replies since then
	busyAnswers int       // of these, while many appends were in flight
	settled     bool      // the mode is fixed
}

// stage is the tuner's phase.
type stage int

const (
	usual    stage = iota
	trying         // the other mode is tried
	checking       // the usual mode is measured again, to compare
)

// useBatch reports whether n messages should go as a batch.
func (p *batchTuner) useBatch(n int) bool { return p.batches && n >= minBatch }

// idle reports that nothing else is in flight now. A trial with a long pause in it says nothing.
func (p *batchTuner) idle(now time.Time) {
	if now.Sub(p.last) > trialTime/2 {
		p.since = time.Time{}
	}
}

// answered counts n replies, while load appends were in flight or waiting.
func (p *batchTuner) answered(n, load int, now time.Time) {
	switch {
	case p.settled:
		return
	case p.since.IsZero():
		p.since, p.last, p.answers, p.busyAnswers = now, now, 0, 0
		return
	}
	p.last = now
	p.answers += n
	if load >= minBatch {
		p.busyAnswers += n
	}
	elapsed := now.Sub(p.since)
	if elapsed < trialTime {
		return
	}
	rate, crowd := float64(p.answers)/elapsed.Seconds(), 2*p.busyAnswers > p.answers
	p.since, p.answers, p.busyAnswers = now, 0, 0
	if crowd { // without load there is nothing to learn
		p.judge(rate, now)
	}
}

// judge takes the current mode's rate and chooses the mode from now on.
func (p *batchTuner) judge(rate float64, now time.Time) {
	switch p.stage {
	case trying:
		p.other, p.tested = rate, now
		p.batches, p.stage = !p.batches, checking
	case checking:
		p.stage = usual
		p.compare(max(p.usual, rate))
	default:
		if p.usual > 0 {
			rate = (p.usual + rate) / 2
		}
		p.usual = rate
		slower := winMargin*p.other > p.usual // than when the other mode was tried
		if p.other == 0 || slower || now.Sub(p.tested) > min(trialInterval<<min(p.losses, 10), maxTrialInterval) {
			p.batches, p.stage = !p.batches, trying
		}
	}
}

// compare chooses the better mode. usual is the usual mode's rate before or after the trial, whichever was higher.
func (p *batchTuner) compare(usual float64) {
	p.usual = usual
	p.losses++
	if winMargin*p.other > usual {
		p.batches, p.losses = !p.batches, 0
		p.usual, p.other = p.other, p.usual
	}
	if p.usual > 2*p.other {
		p.losses = max(p.losses, clearLosses)
	}
}
