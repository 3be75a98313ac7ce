package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	runs "ao/shared/run"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const packs = "ao.events.7.ses_1.run_1.pack"

// seal is what a worker does, without a proof.
func seal(all []bus.Entry) bus.Entry {
	if len(all) == 1 {
		return all[0]
	}
	var bodies [][]byte
	for _, e := range all {
		bodies = append(bodies, e.Body)
	}
	return bus.Entry{Subject: packs, Body: runs.Pack(bodies)}
}

// numbered is an event that says a number, of at least so many bytes.
func numbered(n, size int) bus.Entry {
	body := fmt.Sprintf(`{"event_type":"message","session_id":"ses_1","run_id":"run_1",`+
		`"timestamp":"2026-01-01T00:00:00Z","n":%d,"x":%q}`, n, strings.Repeat("x", size))
	return bus.Entry{Subject: subject.Event("7", "ses_1", "run_1", runs.EventMessage), Body: []byte(body)}
}

// numbersIn are those that a message says.
func numbersIn(t testing.TB, at string, body []byte) (all []int) {
	t.Helper()
	events := []runs.Event{{}}
	err := json.Unmarshal(body, &events[0])
	if at == packs {
		events, err = runs.Unpack(body)
		if len(events) < 2 {
			t.Errorf("a pack of %d", len(events))
		}
	}
	if err != nil {
		t.Fatalf("%s: %v in %.200s", at, err, body)
	}
	for _, e := range events {
		var said struct{ N int }
		if err := json.Unmarshal(e.Body, &said); err != nil {
			t.Fatal(err)
		}
		all = append(all, said.N)
	}
	return all
}

// mute is a server without a stream for events, and who hears them in its place: it answers when it likes.
type mute struct {
	t   testing.TB
	b   *bus.Bus
	in  chan *nats.Msg
	seq int
}

func newMute(t testing.TB) *mute {
	s := natstest.Server(t)
	m := &mute{t: t, b: natstest.Open(t, s), in: make(chan *nats.Msg, 10_000)}
	nc := natstest.Conn(t, s)
	if _, err := nc.Subscribe(subject.AllEvents, func(msg *nats.Msg) { m.in <- msg }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return m
}

// next is the message that comes, whatever was not answered.
func (m *mute) next() *nats.Msg {
	m.t.Helper()
	select {
	case msg := <-m.in:
		return msg
	case <-time.After(30 * time.Second):
		m.t.Fatal("nothing is sent")
		return nil
	}
}

func (m *mute) answer(msg *nats.Msg) {
	m.t.Helper()
	m.seq++
	if err := msg.Respond(fmt.Appendf(nil, `{"stream":"EVENTS","seq":%d}`, m.seq)); err != nil {
		m.t.Error(err)
	}
}

func (m *mute) gather(e *bus.Emitter, events ...bus.Entry) {
	m.t.Helper()
	for _, one := range events {
		if err := e.EmitPacked(m.t.Context(), one); err != nil {
			m.t.Fatal(err)
		}
	}
}

// flushed is Flush with an end.
func flushed(t testing.TB, e *bus.Emitter) (uint64, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return e.Flush(ctx)
}

// TestEventsArePackedWhileAPublishIsPending: the first is sent at once, those behind it when it is answered, and in
// their order.
func TestEventsArePackedWhileAPublishIsPending(t *testing.T) {
	t.Parallel()
	m := newMute(t)
	e := m.b.Emitter(t.Context(), seal)
	m.gather(e, numbered(0, 0))
	first := m.next()
	if first.Subject == packs || first.Header.Get("Nats-Msg-Id") == "" {
		t.Errorf("the first is %s %v", first.Subject, first.Header)
	}
	const all = 200
	for n := 1; n < all; n++ {
		m.gather(e, numbered(n, 0))
	}
	m.answer(first)
	got, messages, ids := []int{0}, 1, []string{first.Header.Get("Nats-Msg-Id")}
	for len(got) < all {
		msg := m.next()
		got = append(got, numbersIn(t, msg.Subject, msg.Data)...)
		ids = append(ids, msg.Header.Get("Nats-Msg-Id"))
		m.answer(msg)
		messages++
	}
	if !slices.IsSorted(got) || len(got) != all || messages > all/2 {
		t.Errorf("%d messages with %v", messages, got)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != messages {
		t.Error("two messages have one id")
	}
	if seq, err := flushed(t, e); err != nil || seq != uint64(messages) {
		t.Errorf("flushed to %d of %d, %v", seq, messages, err)
	}
	m.gather(e, numbered(all, 0)) // all is answered
	if msg := m.next(); msg.Subject == packs {
		t.Error("a lone event is packed")
	}
}

// TestGatheredEventsAreSentWithTheAnswer, and not later.
func TestGatheredEventsAreSentWithTheAnswer(t *testing.T) {
	t.Parallel()
	m := newMute(t)
	e := m.b.Emitter(t.Context(), seal)
	m.gather(e, numbered(0, 0))
	last, shortest := m.next(), time.Hour
	for n := 1; n < 20; n++ {
		began := time.Now()
		m.gather(e, numbered(n, 0))
		m.answer(last)
		last = m.next()
		shortest = min(shortest, time.Since(began))
	}
	if shortest > 40*time.Millisecond {
		t.Errorf("none was sent within %v", shortest)
	}
}

// TestAPackIsBounded, in events and in bytes; what is too large for one goes alone.
func TestAPackIsBounded(t *testing.T) {
	t.Parallel()
	m := newMute(t)
	e := m.b.Emitter(t.Context(), seal)
	m.gather(e, numbered(0, 0))
	first := m.next()
	n := 0
	for range runs.MaxPacked + 10 {
		n++
		m.gather(e, numbered(n, 0))
	}
	for _, size := range []int{100 << 10, 100 << 10, 100 << 10, 500 << 10, 10} {
		n++
		m.gather(e, numbered(n, size))
	}
	m.answer(first)
	var got []int
	for len(got) < n {
		msg := m.next()
		m.answer(msg)
		all := numbersIn(t, msg.Subject, msg.Data)
		if len(all) > runs.MaxPacked || len(all) > 1 && len(msg.Data) > runs.MaxPack+1024 {
			t.Errorf("%d events in %d bytes", len(all), len(msg.Data))
		}
		got = append(got, all...)
	}
	if !slices.IsSorted(got) || len(got) != n {
		t.Errorf("got %v", got)
	}
}

// TestAPackThatIsNotAnswered is sent again as it was, under its id, and no event behind it overtakes it.
func TestAPackThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	m := newMute(t)
	e := m.b.Emitter(t.Context(), seal)
	m.gather(e, numbered(0, 0))
	first := m.next()
	m.gather(e, numbered(1, 0), numbered(2, 0))
	m.answer(first)
	second := m.next()
	second.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"JetStream system ` +
		`temporarily unavailable"}}`))
	again := m.next()
	if again.Subject != second.Subject || !bytes.Equal(again.Data, second.Data) ||
		again.Header.Get("Nats-Msg-Id") != second.Header.Get("Nats-Msg-Id") {
		t.Errorf("sent %s %v, again %s %v", second.Data, second.Header, again.Data, again.Header)
	}
	m.gather(e, numbered(3, 0))
	again.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"JetStream system ` +
		`temporarily unavailable"}}`))
	last := m.next()
	if last.Header.Get("Nats-Msg-Id") != second.Header.Get("Nats-Msg-Id") {
		t.Fatalf("%s overtakes", last.Data)
	}
	m.answer(last)
	if got := m.next(); !slices.Contains(numbersIn(t, got.Subject, got.Data), 3) {
		t.Errorf("got %s", got.Data)
	} else {
		m.answer(got)
	}
	if seq, err := flushed(t, e); err != nil || seq != 3 {
		t.Errorf("flushed to %d, %v", seq, err)
	}
}

