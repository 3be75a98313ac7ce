package sessions

import (
	"context"
	"encoding/json"
	"sync"

	"ao/coordinator/projection/query"
	"ao/nats/subject"
	"ao/shared/run"
)

// Limits of reading earlier attempts: of a page, of the latest of one run, and at once.
const (
	attemptsOfPage = 1000
	attemptsOfRun  = 20
	attemptReaders = 8
)

// attempts reads earlier attempts from their records, since the history keeps no times of them.
type attempts struct {
	stream Stream
	keys   Keys
}

// add adds earlier attempts to the runs of a page. Those that cannot be read are left out.
func (a attempts) add(ctx context.Context, p *query.TreePage) error {
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

// read reads an attempt. claimed: a runner claimed it, and its claim is still kept.
func (a attempts) read(ctx context.Context, session, id string, attempt int) (one query.TreeAttempt,
	claimed bool) {
	part, key := subject.Partition(session), a.keys.Of(id, attempt)
	one.Attempt = attempt
	m, err := a.stream.Last(ctx, subject.Claimed(part, id, key))
	var c run.Claim
	if err != nil || json.Unmarshal(m.Body, &c) != nil || c.RunnerID == "" {
		return one, false
	}
	claimedAt := run.UTC(c.At)
	if claimedAt.IsZero() { // as in the projection
		claimedAt = m.Time.UTC()
	}
	one.RunnerID, one.ClaimedAt = c.RunnerID, &claimedAt
	m, err = a.stream.Last(ctx, subject.Ended(part, id, key))
	if err == nil {
		one.EndedAt = new(m.Time.UTC())
		if e, err := run.DecodeEnded(m.Body); err == nil { // an unreadable end record means a failed attempt
			one.StartedAt, one.Error = e.StartedAt, e.Error
		}
	}
	return one, true
}
