package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// all scans for everything that is due.
func all(now time.Time) WebhookQuery {
	return WebhookQuery{
		Now:      now,
		Limit:    1 << 30,
		Capacity: func(string) int { return 1 << 30 },
		Skip:     func(Webhook) bool { return false },
	}
}

// calling makes runs with HTTP callbacks, and their steps.
type calling struct {
	*testing.T
	f *State
}

func (c calling) put(e entry, at time.Time) {
	c.Helper()
	if _, err := c.f.Apply(Record{Seq: c.f.seq + 1, Subject: e.Subject, Body: e.Body, Time: at}); err != nil {
		c.Fatal(err)
	}
}

func (c calling) ended(host string, at time.Time) actor {
	a := newActor(c.T, run.NewID(), run.NewID(), "a")
	a.Spec.CallbackURL = "https://" + host + "/posted"
	for _, e := range []entry{a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 0)} {
		c.put(e, at)
	}
	return a
}

func (c calling) tried(a actor, status string, next time.Time) {
	n := c.f.Webhooks.of[c.f.runs[IdentOf(RunPrefix, a.Spec.ID)]].N + 1
	r := run.Notified{V: 1, SessionID: a.Spec.SessionID, N: n, Status: status}
	if status == run.NotifyFailed {
		r.Next = &next
	}
	c.put(entry{Subject: subject.Notified(a.Part, a.Spec.ID, n), Body: body(c.T, r)}, next)
}

// queued checks the queues against what they are made of.
func queued(t *testing.T, f *State) {
	t.Helper()
	due, inQueues := 0, 0
	for r, h := range f.Webhooks.of {
		if r.Webhook == webhookPending {
			due++
		}
		if (r.Webhook == webhookPending) != (h.to != nil) ||
			h.to != nil && (h.to.queue[h.place] != h || f.Webhooks.Hosts.of[h.Host] != h.to) ||
			h.row != r {
			t.Fatalf("run %s: %+v", r.ID(), h)
		}
	}
	for i, to := range f.Webhooks.Hosts.first {
		if to.place != i || i > 0 && to.when().Before(f.Webhooks.Hosts.first[(i-1)/2].when()) {
			t.Fatalf("%s is at the wrong place", to.host)
		}
		inQueues += len(to.queue)
	}
	if due != inQueues || len(f.Webhooks.Hosts.of) != len(f.Webhooks.Hosts.first) {
		t.Fatalf(
			"%d are due, %d queued, for %d of %d receivers",
			due,
			inQueues,
			len(f.Webhooks.Hosts.first),
			len(f.Webhooks.Hosts.of),
		)
	}
}

// Due webhooks are found without a scan of the rest, of every receiver, the oldest first; also after a restart from a
// checkpoint.
func TestDueWebhooks(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 31))
		c := calling{t, blank()}
		moment := func() time.Time { return began.Add(time.Duration(rng.IntN(100)) * time.Second) }
		var runs []actor
		for range 100 {
			runs = append(runs, c.ended(fmt.Sprint("host", rng.IntN(5), ".test"), moment()))
			a := runs[rng.IntN(len(runs))]
			switch r := c.f.runs[IdentOf(RunPrefix, a.Spec.ID)]; {
			case r == nil || r.Webhook == webhookDelivered:
			case rng.IntN(9) == 0:
				c.put(a.Deleted(), began)
			case r.Webhook == webhookDead:
				c.tried(a, run.NotifyAgain, moment())
			default:
				c.tried(
					a,
					[]string{run.NotifyFailed, run.NotifyFailed, run.NotifyDelivered, run.NotifyDead}[rng.IntN(4)],
					moment(),
				)
			}
		}
		queued(t, c.f)
		loaded, err := load(snap(t, over(c.f), func() {}), keyOf)
		if err != nil {
			t.Fatal(err)
		}
		queued(t, loaded)

		now, room := began.Add(50*time.Second), 1+rng.IntN(4)
		busy := map[string]bool{runs[rng.IntN(len(runs))].Spec.ID: true}
		var want []string
		byHost := map[string][]*webhook{}
		for r, h := range c.f.Webhooks.of {
			if r.Webhook == webhookPending && !h.Next.After(now) && !busy[r.ID()] {
				byHost[h.Host] = append(byHost[h.Host], h)
			}
		}
		for host, hooks := range byHost {
			slices.SortFunc(hooks, func(a, b *webhook) int { return a.Next.Compare(b.Next) })
			for _, h := range hooks[:min(room, len(hooks))] {
				want = append(want, fmt.Sprint(host, " at ", h.Next.Sub(began)))
			}
		}
		slices.Sort(want)
		for _, f := range []*State{c.f, loaded} {
			j := over(f)
			l := all(now)
			l.Capacity, l.Skip = func(string) int { return room }, func(h Webhook) bool { return busy[h.RunID] }
			var got []string
			for _, h := range j.DueWebhooks(l) {
				got = append(got, fmt.Sprint(h.Host, " at ", h.Next.Sub(began)))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: got\n%v\nwant\n%v", seed, got, want)
			}
			l.Limit = 3
			if len(j.DueWebhooks(l)) != min(3, len(want)) {
				t.Fatalf("seed %d: not bounded: %d", seed, len(j.DueWebhooks(l)))
			}
		}
	}
}

// Dead webhooks and those not due cost nothing, however many there are, and a scan asks no more often than it finds.
func TestScanCostsOnlyWhatItFinds(t *testing.T) {
	c := calling{t, blank()}
	for range 500 {
		c.tried(c.ended("dead.test", began), run.NotifyDead, began)
		c.tried(c.ended("later.test", began), run.NotifyFailed, began.Add(time.Hour))
		c.ended("full.test", began)
		c.ended("due.test", began.Add(time.Second))
	}
	if n := len(c.f.Webhooks.Hosts.of["full.test"].queue); len(c.f.Webhooks.Hosts.of) != 3 || n != 500 {
		t.Fatalf("%d receivers, %d due to one", len(c.f.Webhooks.Hosts.of), n)
	}
	rooms, looked := 0, 0
	l := all(began.Add(time.Minute))
	l.Limit = 10
	l.Capacity = func(host string) int {
		rooms++
		if host == "full.test" {
			return 0
		}
		return 4
	}
	l.Skip = func(Webhook) bool { looked++; return false }
	got := over(c.f).DueWebhooks(l)
	if len(got) != 4 || rooms != 2 || looked != 4 ||
		slices.ContainsFunc(got, func(h Webhook) bool { return h.Host != "due.test" }) {
		t.Errorf("%d found, %d receivers and %d callbacks looked at", len(got), rooms, looked)
	}
}
