package bus_test

import (
	"context"
	"errors"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// followRuns is FollowRuns for a reader that begins at the start.
func followRuns(ctx context.Context, b *bus.Bus, suspect func(bool), f func(bus.Message) error) error {
	var tail stream.Tail
	return b.FollowRuns(ctx, tail.Last, suspect, func(m bus.Message) error {
		tail.Add(m)
		return f(m)
	})
}

// A follower of RUNS learns that records seem to be lost before it is believed, and that it was not so.
func TestASuspectedLossIsReported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lost bool
	}{{"lost", true}, {"not lost", false}} {
		t.Run(tt.name, func(t *testing.T) {
			server := natstest.Server(t)
			js, err := jetstream.New(natstest.Conn(t, server))
			if err != nil {
				t.Fatal(err)
			}
			b := natstest.Open(t, server)
			if err := b.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			write := func(from, to int) {
				for n := from; n <= to; n++ {
					if _, err := b.Append(t.Context(), bus.Entry{Subject: ended(n)}); err != nil {
						t.Error(err)
					}
				}
			}
			write(1, 3)
			var doubts []bool
			enough := errors.New("enough")
			err = followRuns(t.Context(), b, func(is bool) {
				doubts = append(doubts, is)
				if !is || tt.lost {
					return
				}
				write(1, 4) // it comes to light that there is more; what was read has gone since
				if err := b.Truncate(t.Context(), 4); err != nil {
					t.Error(err)
				}
			}, func(m bus.Message) error {
				switch m.Seq {
				case 3:
					if err := errors.Join(js.DeleteStream(t.Context(), subject.Runs),
						b.Setup(t.Context())); err != nil {
						return err
					}
				case 4:
					return enough
				}
				return nil
			})
			if tt.lost && (!errors.Is(err, bus.ErrHistoryReplaced) || len(doubts) != 1 || !doubts[0]) {
				t.Errorf("got %v after the doubts %v", err, doubts)
			}
			if !tt.lost && (err != enough || len(doubts) != 2 || !doubts[0] || doubts[1]) {
				t.Errorf("got %v after the doubts %v", err, doubts)
			}
		})
	}
}

// After a reconnect, nothing that follows from records that were read may be written before NATS is seen to still have
// them.
func TestReadRecordsAreConfirmedAfterEachReconnect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lost bool
	}{{"NATS has it still", false}, {"NATS has lost it", true}} {
		t.Run(tt.name, func(t *testing.T) {
			server := natstest.Server(t)
			conn := natstest.Conn(t, server)
			b, err := bus.Open(conn, bus.Config{})
			if err != nil {
				t.Fatal(err)
			}
			js, err := jetstream.New(natstest.Conn(t, server))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := 0
			write := func() error {
				n++
				_, err := b.Append(t.Context(), bus.Entry{Subject: ended(n)})
				return err
			}
			if err := errors.Join(write(), write()); err != nil {
				t.Fatal(err)
			}
			if b.Confirmed() {
				t.Error("nobody has looked, and it is confirmed")
			}
			enough := errors.New("enough")
			err = followRuns(t.Context(), b, func(bool) {}, func(m bus.Message) error {
				switch {
				case m.Seq < 2:
					return nil
				case m.Seq > 2 && b.Confirmed():
					return enough
				case m.Seq > 2: // the reader of before still got it; another will come when it was looked
					return write()
				}
				if !b.Confirmed() {
					t.Error("it was looked at, and is not confirmed")
				}
				if tt.lost {
					if err := errors.Join(js.DeleteStream(t.Context(), subject.Runs),
						b.Setup(t.Context())); err != nil {
						return err
					}
				}
				was := b.Reconnects()
				if err := conn.ForceReconnect(); err != nil {
					return err
				}
				natstest.Until(t, "it is connected again", func() bool { return b.Reconnects() != was })
				if b.Confirmed() {
					t.Error("it is connected again, nobody has looked, and it is confirmed")
				}
				return write()
			})
			if tt.lost && (!errors.Is(err, bus.ErrHistoryReplaced) || b.Confirmed()) || !tt.lost && err != enough {
				t.Errorf("got %v, confirmed %t", err, b.Confirmed())
			}
		})
	}
}

// A history that was replaced is noticed also where the sequence of the last record that was read is empty.
func TestAPurgedRecordHidesNoReplacedHistory(t *testing.T) {
	t.Parallel()
	server := natstest.Server(t)
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func(from int) (err error) {
		for n := from; n < from+3 && err == nil; n++ {
			_, err = b.Append(t.Context(), bus.Entry{Subject: ended(n)})
		}
		return err
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	err = followRuns(t.Context(), b, func(bool) {}, func(m bus.Message) error {
		switch {
		case m.Seq > 3:
			return errors.New("it goes on in another history")
		case m.Seq < 3:
			return nil
		}
		err := errors.Join(js.DeleteStream(t.Context(), subject.Runs), b.Setup(t.Context()), write(11))
		return errors.Join(err, b.Purge(t.Context(), subject.Runs, ended(13), 0), write(14))
	})
	if !errors.Is(err, bus.ErrHistoryReplaced) {
		t.Errorf("got %v", err)
	}
}
