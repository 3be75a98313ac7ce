package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/control/pool"
	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/shared/trace"
)

// Controller delivers webhooks when runs have ended. Every try is a record, so that the schedule survives restarts. A
// coordinator reserves a try before it makes it, so that it is usually made once. Receivers see one webhook-id per run.
type Controller struct {
	ControllerConfig
	Pool *pool.Pool // of tries, by run, in groups by receiver

	self string // names this process in reservations

	prunedAt, warnedAt time.Time // Reconcile's alone

	mu       sync.Mutex
	backoffs map[string]backoffState // by run
}

// ControllerConfig is what a Controller works with. Spans may be nil.
type ControllerConfig struct {
	History interface {
		Get(ctx context.Context, id string) (run.Run, error)
		Webhook(run string) (state.Webhook, run.CallbackState, bool)
		DueWebhooks(state.WebhookQuery) []state.Webhook
		Outcome(ctx context.Context, id string) (runs.Outcome, error) // as readers see it
		Show(ctx context.Context, id string) (run.Run, error)         // likewise
		Confirmed() bool
	}
	Records interface { // of tries, and who makes one
		Append(ctx context.Context, e bus.Entry) error
		CatchUp(ctx context.Context) error
		Create(ctx context.Context, key string, value []byte) (uint64, error)
		Get(ctx context.Context, key string) ([]byte, uint64, error)
		Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error)
		Version() int                                                  // of records
		Insist(ctx context.Context, what string, f func() error) error // until NATS answers
	}
	Receivers interface {
		Enabled() bool
		Deliver(ctx context.Context, rawURL, id string, at time.Time, body []byte) Attempt
		Posted(status string) // counts a try
	}
	Spans *trace.Tracer
	Log   *slog.Logger
}

// NewController returns a Controller.
func NewController(c ControllerConfig) *Controller {
	return &Controller{
		ControllerConfig: c, self: record.Nonce(), backoffs: map[string]backoffState{},
		Pool: pool.New(pool.Config{Slots: maxTries, Each: maxHostTries}),
	}
}

// Wait returns when the tries in progress are over.
func (c *Controller) Wait() { c.Pool.Wait() }

// backoffState is a try that this process leaves alone for a while: another coordinator has reserved it, or
// it failed here.
type backoffState struct {
	n     int       // of the record before it
	rev   uint64    // of the reservation; 0: none is known
	since time.Time // when this revision was first seen here; other machines' clocks do not matter
	until time.Time
}

const (
	maxTries     = 32 // at once
	maxHostTries = 4  // at once to one receiver, so that a slow one leaves room for others
	// when another coordinator may take a reserved try over: longer than a try can last
	takeoverAfter = time.Minute
	errorPause    = 5 * time.Second  // pause after an error of our own
	recordTimeout = 10 * time.Second // how long the end of a process may wait for the record of its last tries
	maxBackoffs   = 1000
)

// warnDisabled logs what waits for another coordinator, as this one may not deliver webhooks.
func (c *Controller) warnDisabled() {
	if time.Since(c.warnedAt) < c.Pace() {
		return
	}
	c.warnedAt = time.Now()
	due := c.History.DueWebhooks(state.WebhookQuery{
		Now:      time.Now(),
		Limit:    100,
		Capacity: func(string) int { return 100 },
		Skip:     func(state.Webhook) bool { return false },
	})
	if len(due) > 0 {
		c.Log.Warn("webhooks are due, but this coordinator may not deliver any: another one must, or set "+
			"AO_CALLBACK_HOSTS and AO_CALLBACK_SECRET", "due", len(due), "for_example", due[0].RunID)
	}
}

// Pace returns how often all due webhooks are looked at. Where webhooks are disabled, Reconcile only warns.
func (c *Controller) Pace() time.Duration {
	if c.Receivers.Enabled() {
		return time.Second
	}
	return 10 * time.Minute
}

// Reconcile starts the tries that are due and have room. Where webhooks are disabled it leaves them to other
// coordinators.
func (c *Controller) Reconcile(ctx context.Context) error {
	if !c.Receivers.Enabled() {
		c.warnDisabled()
		return nil
	}
	if time.Since(c.prunedAt) >= control.Sweep {
		c.prunedAt = time.Now()
		c.prune()
	}
	for _, d := range c.due(time.Now()) {
		c.Pool.Go(ctx, d.RunID, d.Host, func(ctx context.Context) error { c.attempt(ctx, d); return nil })
	}
	return nil
}

// attempt makes one try. After an error it backs off until the error pause is over or a newer record exists.
func (c *Controller) attempt(ctx context.Context, d state.Webhook) {
	if err := c.try(ctx, d); err != nil && ctx.Err() == nil {
		c.backOff(d, errorPause)
		c.Log.Warn("webhook not attempted, retrying", "run", d.RunID, "err", err)
	}
}

