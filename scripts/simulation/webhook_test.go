package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ao/coordinator/control/webhook"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// try is one try of a webhook.
type try struct {
	at     time.Time
	by     *coordinator
	answer int
}

// receivers are whom webhooks go to, as one coordinator reaches them. The first try often fails.
type receivers struct {
	meters
	c *coordinator
}

// Enabled is webhook.Client's.
func (receivers) Enabled() bool { return true }

// Deliver is webhook.Client's.
func (r receivers) Deliver(ctx context.Context, _, id string, _ time.Time, body []byte) (got webhook.Attempt) {
	a := &act{key: r.c.name + " webhook"}
	a.do = func() time.Duration {
		id := "run_" + strings.TrimPrefix(id, "msg_")
		answer := http.StatusOK
		if n := len(r.c.oracle.tries[id]); n == 0 && a.fate%4 == 0 {
			answer = http.StatusServiceUnavailable
		} else if a.fate%50 == 1 {
			answer = http.StatusGone
		}
		r.c.oracle.posted(r.c, id, body, answer)
		got = webhook.Attempt{Status: answer, Delivered: answer == http.StatusOK,
			Permanent: answer == http.StatusGone}
		return 0
	}
	if err := r.c.loop.call(ctx, a); err != nil {
		return webhook.Attempt{Reason: "no answer"}
	}
	return got
}

// posted checks a try: one coordinator at a time makes it, with what the run has come to, until it is delivered.
func (o *oracle) posted(c *coordinator, id string, body []byte, answer int) {
	before := o.tries[id]
	o.tries[id] = append(before, try{time.Now(), c, answer})
	p := o.runs[id]
	if p == nil || o.damaged[p.session] {
		return
	}
	var payload struct{ Type string }
	if err := json.Unmarshal(body, &payload); err != nil || payload.Type != "run."+string(o.ends[id]) {
		o.fail("the webhook of run %s says %s, and it has %s", id, payload.Type, o.ends[id])
	}
	if len(before) == 0 {
		return
	}
	last := before[len(before)-1]
	if last.by != c && time.Since(last.at) < 4*time.Second {
		o.fail("the webhook of run %s was tried by %s %s after %s", id, c.name, time.Since(last.at), last.by.name)
	}
	m, err := o.world.runs.get(o.world.runs.bySubject[subject.Notified(subject.Partition(p.session), id, len(before))])
	var n run.Notified
	if err == nil && json.Unmarshal(m.Body, &n) == nil && n.Status != run.NotifyFailed {
		o.fail("the webhook of run %s was tried again, and is %s", id, n.Status)
	}
}

// webhooksDue returns the runs whose webhook is to be tried soon.
func (c *coordinator) webhooksDue() (ids []string) {
	for _, d := range c.history.DueWebhooks(state.WebhookQuery{Now: time.Now().Add(7 * time.Second), Limit: 3,
		Capacity: func(string) int { return 3 }, Skip: func(state.Webhook) bool { return false }}) {
		ids = append(ids, d.RunID)
	}
	return ids
}

// notified checks at the end that a run's webhook was tried until it was delivered, or refused for good.
func (o *oracle) notified(p *promise) {
	if !p.asked.With.Webhook {
		return
	}
	all := o.tries[p.run]
	if len(all) == 0 {
		o.fail("the webhook of run %s was never tried", p.run)
	} else if last := all[len(all)-1]; last.answer == http.StatusServiceUnavailable {
		o.fail("the webhook of run %s was not tried again", p.run)
	}
}

// receiverOf returns where a request's webhook goes: to one of three receivers.
func receiverOf(n int) string { return fmt.Sprintf("https://receiver%d.example/done", n%3) }
