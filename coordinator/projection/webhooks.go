package projection

import (
	"container/heap"
	"net/url"
	"strings"
	"time"
)

func (h *hook) when() time.Time     { return h.next }
func (h *hook) put(i int)           { h.place = i }
func (r *receiver) when() time.Time { return r.owed[0].next }
func (r *receiver) put(i int)       { r.place = i }

// add queues a callback that is owed.
func (rs *receivers) add(h *hook) {
	to := rs.of[h.host]
	if to == nil {
		if rs.of == nil {
			rs.of = map[string]*receiver{}
		}
		to = &receiver{host: h.host, owed: queue[*hook]{h}}
		h.to, h.place, rs.of[h.host] = to, 0, to
		heap.Push(&rs.first, to)
		return
	}
	h.to = to
	heap.Push(&to.owed, h)
	heap.Fix(&rs.first, to.place)
}

// remove takes one out that may be queued. A time changes only outside the queue.
func (rs *receivers) remove(h *hook) {
	if h == nil || h.to == nil {
		return
	}
	to := h.to
	h.to = nil
	heap.Remove(&to.owed, h.place)
	if len(to.owed) > 0 {
		heap.Fix(&rs.first, to.place)
		return
	}
	heap.Remove(&rs.first, to.place)
	delete(rs.of, to.host)
}

// promise is the end of a run that somebody wants to hear of.
func (ws *webhooks) promise(r *row, m Record) {
	h := &hook{row: r, next: m.Time, host: ws.scan.name([]byte(hostOf(r.live.snap.Spec.CallbackURL)))}
	ws.of[r] = h
	ws.hosts.add(h)
}

// release forgets a run's HTTP callback.
func (ws *webhooks) release(r *row) {
	ws.hosts.remove(ws.of[r])
	delete(ws.of, r)
}

func hostOf(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// Hook is an HTTP callback that is to be tried.
type Webhook struct {
	RunID, SessionID string
	Host             string // whom it goes to, with the port
	N                int    // of its newest record
	Tries            int
	Next             time.Time // when to try again
}

func (h *hook) shown() Webhook {
	return Webhook{h.row.runID(), h.row.session.sessionID(), h.host, h.n, h.tries, h.next}
}

// Look is what somebody wants who makes tries. Its functions are called with the fold locked: they look at copies.
type WebhookQuery struct {
	Now      time.Time
	Limit    int                   // at most so many
	Capacity func(host string) int // at most so many of one receiver
	Skip     func(Webhook) bool    // not these
}

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, k int) bool { return q[i].when().Before(q[k].when()) }
func (q queue[T]) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].put(i)
	q[k].put(k)
}

// Push and Pop are those of container/heap.
func (q *queue[T]) Push(x any) {
	x.(T).put(len(*q))
	*q = append(*q, x.(T))
}

func (q *queue[T]) Pop() any {
	var none T
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = none
	*q = (*q)[:last]
	return x
}

// walk goes along a queue in the order of time, until f says false, and changes nothing: it costs what it visits.
func (q queue[T]) walk(f func(T) bool) {
	if len(q) == 0 {
		return
	}
	for e := (&edge[T]{q, []int{0}}); len(e.at) > 0; {
		i := heap.Pop(e).(int)
		if !f(q[i]) {
			return
		}
		for next := 2*i + 1; next <= 2*i+2 && next < len(q); next++ {
			heap.Push(e, next)
		}
	}
}

// edge is where a walk can go on: a heap of places in a queue.
type edge[T timed] struct {
	q  queue[T]
	at []int
}

func (e *edge[T]) Len() int           { return len(e.at) }
func (e *edge[T]) Less(i, k int) bool { return e.q.Less(e.at[i], e.at[k]) }
func (e *edge[T]) Swap(i, k int)      { e.at[i], e.at[k] = e.at[k], e.at[i] }
func (e *edge[T]) Push(x any)         { e.at = append(e.at, x.(int)) }
func (e *edge[T]) Pop() any {
	last := len(e.at) - 1
	x := e.at[last]
	e.at = e.at[:last]
	return x
}