// due returns the tries that are due and have room. It returns none that would have to wait: by then others may be due.
func (c *Controller) due(now time.Time) []state.Webhook {
	if c.full() {
		c.prune()
	}
	busy, hosts := c.Pool.Busy(), map[string]int{}
	backingOff, full := c.backingOff() // read after busy: a try backs off before it is over
	if full {
		return nil
	}
	for _, host := range busy {
		hosts[host]++
	}
	return c.History.DueWebhooks(state.WebhookQuery{
		Now: now, Limit: maxTries - len(busy),
		Capacity: func(host string) int { return maxHostTries - hosts[host] },
		Skip: func(d state.Webhook) bool {
			_, at := busy[d.RunID]
			n, rests := backingOff[d.RunID]
			return at || rests && n == d.N
		},
	})
}

// backingOff returns the runs whose try is left alone now, with the number of the record before it. full: there are too
// many for more.
func (c *Controller) backingOff() (all map[string]int, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = map[string]int{}
	for id, b := range c.backoffs {
		if time.Now().Before(b.until) {
			all[id] = b.n
		}
	}
	return all, len(c.backoffs) >= maxBackoffs
}

func (c *Controller) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.backoffs) >= maxBackoffs
}

// prune forgets the backoff of tries that were made. If there are too many, it also forgets those that are over.
func (c *Controller) prune() {
	c.mu.Lock()
	defer c.mu.Unlock()
	many := len(c.backoffs) >= maxBackoffs
	maps.DeleteFunc(c.backoffs, func(id string, b backoffState) bool {
		d, call, ok := c.History.Webhook(id)
		return !ok || d.N != b.n || call.Status != run.CallbackPending || many && time.Now().After(b.until)
	})
}

// backOff leaves a try alone for a while.
func (c *Controller) backOff(d state.Webhook, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.backoffs[d.RunID]
	if b.n != d.N {
		b = backoffState{n: d.N}
	}
	b.until = time.Now().Add(pause)
	c.backoffs[d.RunID] = b
}

// backOffForeign leaves a try that another coordinator reserved alone until that is overdue. It reports whether it is.
func (c *Controller) backOffForeign(d state.Webhook, rev uint64) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.backoffs[d.RunID]
	if b.n != d.N || b.rev != rev {
		b = backoffState{n: d.N, rev: rev, since: time.Now()}
	}
	b.until = b.since.Add(takeoverAfter)
	c.backoffs[d.RunID] = b
	return !time.Now().Before(b.until)
}

// taken is the reservation of a try.
type taken struct {
	By string    `json:"by"` // a process
	At time.Time `json:"at"` // by its clock: for people
}

// take reserves a try, and reports whether this coordinator is to make it.
func (c *Controller) take(ctx context.Context, d state.Webhook) (bool, error) {
	key := subject.WebhookTryKey(d.RunID, d.N+1)
	mine, err := strictjson.Encode(taken{c.self, time.Now().UTC()})
	if err != nil {
		return false, err
	}
	_, err = c.Records.Create(ctx, key, mine)
	if err == nil || !errors.Is(err, bus.ErrTaken) {
		return err == nil, err
	}
	raw, rev, err := c.Records.Get(ctx, key)
	if err != nil {
		return false, err
	}
	var by taken
	if ours := json.Unmarshal(raw, &by) == nil && by.By == c.self; !ours &&
		!c.backOffForeign(d, rev) { // our own reservation came to nothing
		return false, nil
	}
	_, err = c.Records.Update(ctx, key, mine, rev)
	if errors.Is(err, bus.ErrTaken) { // the next look shows who has it
		return false, nil
	}
	return err == nil, err
}

// stillDue reports whether a try is still to be made, by everything on the stream: another coordinator may
// have made it.
func (c *Controller) stillDue(ctx context.Context, d state.Webhook) (bool, error) {
	if err := c.Records.CatchUp(ctx); err != nil {
		return false, err
	}
	now, call, ok := c.History.Webhook(d.RunID)
	return ok && c.History.Confirmed() && call.Status == run.CallbackPending && now.N == d.N &&
		!now.Next.After(time.Now()), nil
}

// Payload is the body of a webhook.
type Payload struct {
	Type string       `json:"type"` // run.completed, run.failed, run.stopped
	At   time.Time    `json:"timestamp"`
	Data runs.Outcome `json:"data"`
}

// try makes one try and records its outcome. The payload is read before the try is reserved, so that errors there cost
// nobody any time.
func (c *Controller) try(ctx context.Context, d state.Webhook) error {
	to, body, of, err := c.payload(ctx, d)
	if err != nil {
		return err
	}
	if mine, err := c.take(ctx, d); err != nil || !mine {
		return err
	}
	if ok, err := c.stillDue(ctx, d); err != nil || !ok {
		return err
	}
	traced, span := c.Spans.Start(trace.ContextWith(ctx, of), trace.Client, "webhook")
	defer span.End()
	result := c.Receivers.Deliver(traced, to, "msg_"+strings.TrimPrefix(d.RunID, "run_"), time.Now().UTC(), body)
	if ctx.Err() != nil && !result.Delivered {
		return ctx.Err()
	}
	span.Set(trace.Run, d.RunID)
	span.Set(trace.Session, d.SessionID)
	span.SetInt("ao.webhook.try", d.Tries+1)
	span.SetInt("http.response.status_code", result.Status)
	if !result.Delivered {
		span.SetError("not_delivered")
	}
	return c.record(ctx, d, result)
}