// TestAPackFitsAMessage, also of a server whose messages are small.
func TestAPackFitsAMessage(t *testing.T) {
	t.Parallel()
	const largest = 64 << 10
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(),
		MaxPayload: largest, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: subject.Events,
		Subjects: []string{subject.AllEvents}}); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	e := b.Emitter(t.Context(), seal)
	for n := range 2 * runs.MaxPacked {
		if err := e.EmitPacked(t.Context(), numbered(n, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if seq, err := flushed(t, e); err != nil || seq < 2*runs.MaxPacked*1000/largest {
		t.Errorf("flushed to %d, %v", seq, err)
	}
}

// TestCancelledEmitterGivesUp: an emitter whose context has ended gives up, and reports why.
func TestCancelledEmitterGivesUp(t *testing.T) {
	t.Parallel()
	m := newMute(t)
	over := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	e := m.b.Emitter(ctx, seal)
	m.gather(e, numbered(0, 0), numbered(1, 0))
	done := make(chan error, 1)
	go func() {
		_, err := e.Flush(context.Background())
		done <- err
	}()
	m.next()
	cancel(over)
	if err := <-done; !errors.Is(err, over) {
		t.Errorf("got %v", err)
	}
}

// TestPackedEventsAreAllThereOnceAndInOrder, though the server is killed while they are written.
func TestPackedEventsAreAllThereOnceAndInOrder(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	e := b.Emitter(t.Context(), seal)
	const all = 3000
	var wg sync.WaitGroup
	halfway := make(chan struct{})
	wg.Go(func() {
		for n := range all {
			if n == all/2 {
				close(halfway)
			}
			if err := e.EmitPacked(t.Context(), numbered(n, 0)); err != nil {
				t.Error(err)
			}
			if n%100 == 0 { // so that it is long enough under way
				flushed(t, e)
			}
		}
	})
	<-halfway
	p.Kill()
	p.Start()
	wg.Wait()
	last, err := flushed(t, e)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := b.Events(t.Context(), "ao.events.7.ses_1.run_1.*", 0, 10_000)
	if err != nil || len(stored) == 0 || stored[len(stored)-1].Seq != last {
		t.Fatalf("%d messages, flushed to %d, %v", len(stored), last, err)
	}
	var got []int
	for _, m := range stored {
		got = append(got, numbersIn(t, m.Subject, m.Body)...)
	}
	for n, is := range got {
		if is != n {
			t.Fatalf("got event %d, want %d", is, n)
		}
	}
	if len(got) != all {
		t.Errorf("%d events", len(got))
	}
	t.Logf("%d messages", len(stored))
}
