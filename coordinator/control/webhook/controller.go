package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/control/pool"
	"ao/coordinator/projection"
	"ao/coordinator/record"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/shared/trace"
)

// Controller tells the receivers of callback_url that their runs have ended. Every try is a record, so that the schedule survives
// restarts; who makes a try has taken it before, so that it is usually made once. Receivers see one webhook-id per run.
type Controller struct {
	ControllerConfig
	Pool *pool.Pool // of tries by run, in groups by receiver

	self string // this process, in what it takes

	pruned, said time.Time // Reconcile's alone

	mu    sync.Mutex
	holds map[string]hold // by run
}

// ControllerConfig is what a Controller works with. Spans may be nil.
type ControllerConfig struct {
	History interface {
		Get(ctx context.Context, id string) (run.Run, error)
		Webhook(run string) (projection.Webhook, run.CallbackState, bool)
		DueWebhooks(projection.WebhookQuery) []projection.Webhook
		Outcome(ctx context.Context, id string) (runs.Outcome, error) // as readers see it
		Show(ctx context.Context, id string) (run.Run, error)         // likewise
		Confirmed() bool
	}
	Records interface { // of tries, and entries of who makes one
		Append(ctx context.Context, e bus.Entry) error
		CatchUp(ctx context.Context) error
		Create(ctx context.Context, key string, value []byte) (uint64, error)
		Get(ctx context.Context, key string) ([]byte, uint64, error)
		Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error)
		Version() int                                                  // of records
		Insist(ctx context.Context, what string, f func() error) error // until NATS answers
	}
	Meter     interface{ Posted(status string) } // counts a try
	Receivers *Client
	Spans     *trace.Tracer
	Log       *slog.Logger
}

// NewController makes a Controller.
func NewController(c ControllerConfig) *Controller {
	return &Controller{
		ControllerConfig: c, self: record.Nonce(), holds: map[string]hold{},
		Pool: pool.New(pool.Config{Slots: tries, Each: hostTries}),
	}
}

// Wait waits until the tries that were begun are over.
func (c *Controller) Wait() { c.Pool.Wait() }

// hold is a try that is left alone here for a while: another coordinator has taken it, or something went wrong.
type hold struct {
	n     int       // of the record before it
	rev   uint64    // of its key; 0: nobody is known to have taken it
	since time.Time // this revision was first seen here: by the own clock, which other machines' clocks do not matter to
	until time.Time
}

const (
	tries     = 32               // made at once
	hostTries = 4                // of these, to one receiver: one that does not answer leaves room for the others
	overdue   = time.Minute      // after how long a try that was taken is another's to make: longer than a try can last
	amiss     = 5 * time.Second  // how long a try rests after an error of our own
	recording = 10 * time.Second // how long the end of a process may wait for the record of its last tries
	maxHolds  = 1000
)

// mute says what waits for a coordinator that may tell it.
func (c *Controller) mute() {
	if time.Since(c.said) < c.Pace() {
		return
	}
	c.said = time.Now()
	due := c.History.DueWebhooks(projection.WebhookQuery{Now: time.Now(), Limit: 100, Capacity: func(string) int { return 100 }, Skip: func(projection.Webhook) bool { return false }})
	if len(due) > 0 {
		c.Log.Warn("HTTP callbacks are due, and this coordinator may tell nobody: another one must, or set AO_CALLBACK_HOSTS and AO_CALLBACK_SECRET", "due", len(due), "for_example", due[0].RunID)
	}
}

// Pace is how often all that is due is looked at. A coordinator that may tell nobody only says so.
func (c *Controller) Pace() time.Duration {
	if c.Receivers.Enabled() {
		return time.Second
	}
	return 10 * time.Minute
}

// Reconcile begins the tries that are due and that there is room for. A coordinator that may tell nobody leaves them to those that may.
func (c *Controller) Reconcile(ctx context.Context) error {
	if !c.Receivers.Enabled() {
		c.mute()
		return nil
	}
	if time.Since(c.pruned) >= control.Sweep {
		c.pruned = time.Now()
		c.prune()
	}
	for _, d := range c.look(time.Now()) {
		c.Pool.Go(ctx, d.RunID, d.Host, func(ctx context.Context) error { c.one(ctx, d); return nil })
	}
	return nil
}

