package state

import (
	"container/heap"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"
)

func (h *webhook) when() time.Time  { return h.Next }
func (h *webhook) put(i int)        { h.place = i }
func (r *receiver) when() time.Time { return r.queue[0].Next }
func (r *receiver) put(i int)       { r.place = i }

// add queues a webhook.
func (rs *receivers) add(h *webhook) {
	to := rs.of[h.Host]
	if to == nil {
		if rs.of == nil {
			rs.of = map[string]*receiver{}
		}
		to = &receiver{host: h.Host, queue: timeQueue[*webhook]{h}}
		h.to, h.place, rs.of[h.Host] = to, 0, to
		heap.Push(&rs.first, to)
		return
	}
	h.to = to
	heap.Push(&to.queue, h)
	heap.Fix(&rs.first, to.place)
}

// remove takes a webhook out of its queue, if it is in one. Its time may change only while it is out.
func (rs *receivers) remove(h *webhook) {
	if h == nil || h.to == nil {
		return
	}
	to := h.to
	h.to = nil
	heap.Remove(&to.queue, h.place)
	if len(to.queue) > 0 {
		heap.Fix(&rs.first, to.place)
		return
	}
	heap.Remove(&rs.first, to.place)
	delete(rs.of, to.host)
}

// add starts the webhook of a run that ended.
func (ws *webhooks) add(r *Row, m Record) {
	h := &webhook{row: r, Next: m.Time, Host: ws.scan.Name([]byte(hostOf(r.live.snap.Spec.CallbackURL)))}
	ws.of[r] = h
	ws.Hosts.add(h)
}

// remove forgets a run's webhook.
func (ws *webhooks) remove(r *Row) {
	ws.Hosts.remove(ws.of[r])
	delete(ws.of, r)
}

func hostOf(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// Webhook is a webhook that is to be delivered.
type Webhook struct {
	RunID, SessionID string
	Host             string // its receiver, with the port
	N                int    // of its newest record
	Tries            int
	Next             time.Time // when to try again
}

// Shown returns a copy.
func (h *webhook) Shown() Webhook {
	return Webhook{h.row.ID(), h.row.session.ID(), h.Host, h.N, h.Tries, h.Next}
}

func (q timeQueue[T]) Len() int           { return len(q) }
func (q timeQueue[T]) Less(i, k int) bool { return q[i].when().Before(q[k].when()) }
func (q timeQueue[T]) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].put(i)
	q[k].put(k)
}

// Push and Pop implement container/heap.
func (q *timeQueue[T]) Push(x any) {
	x.(T).put(len(*q))
	*q = append(*q, x.(T))
}

func (q *timeQueue[T]) Pop() any {
	var none T
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = none
	*q = (*q)[:last]
	return x
}

// walk calls f along a queue in the order of time, until f returns false. It changes nothing, and costs what it visits.
func (q timeQueue[T]) walk(f func(T) bool) {
	if len(q) == 0 {
		return
	}
	for ahead := []int{0}; len(ahead) > 0; { // positions where the walk can continue, the earliest last
		i := ahead[len(ahead)-1]
		ahead = ahead[:len(ahead)-1]
		if !f(q[i]) {
			return
		}
		for next := 2*i + 1; next <= 2*i+2 && next < len(q); next++ {
			at := sort.Search(len(ahead), func(k int) bool { return !q.Less(next, ahead[k]) })
			ahead = slices.Insert(ahead, at, next)
		}
	}
}

// Count adds the webhooks to a backlog.
func (ws *webhooks) Count(d *CallbackBacklog) {
	for _, to := range ws.Hosts.first {
		d.Webhooks += len(to.queue)
	}
	if len(ws.Hosts.first) > 0 {
		d.Due = ws.Hosts.first[0].when()
	}
	d.Dead = len(ws.of) - d.Webhooks
}

// Due returns webhooks whose time has come: of each receiver the longest overdue ones.
func (rs *receivers) Due(l WebhookQuery) (due []Webhook) {
	rs.first.walk(func(to *receiver) bool {
		if len(due) >= l.Limit || to.when().After(l.Now) {
			return false
		}
		room := min(l.Capacity(to.host), l.Limit-len(due))
		if room <= 0 {
			return true
		}
		to.queue.walk(func(h *webhook) bool {
			if h.Next.After(l.Now) {
				return false
			}
			if d := h.Shown(); !l.Skip(d) {
				due = append(due, d)
				room--
			}
			return room > 0
		})
		return true
	})
	return due
}

// Of returns a run's webhook that is pending or dead; nil: it has none.
func (ws *webhooks) Of(r *Row) *webhook { return ws.of[r] }

// WebhookQuery selects due webhooks. Its functions are called under the lock, with copies.
type WebhookQuery struct {
	Now      time.Time
	Limit    int                   // at most so many
	Capacity func(host string) int // at most so many of one receiver
	Skip     func(Webhook) bool    // not these
}
