package stream

import (
	"context"
	"errors"
	"slices"
	"time"
)

// comparedRecords is the least number of records that a Tail remembers. The last one that was not purged is compared.
const comparedRecords = 16

var errSuspectedLoss = errors.New("records that were read seem to be lost; checking again")

// Tail remembers the last records that were read, and checks whether their stream still holds them. It is for one
// goroutine.
type Tail struct {
	Source interface {
		State(ctx context.Context) (State, error)
		Get(ctx context.Context, seq uint64) (Message, error)
	}
	Suspect func(is bool) // called when a loss is suspected, and when that was wrong
	// how long a loss must be reported until it is believed: a former leader that comes back needs time to notice
	// what the others wrote since
	Timeout func() time.Duration

	recent    []Message // without bodies
	suspected time.Time
}

// Read notes a record that was read.
func (t *Tail) Read(m Message) {
	if len(t.recent) == 2*comparedRecords {
		t.recent = append(t.recent[:0], t.recent[comparedRecords:]...)
	}
	t.recent = append(t.recent, Message{Seq: m.Seq, Subject: m.Subject, Time: m.Time})
}

// Check returns nil if the stream continues what was read: nothing is lost or replaced, and nothing unread was
// truncated. ErrHistoryReplaced: it does not. Another error: unknown, check again.
func (t *Tail) Check(ctx context.Context) error {
	switch holds, err := t.holds(ctx); {
	case err != nil:
		return err
	case holds:
		if !t.suspected.IsZero() {
			t.suspected = time.Time{}
			t.Suspect(false)
		}
		return nil
	case t.suspected.IsZero(): // a leader that was just elected may not know its last records
		t.suspected = time.Now()
		t.Suspect(true)
		return errSuspectedLoss
	case time.Since(t.suspected) < t.Timeout():
		return errSuspectedLoss
	}
	return ErrHistoryReplaced
}

func (t *Tail) holds(ctx context.Context) (bool, error) {
	if len(t.recent) == 0 {
		return true, nil
	}
	s, err := t.Source.State(ctx)
	if err != nil {
		return false, err
	}
	if last := t.recent[len(t.recent)-1].Seq; s.Last < last || s.First > last+1 {
		return false, nil
	}
	for _, r := range slices.Backward(t.recent) {
		m, err := t.Source.Get(ctx, r.Seq)
		if errors.Is(err, ErrNotFound) { // purged: compare the one before
			continue
		}
		return err == nil && m.Subject == r.Subject && m.Time.Equal(r.Time), err
	}
	return true, nil
}
