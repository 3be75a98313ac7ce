package stream

import (
	"context"
	"errors"
	"time"
)

// SuspectTimeout is how long a cluster must report a loss of records until that is believed. A former leader that comes
// back needs so long to notice what the others wrote since.
const SuspectTimeout = 30 * time.Second

var errSuspectedLoss = errors.New("records that were read seem to be lost; checking again")

// Continuation checks whether a stream continues what was read of it. It is for one goroutine.
type Continuation struct {
	Source interface {
		Getter
		State(ctx context.Context) (State, error)
	}
	Read    func() []Fingerprint // of the last records that were read, oldest first
	Suspect func(is bool)        // called when a loss is suspected, and when that was wrong
	Timeout func() time.Duration // how long a loss must be reported until it is believed

	suspected time.Time
}

// Check returns nil if the stream continues what was read: nothing is lost or replaced, and nothing unread was
// truncated. ErrHistoryReplaced: it does not. Another error: unknown, check again.
func (c *Continuation) Check(ctx context.Context) error {
	switch holds, err := c.holds(ctx); {
	case err != nil:
		return err
	case holds:
		if !c.suspected.IsZero() {
			c.suspected = time.Time{}
			c.Suspect(false)
		}
		return nil
	case c.suspected.IsZero(): // a leader that was just elected may not know its last records
		c.suspected = time.Now()
		c.Suspect(true)
		return errSuspectedLoss
	case time.Since(c.suspected) < c.Timeout():
		return errSuspectedLoss
	}
	return ErrHistoryReplaced
}

func (c *Continuation) holds(ctx context.Context) (bool, error) {
	read := c.Read()
	if len(read) == 0 {
		return true, nil
	}
	s, err := c.Source.State(ctx)
	if err != nil {
		return false, err
	}
	if last := read[len(read)-1].Seq; s.Last < last || s.First > last+1 {
		return false, nil
	}
	_, changed, err := Compare(ctx, c.Source, read)
	return changed == 0, err
}

// After returns the sequence of the last record that was read, 0: none.
func (c *Continuation) After() uint64 {
	if read := c.Read(); len(read) > 0 {
		return read[len(read)-1].Seq
	}
	return 0
}
