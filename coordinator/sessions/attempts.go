package sessions

import (
	"context"
	"encoding/json"
	"sync"

	"ao/coordinator/projection"
	"ao/nats/subject"
	"ao/shared/run"
)

// Of a page of a tree at most so many earlier attempts are read, of one run the latest, and a few at once.
const (
	attemptsOfPage = 1000
	attemptsOfRun  = 20
	attemptReaders = 8
)

// attempts reads what became of attempts that others followed. The history keeps no times of them; their records do.
type attempts struct {
	stream Stream
	keys   Keys
}

// add puts the earlier attempts of its runs onto a page of a tree. What cannot be read now is left out.
func (a attempts) add(ctx context.Context, p *projection.TreePage) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, attemptReaders)
	left := attemptsOfPage
	for _, s := range p.Sessions {
		for i := range s.Runs {
			r := &s.Runs[i]
			n := min(r.Followed, attemptsOfRun, left)
			if n == 0 {
				continue
			}
			left -= n
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				for at := r.Followed - n + 1; at <= r.Followed && ctx.Err() == nil; at++ {
					if one, begun := a.read(ctx, s.ID, r.ID, at); begun {
						r.Earlier = append(r.Earlier, one)
					}
				}
			})
		}
	}
	wg.Wait()
	return ctx.Err()
}

// read reads an attempt; begun: a runner began it, as far as its records are kept.
func (a attempts) read(ctx context.Context, session, id string, attempt int) (one projection.TreeAttempt, begun bool) {
	part, key := subject.Partition(session), a.keys.Of(id, attempt)
	one.Attempt = attempt
	m, err := a.stream.Last(ctx, subject.Claimed(part, id, key))
	var c run.Claim
	if err != nil || json.Unmarshal(m.Body, &c) != nil || c.RunnerID == "" {
		return one, false
	}
	claimed := c.At.UTC()
	one.RunnerID, one.ClaimedAt = c.RunnerID, &claimed
	m, err = a.stream.Last(ctx, subject.Ended(part, id, key))
	if err == nil {
		ended := m.Time.UTC()
		one.EndedAt = &ended
		if e, err := run.DecodeEnded(m.Body); err == nil { // one that cannot be read is a failure
			one.StartedAt, one.Error = e.StartedAt, e.Error
		}
	}
	return one, true
}
