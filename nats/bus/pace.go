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

// clearly is what is left of the rate of the way that is not the usual one when the two are compared: it has to win by a tenth.
// Of two ways that are worth the same, noise would take either.
const clearly = 0.9

// way is what one way of appending was last worth.
type way struct {
	rate float64   // answers a second; 0: never tried
	at   time.Time // when that was
}

// pace tells whether a crowd's appends should go as batches. It tries both ways and keeps the one in which more are answered,
// instead of asking anybody to configure it: with a sync to disk per write that is batches, without one it is not. What a
// message or a batch takes tells less: both wait for what other processes write to the same server.
type pace struct {
	batches bool      // the way that is taken
	ways    [2]way    // one by one, and as batches
	vain    int       // trials in a row that the other way has lost
	trying  bool      // this is such a trial
	since   time.Time // the trial's begin; zero: none is under way
	last    time.Time // the last answer
	answers int       // in it
	crowded int       // of these, while many were under way
	settled bool      // it is known and not tried
}

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
	this, other := &p.ways[0], &p.ways[1]
	if p.batches {
		this, other = other, this
	}
	if this.rate > 0 && !p.trying { // a trial is judged by itself
		rate = (this.rate + rate) / 2
	}
	this.rate, this.at = rate, now
	switch {
	case p.trying && other.rate > clearly*this.rate, !p.trying && clearly*other.rate > this.rate:
		p.batches = !p.batches
		if p.vain++; !p.trying { // the way that was the better one has become dear
			p.vain = 0
		} else if other.rate > 2*this.rate {
			p.vain = max(p.vain, byFar)
		}
		p.trying = false
	case p.trying:
		p.trying, p.vain = false, 0
		if this.rate > 2*other.rate {
			p.vain = byFar
		}
	case other.rate == 0 || now.Sub(other.at) > min(again<<min(p.vain, 10), seldom):
		p.batches, p.trying = !p.batches, true
	}
}