// payload returns the body of a run's webhook, its URL, and the run's trace.
func (c *Controller) payload(ctx context.Context, d state.Webhook,
) (to string, body []byte, of *run.Trace, err error) {
	o, err := c.History.Outcome(ctx, d.RunID)
	if kind := fault.KindOf(err); err != nil && kind != fault.Unavailable && kind != fault.NotFound &&
		ctx.Err() == nil {
		c.Log.Error("the result of a run is unreadable; its webhook is delivered without it", "run", d.RunID,
			"err", err)
		o = runs.Outcome{}
		o.Run, err = c.History.Show(ctx, d.RunID)
	}
	if err != nil {
		return "", nil, nil, err
	}
	to = o.CallbackURL
	at := o.CreatedAt
	if o.EndedAt != nil {
		at = *o.EndedAt
	}
	o.Callback, o.HTTPCallback, o.CallbackURL = nil, nil, "" // the receiver is not told the state of callbacks
	body, err = strictjson.Encode(Payload{"run." + string(o.Status), at, o})
	return to, body, o.Trace, err
}

// record records the outcome of a try, and waits for the projection: no look finds the same try again.
func (c *Controller) record(ctx context.Context, d state.Webhook, result Attempt) error {
	r := run.Notified{V: c.Records.Version(), SessionID: d.SessionID, N: d.N + 1, Status: run.NotifyFailed,
		HTTP: result.Status, Reason: result.Reason, At: time.Now().UTC()}
	pause, last := backoff(d.Tries + 1)
	switch {
	case result.Delivered:
		r.Status, r.Reason = run.NotifyDelivered, ""
	case result.Permanent || last:
		r.Status = run.NotifyDead
	default:
		r.Next = new(r.At.Add(pause + rand.N(pause/10+1)))
	}
	c.Receivers.Posted(r.Status)
	if r.Status == run.NotifyDelivered {
		c.Log.Info("webhook delivered", "run", d.RunID, "tries", d.Tries+1)
	} else {
		c.Log.Warn("webhook failed", "run", d.RunID, "tries", d.Tries+1, "status", r.Status, "reason", r.Reason)
	}
	err := c.Records.Insist(ctx, "the record of a webhook",
		func() error { // the try was made: without the record it would be made again
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
			defer cancel()
			return c.append(short, d, r)
		})
	if err != nil || ctx.Err() != nil {
		return err
	}
	return c.Records.CatchUp(ctx)
}

// append appends a step, unless another coordinator has done so. After a loss of records a step may be there that does
// not count: it cannot be read, or precedes the run's end. Then the step gets the next number.
func (c *Controller) append(ctx context.Context, d state.Webhook, r run.Notified) error {
	for ; ; r.N++ {
		body, err := strictjson.Encode(r)
		if err != nil {
			return err
		}
		err = c.Records.Append(ctx,
			bus.Entry{Subject: subject.Notified(subject.Partition(d.SessionID), d.RunID, r.N), Body: body})
		if !errors.Is(err, bus.ErrTaken) {
			return err
		}
		if err := c.Records.CatchUp(ctx); err != nil {
			return err
		}
		if now, _, ok := c.History.Webhook(d.RunID); !ok || now.N != d.N {
			return nil
		}
	}
}

// Redeliver tries a failed webhook again, at once and from the beginning of its schedule.
func (c *Controller) Redeliver(ctx context.Context, id string) (run.Run, error) {
	r, err := c.History.Get(ctx, id)
	if err != nil {
		return r, err
	}
	d, _, ok := c.History.Webhook(id)
	if !ok {
		return r, fault.Newf(fault.Conflict,
			"run %s has no HTTP callback that failed; GET /callbacks?status=dead lists those that did", id).
			With("run_id", id)
	}
	if err := c.append(ctx, d, run.Notified{V: c.Records.Version(), SessionID: d.SessionID, N: d.N +
		1, Status: run.NotifyAgain, At: time.Now().UTC()}); err != nil {
		return r, bus.WriteUnanswered(err)
	}
	if err := c.Records.CatchUp(ctx); err != nil {
		return r, err
	}
	return c.History.Show(ctx, id)
}

// pauses are the pauses after failed tries, as Standard Webhooks recommends: ten tries within about three days.
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// backoff returns how long to wait after the n-th try failed, counted from 1, or that it was the last.
func backoff(n int) (wait time.Duration, last bool) {
	if n > len(pauses) {
		return 0, true
	}
	return pauses[max(n, 1)-1], false
}
