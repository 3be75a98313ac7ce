package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"ao/coordinator/journal"
	"ao/coordinator/webhook"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/wire"
)

// hooks tells the receivers of callback_url that their runs have ended. Every try is a record, so that the schedule survives
// restarts; who makes a try has taken it before, so that it is usually made once. Receivers see one webhook-id per run.
type hooks struct {
	c    *Coordinator
	wake chan struct{}
	mu   sync.Mutex
	busy map[string]bool // runs whose try is being made here
}

func newHooks(c *Coordinator) *hooks {
	return &hooks{c: c, wake: make(chan struct{}, 1), busy: map[string]bool{}}
}

// poke asks for a look: a run has ended.
func (h *hooks) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// tries is how many are made at once.
const tries = 16

func (h *hooks) watch(ctx context.Context) error {
	slots := make(chan struct{}, tries)
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
		case <-tick.C:
		}
		if h.c.Journal.Ready() != nil || !h.c.bus.Connected() {
			continue
		}
		due, _ := h.c.Journal.Hooks(time.Now())
		for _, d := range due {
			if !h.begin(d.RunID) {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			wg.Go(func() {
				defer func() { h.end(d.RunID); <-slots }()
				if err := h.try(ctx, d); err != nil && ctx.Err() == nil {
					h.c.log.Warn("HTTP callback not tried; trying again", "run", d.RunID, "err", err)
				}
			})
		}
	}
}

func (h *hooks) begin(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[id] {
		return false
	}
	h.busy[id] = true
	return true
}

func (h *hooks) end(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, id)
}

// overdue is after how long a try that was taken is another's to make: longer than a try can last.
const overdue = time.Minute

// taken is who makes a try, since when.
type taken struct {
	At time.Time `json:"at"`
}

// take says whether this coordinator makes the try.
func (h *hooks) take(ctx context.Context, d journal.Hook) (bool, error) {
	b := h.c.bus.Bucket(subject.Idempotency)
	key := subject.TryKey(d.RunID, d.N+1)
	mine, err := json.Marshal(taken{time.Now().UTC()})
	if err != nil {
		return false, err
	}
	if _, err = b.Create(ctx, key, mine); err == nil || !errors.Is(err, bus.ErrTaken) {
		return err == nil, err
	}
	raw, rev, err := b.Get(ctx, key)
	if err != nil {
		return false, err
	}
	var theirs taken
	if json.Unmarshal(raw, &theirs) == nil && time.Since(theirs.At) < overdue {
		return false, nil
	}
	_, err = b.Update(ctx, key, mine, rev)
	if errors.Is(err, bus.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// Told is the body of an HTTP callback.
type Told struct {
	Type string    `json:"type"` // run.completed, run.failed, run.stopped
	At   time.Time `json:"timestamp"`
	Data Outcome   `json:"data"`
}

// try makes one and records how it went.
func (h *hooks) try(ctx context.Context, d journal.Hook) error {
	if mine, err := h.take(ctx, d); err != nil || !mine {
		return err
	}
	o, err := h.c.Outcome(ctx, d.RunID)
	if err != nil {
		return err
	}
	to := o.CallbackURL
	at := o.CreatedAt
	if o.EndedAt != nil {
		at = *o.EndedAt
	}
	o.Callback, o.HTTPCallback, o.CallbackURL = nil, nil, "" // where callbacks stand is nothing that this one could tell
	body, err := wire.Encode(Told{"run." + string(o.Status), at, o})
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	went := h.c.Webhooks.Deliver(ctx, to, "msg_"+strings.TrimPrefix(d.RunID, "run_"), now, body)
	if ctx.Err() != nil && !went.Delivered {
		return ctx.Err()
	}
	return h.record(ctx, d, went)
}

func (h *hooks) record(ctx context.Context, d journal.Hook, went webhook.Attempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	r := run.Notified{V: run.Version, SessionID: d.SessionID, N: d.N + 1, Status: run.NotifyFailed, HTTP: went.Status, Reason: went.Reason, At: time.Now().UTC()}
	pause, last := webhook.Backoff(d.Tries + 1)
	switch {
	case went.Delivered:
		r.Status, r.Reason = run.NotifyDelivered, ""
	case went.Permanent || last:
		r.Status = run.NotifyDead
	default:
		next := r.At.Add(pause + rand.N(pause/10+1))
		r.Next = &next
	}
	if r.Status == run.NotifyDelivered {
		h.c.log.Info("HTTP callback delivered", "run", d.RunID, "tries", d.Tries+1)
	} else {
		h.c.log.Warn("HTTP callback failed", "run", d.RunID, "tries", d.Tries+1, "status", r.Status, "reason", r.Reason)
	}
	return h.append(ctx, d, r)
}

func (h *hooks) append(ctx context.Context, d journal.Hook, r run.Notified) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	seq, err := h.c.bus.Append(ctx, bus.Entry{Subject: subject.Notified(subject.Partition(d.SessionID), d.RunID, r.N), Body: body})
	if errors.Is(err, bus.ErrTaken) {
		return nil
	}
	if err == nil {
		h.c.written(seq)
	}
	return err
}

// Redeliver has an HTTP callback that failed tried again, from the beginning of its schedule and at once.
func (c *Coordinator) Redeliver(ctx context.Context, id string) (run.Run, error) {
	r, err := c.Journal.Get(ctx, id)
	if err != nil {
		return r, err
	}
	d, _, ok := c.Journal.Hook(id)
	if !ok {
		return r, fault.Newf(fault.Conflict, "run %s has no HTTP callback that failed; GET /callbacks?status=dead lists those that did", id).With("run_id", id)
	}
	if err := c.hooks.append(ctx, d, run.Notified{V: run.Version, SessionID: d.SessionID, N: d.N + 1, Status: run.NotifyAgain, At: time.Now().UTC()}); err != nil {
		return r, unavailable(err)
	}
	if err := c.caughtUp(ctx); err != nil {
		return r, err
	}
	c.hooks.poke()
	return c.Show(ctx, id)
}
