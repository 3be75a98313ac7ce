package httpapi

import (
	"cmp"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/budget"

	"github.com/gin-gonic/gin"
)

// exchange is what the door keeps with a request, as its context: who asks, what it has of the memory for bodies, its
// line of the audit log, and for how long it waited for a run, which is the run's time and not the request's.
type exchange struct {
	budget.Answering
	who        access.Caller
	body, work budget.Account
	waited     time.Duration
	note       note
}

type exchangeKey struct{}

// Value is a context's.
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Answering.Value(key)
}

// exchangeOf is a request's exchange; one that passed no door is nobody's, who may do nothing.
func exchangeOf(g *gin.Context) *exchange {
	if x, ok := g.Request.Context().Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// newExchange opens a request's exchange; close gives its memory back.
func newExchange(g *gin.Context) *exchange {
	x := &exchange{}
	x.Context = g.Request.Context()
	g.Request = g.Request.WithContext(x)
	return x
}

// setMemory gives a request its accounts, once it is known whose they are.
func (x *exchange) setMemory(m *budget.Memory) {
	who := x.who.KeyScope()
	x.body.Begin(m.Requests, who)
	x.work.Begin(m.Work, who)
	x.Answer.Begin(m.Answers, who)
}

// free gives back what a body took: it is stored, and nobody holds it any more.
func (x *exchange) free() {
	x.body.Empty()
	x.work.Empty()
}

// close gives back everything, at the request's end.
func (x *exchange) close() {
	x.body.Close()
	x.work.Close()
	x.Answer.Close()
}

// caller is who asks, once the door knows.
func caller(g *gin.Context) access.Caller { return exchangeOf(g).who }

// pattern is the route that matched, never what the caller sent.
func pattern(g *gin.Context) string { return cmp.Or(g.FullPath(), "unknown") }

func requestID(g *gin.Context) string {
	if id := g.Writer.Header()["X-Request-Id"]; len(id) > 0 {
		return id[0]
	}
	return ""
}
