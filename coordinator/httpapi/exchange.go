package httpapi

import (
	"cmp"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/budget"

	"github.com/gin-gonic/gin"
)

// exchange is the state of a request, carried in its context.
type exchange struct {
	budget.Answering
	who        access.Caller
	body, work budget.Account
	waited     time.Duration
	note       note
}

type exchangeKey struct{}

// Value implements context.Context.
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Answering.Value(key)
}

// exchangeOf returns a request's exchange. Without the middleware, the caller may do nothing.
func exchangeOf(g *gin.Context) *exchange {
	if x, ok := g.Request.Context().Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// newExchange starts a request's exchange; close releases its memory.
func newExchange(g *gin.Context) *exchange {
	x := &exchange{}
	x.Context = g.Request.Context()
	g.Request = g.Request.WithContext(x)
	return x
}

// setMemory gives a request its memory account, once the caller is known.
func (x *exchange) setMemory(m *budget.Memory) {
	who := x.who.Owner()
	x.body.Begin(m.Requests, who)
	x.work.Begin(m.Work, who)
	x.Answer.Begin(m.Answers, who)
}

// free releases the memory of the body, which has been stored.
func (x *exchange) free() {
	x.body.Empty()
	x.work.Empty()
}

// close releases everything at the end of the request.
func (x *exchange) close() {
	x.body.Close()
	x.work.Close()
	x.Answer.Close()
}

// caller returns the authenticated caller.
func caller(g *gin.Context) access.Caller { return exchangeOf(g).who }

// pattern returns the matched route, never what the caller sent.
func pattern(g *gin.Context) string { return cmp.Or(g.FullPath(), "unknown") }

func requestID(g *gin.Context) string {
	if id := g.Writer.Header()["X-Request-Id"]; len(id) > 0 {
		return id[0]
	}
	return ""
}
