package bus_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
)

// follow starts a follower that checks that sequences grow by one, and gives how many it has seen.
func follow(t *testing.T, b *bus.Bus) (seen *atomic.Uint64) {
	seen = new(atomic.Uint64)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := b.Follow(ctx, subject.Runs, 0, nil, func(m bus.Message) error {
			if want := seen.Add(1); m.Seq != want {
				t.Errorf("got sequence %d, want %d", m.Seq, want)
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("follow ended: %v", err)
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	return seen
}

func TestFollowSurvivesKilledServers(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	seen := follow(t, p.Bus(t))
	var written atomic.Uint64 // answered appends
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				e := bus.Entry{Subject: subject.Ended("7", "run_"+strconv.Itoa(w)+"_"+strconv.Itoa(n), "k"),
					Body: []byte("x")}
				for ctx.Err() == nil {
					_, err := b.AppendAndVerify(ctx, e, func(body []byte) bool { return bytes.Equal(body, e.Body) })
					if err == nil {
						written.Add(1)
						break
					}
					if ctx.Err() == nil && fault.KindOf(err) != fault.Unavailable {
						t.Errorf("win: %v", err)
						return
					}
				}
			}
		})
	}
	for range 3 {
		before := written.Load()
		natstest.Until(t, "runs are written", func() bool { return written.Load() > before+300 })
		p.Kill()
		p.Start()
	}
	before := written.Load()
	natstest.Until(t, "runs are written again", func() bool { return written.Load() > before+300 })
	cancel()
	wg.Wait()
	s, err := b.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Msgs < written.Load() {
		t.Errorf("%d records are there, %d were acknowledged", s.Msgs, written.Load())
	}
	natstest.Until(t, "the follower has all", func() bool { // what was given up unanswered may come late
		s, err = b.State(t.Context())
		return err == nil && seen.Load() == s.Last
	})
}

// TestFollowEndsAfterItsCallback: after Follow has returned, what its callback used may be used; the race detector
// checks it.
func TestFollowEndsAfterItsCallback(t *testing.T) {
	b := natstest.Bus(t)
	e := bus.Entry{Subject: subject.Ended("7", "run_a", "k"), Body: []byte("x")}
	if _, err := b.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		inside := false
		b.Follow(ctx, subject.Runs, 0, nil, func(bus.Message) error {
			inside = true
			cancel()
			for range 20_000 {
				runtime.Gosched()
			}
			inside = false
			return nil
		})
		if inside {
			t.Fatal("Follow has returned while its callback runs")
		}
	}
}

// TestCallbackErrorOutranksALostConnection: the error of a callback ends Follow, even if NATS ended meanwhile.
func TestCallbackErrorOutranksALostConnection(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	e := bus.Entry{Subject: subject.Ended("7", "run_a", "k"), Body: []byte("x")}
	if _, err := b.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	calls, stop := 0, errors.New("stop")
	err := b.Follow(t.Context(), subject.Runs, 0, nil, func(bus.Message) error {
		if calls++; calls == 1 {
			p.Kill()
			natstest.Until(t, "the link is lost", func() bool { return !b.Connected() })
			p.Start()
		}
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls, want %v after one", err, calls, stop)
	}
}

func TestFollowFromTheMiddleWithFilters(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	ctx := t.Context()
	for n := range 10 {
		for _, s := range []string{subject.Ended("7", "run_"+strconv.Itoa(n), "k"),
			subject.Stopping("7", "run_"+strconv.Itoa(n))} {
			if _, err := b.Append(ctx, bus.Entry{Subject: s, Body: []byte(strconv.Itoa(n))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	enough := errors.New("enough")
	var got []uint64
	err := b.Follow(ctx, subject.Runs, 9, []string{"ao.runs.*.stopping.>"}, func(m bus.Message) error {
		if m.Time.IsZero() || string(m.Body) == "" {
			t.Errorf("got %+v", m)
		}
		got = append(got, m.Seq)
		if m.Seq == 20 {
			return enough
		}
		return nil
	})
	if err != enough || len(got) != 6 || got[0] != 10 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAppendAndVerifyRecognizesOwnRecord(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	appendAndVerify := func(nonce string) error {
		_, err := b.AppendAndVerify(t.Context(), bus.Entry{Subject: ended(1), Body: []byte(nonce)},
			func(body []byte) bool { return string(body) == nonce })
		return err
	}
	if err := appendAndVerify("a"); err != nil {
		t.Fatal(err)
	}
	if err := appendAndVerify("b"); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("another's: got %v, want ErrTaken", err)
	}
	if err := appendAndVerify("a"); err != nil {
		t.Errorf("mine again: got %v", err)
	}
}

func TestAppendAndVerifyAfterAnUnansweredPublish(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	appendAndVerify := func(d time.Duration, nonce string) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_, err := b.AppendAndVerify(ctx, bus.Entry{Subject: ended(1), Body: []byte(nonce)},
			func(body []byte) bool { return string(body) == nonce })
		return err
	}
	p.Pause() // the publish lies in the server's socket; nobody answers
	if err := appendAndVerify(100*time.Millisecond, "a"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("unanswered: got %v, want Unavailable", err)
	}
	p.Resume()
	if err := appendAndVerify(5*time.Second, "b"); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("another after the unanswered one: got %v, want ErrTaken", err)
	}
	if err := appendAndVerify(5*time.Second, "a"); err != nil {
		t.Errorf("the unanswered one again: got %v", err)
	}
}

func TestLostConnectionIsUnavailableAtOnce(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	reconnects := make(chan struct{}, 1)
	b.OnReconnect(func() { reconnects <- struct{}{} })
	before := b.Reconnects()
	p.Kill()
	natstest.Until(t, "the loss is noticed", func() bool { return !b.Connected() })
	start := time.Now()
	_, errAppend := b.Append(t.Context(), bus.Entry{Subject: ended(1)})
	_, errAll := b.AppendBatch(t.Context(), bus.Entry{Subject: ended(2)}, bus.Entry{Subject: ended(3)})
	_, errLast := b.Last(t.Context(), ended(1))
	_, errState := b.State(t.Context())
	_, errEvents := b.Events(t.Context(), subject.AllEvents, 0, 10)
	_, _, errGet := b.Bucket(subject.Agents).Get(t.Context(), "x")
	_, errRequest := b.Request(t.Context(), "ao.fleet.x", nil)
	for name, err := range map[string]error{"append": errAppend, "all": errAll, "last": errLast, "state": errState,
		"events": errEvents, "get": errGet, "request": errRequest} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: got %v, want Unavailable", name, err)
		}
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	p.Start()
	<-reconnects
	if b.Reconnects() == before {
		t.Error("the generation did not change")
	}
	if _, err := b.Append(t.Context(), bus.Entry{Subject: ended(1)}); err != nil {
		t.Error(err)
	}
}