// one makes a try. One that came to nothing rests as long as its record is the newest, whoever writes the next one.
func (c *Controller) one(ctx context.Context, d projection.Webhook) {
	if err := c.try(ctx, d); err != nil && ctx.Err() == nil {
		c.rest(d, amiss)
		c.Log.Warn("HTTP callback not tried; trying again", "run", d.RunID, "err", err)
	}
}

// look finds the tries that are due and that there is room for. It finds none that would have to wait: what is due may be another by
// then.
func (c *Controller) look(now time.Time) []projection.Webhook {
	if c.full() {
		c.prune()
	}
	busy, hosts := c.Pool.Busy(), map[string]int{}
	resting, full := c.resting() // after busy: what rests does so before it is over
	if full {
		return nil
	}
	for _, host := range busy {
		hosts[host]++
	}
	return c.History.DueWebhooks(projection.WebhookQuery{
		Now: now, Limit: tries - len(busy),
		Capacity: func(host string) int { return hostTries - hosts[host] },
		Skip: func(d projection.Webhook) bool {
			_, at := busy[d.RunID]
			n, rests := resting[d.RunID]
			return at || rests && n == d.N
		},
	})
}

// resting are the runs whose try is left alone now, with the number of the record before it; full: they are too many for more.
func (c *Controller) resting() (all map[string]int, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = map[string]int{}
	for id, held := range c.holds {
		if time.Now().Before(held.until) {
			all[id] = held.n
		}
	}
	return all, len(c.holds) >= maxHolds
}

func (c *Controller) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.holds) >= maxHolds
}

// prune forgets the holds of tries that were made. Where there are too many it forgets those that are over, too.
func (c *Controller) prune() {
	c.mu.Lock()
	defer c.mu.Unlock()
	many := len(c.holds) >= maxHolds
	for id, held := range c.holds {
		if d, call, ok := c.History.Webhook(id); !ok || d.N != held.n || call.Status != run.CallbackPending || many && time.Now().After(held.until) {
			delete(c.holds, id)
		}
	}
}

// rest leaves a try alone for a while.
func (c *Controller) rest(d projection.Webhook, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.holds[d.RunID]
	if held.n != d.N {
		held = hold{n: d.N}
	}
	held.until = time.Now().Add(pause)
	c.holds[d.RunID] = held
}

// theirs leaves a try that another has taken alone until it is overdue; it may be so now.
func (c *Controller) theirs(d projection.Webhook, rev uint64) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.holds[d.RunID]
	if held.n != d.N || held.rev != rev {
		held = hold{n: d.N, rev: rev, since: time.Now()}
	}
	held.until = held.since.Add(overdue)
	c.holds[d.RunID] = held
	return !time.Now().Before(held.until)
}

// taken is who makes a try, since when.
type taken struct {
	By string    `json:"by"` // a process
	At time.Time `json:"at"` // by its clock: for people
}

// take says whether this coordinator makes the try.
func (c *Controller) take(ctx context.Context, d projection.Webhook) (bool, error) {
	key := subject.WebhookTryKey(d.RunID, d.N+1)
	mine, err := json.Marshal(taken{c.self, time.Now().UTC()})
	if err != nil {
		return false, err
	}
	if _, err = c.Records.Create(ctx, key, mine); err == nil || !errors.Is(err, bus.ErrTaken) {
		return err == nil, err
	}
	raw, rev, err := c.Records.Get(ctx, key)
	if err != nil {
		return false, err
	}
	var by taken
	if ours := json.Unmarshal(raw, &by) == nil && by.By == c.self; !ours && !c.theirs(d, rev) { // ours came to nothing
		return false, nil
	}
	_, err = c.Records.Update(ctx, key, mine, rev)
	if errors.Is(err, bus.ErrTaken) { // another look says whose it is now
		return false, nil
	}
	return err == nil, err
}

// stands says whether a try is still to be made, by all that is on the stream: who took it before may have made it.
func (c *Controller) stands(ctx context.Context, d projection.Webhook) (bool, error) {
	if err := c.Records.CatchUp(ctx); err != nil {
		return false, err
	}
	now, call, ok := c.History.Webhook(d.RunID)
	return ok && c.History.Confirmed() && call.Status == run.CallbackPending && now.N == d.N && !now.Next.After(time.Now()), nil
}

// Told is the body of an HTTP callback.
type Payload struct {
	Type string       `json:"type"` // run.completed, run.failed, run.stopped
	At   time.Time    `json:"timestamp"`
	Data runs.Outcome `json:"data"`
}

