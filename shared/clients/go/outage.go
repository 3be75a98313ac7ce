package ao

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	maxPauses      = 20               // the longest pause between tries, in first pauses
	noticeInterval = 30 * time.Second // shortest time between two notices of an outage
)

// Outage is a time without answers, in which a request or a stream is retried.
type Outage struct {
	Err  error         // of the last try
	Age  time.Duration // 0: it begins
	Left time.Duration // how long it is retried; 0: it is given up
}

// outage spaces the retries of a request or a stream.
type outage struct {
	c       *Client
	since   time.Time // zero: none
	noticed time.Time
	pause   time.Duration
	least   time.Duration // pause that the server's stream asks for
}

// end ends the outage.
func (o *outage) end() { o.since = time.Time{} }

// wait is sleep, unless another try is useless. Then it returns err.
func (o *outage) wait(ctx context.Context, err error) error {
	var lost *UnreachableError
	wrong := o.c.conf.FailFast && !o.c.reached.Load() && errors.As(err, &lost) && lost.Reason == NotConnected
	if !Temporary(err) || wrong {
		return err
	}
	return o.sleep(ctx, err)
}

// sleep waits before the next try, at least as long as the server asks. It returns an error if the time is over.
func (o *outage) sleep(ctx context.Context, err error) error {
	now := time.Now()
	begins := o.since.IsZero()
	if begins {
		o.since, o.pause = now, o.c.firstPause
	}
	pause := max(o.least, o.pause/2+rand.N(o.pause/2)) // callers of one outage come back apart
	var refused *APIError
	if errors.As(err, &refused) {
		pause = max(pause, refused.RetryAfter)
	}
	age := now.Sub(o.since)
	left := o.c.conf.RetryFor - age
	switch {
	case pause > left && begins:
		return err
	case pause > left:
		o.notice(Outage{Err: err, Age: age})
		return err
	case begins || now.Sub(o.noticed) >= noticeInterval:
		o.noticed = now
		o.notice(Outage{Err: err, Age: age, Left: left})
	}
	o.pause = min(2*o.pause, maxPauses*o.c.firstPause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

func (o *outage) notice(now Outage) {
	if o.c.conf.Notice != nil {
		o.c.conf.Notice(now)
	}
}