// try makes one and records how it went. What is to be told is read before the try is taken: what goes wrong then costs nobody
// any time.
func (c *Controller) try(ctx context.Context, d projection.Webhook) error {
	to, body, of, err := c.told(ctx, d)
	if err != nil {
		return err
	}
	if mine, err := c.take(ctx, d); err != nil || !mine {
		return err
	}
	if ok, err := c.stands(ctx, d); err != nil || !ok {
		return err
	}
	traced, span := c.Spans.Start(trace.ContextWith(ctx, of), trace.Client, "webhook")
	defer span.End()
	went := c.Receivers.Deliver(traced, to, "msg_"+strings.TrimPrefix(d.RunID, "run_"), time.Now().UTC(), body)
	if ctx.Err() != nil && !went.Delivered {
		return ctx.Err()
	}
	span.Set(trace.Run, d.RunID)
	span.Set(trace.Session, d.SessionID)
	span.SetInt("ao.webhook.try", d.Tries+1)
	span.SetInt("http.response.status_code", went.Status)
	if !went.Delivered {
		span.SetError("not_delivered")
	}
	return c.record(ctx, d, went)
}

// told is what a receiver is told, and where, and whose trace the run is a part of.
func (c *Controller) told(ctx context.Context, d projection.Webhook) (to string, body []byte, of *run.Trace, err error) {
	o, err := c.History.Outcome(ctx, d.RunID)
	if kind := fault.KindOf(err); err != nil && kind != fault.Unavailable && kind != fault.NotFound && ctx.Err() == nil {
		c.Log.Error("the result of a run cannot be read; its receiver is told without it", "run", d.RunID, "err", err)
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
	o.Callback, o.HTTPCallback, o.CallbackURL = nil, nil, "" // where callbacks stand is nothing that this one could tell
	body, err = strictjson.Encode(Payload{"run." + string(o.Status), at, o})
	return to, body, o.Trace, err
}

// record notes how a try went, and has the fold know it: no look finds the same try again.
func (c *Controller) record(ctx context.Context, d projection.Webhook, went Attempt) error {
	r := run.Notified{V: c.Records.Version(), SessionID: d.SessionID, N: d.N + 1, Status: run.NotifyFailed, HTTP: went.Status, Reason: went.Reason, At: time.Now().UTC()}
	pause, last := backoff(d.Tries + 1)
	switch {
	case went.Delivered:
		r.Status, r.Reason = run.NotifyDelivered, ""
	case went.Permanent || last:
		r.Status = run.NotifyDead
	default:
		next := r.At.Add(pause + rand.N(pause/10+1))
		r.Next = &next
	}
	c.Meter.Posted(r.Status)
	if r.Status == run.NotifyDelivered {
		c.Log.Info("HTTP callback delivered", "run", d.RunID, "tries", d.Tries+1)
	} else {
		c.Log.Warn("HTTP callback failed", "run", d.RunID, "tries", d.Tries+1, "status", r.Status, "reason", r.Reason)
	}
	err := c.Records.Insist(ctx, "the record of an HTTP callback", func() error { // it was made: without the record it would be made again
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), recording)
		defer cancel()
		return c.append(short, d, r)
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	return c.Records.CatchUp(ctx)
}

func (c *Controller) append(ctx context.Context, d projection.Webhook, r run.Notified) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = c.Records.Append(ctx, bus.Entry{Subject: subject.Notified(subject.Partition(d.SessionID), d.RunID, r.N), Body: body})
	if errors.Is(err, bus.ErrTaken) {
		return nil
	}
	return err
}

// Redeliver has an HTTP callback that failed tried again, from the beginning of its schedule and at once.
func (c *Controller) Redeliver(ctx context.Context, id string) (run.Run, error) {
	r, err := c.History.Get(ctx, id)
	if err != nil {
		return r, err
	}
	d, _, ok := c.History.Webhook(id)
	if !ok {
		return r, fault.Newf(fault.Conflict, "run %s has no HTTP callback that failed; GET /callbacks?status=dead lists those that did", id).With("run_id", id)
	}
	if err := c.append(ctx, d, run.Notified{V: c.Records.Version(), SessionID: d.SessionID, N: d.N + 1, Status: run.NotifyAgain, At: time.Now().UTC()}); err != nil {
		return r, bus.WriteUnanswered(err)
	}
	if err := c.Records.CatchUp(ctx); err != nil {
		return r, err
	}
	return c.History.Show(ctx, id)
}
