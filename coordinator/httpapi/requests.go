package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
	"ao/shared/share"

	"github.com/gin-gonic/gin"
)

// Limits of requests that need no token: how many are in progress, and how long their bodies may take.
const (
	maxOpenRequests = 256
	openBodyTimeout = 5 * time.Second
)

func noPlace() {}

// requests are the requests in progress. Each owner may have as many as are free: a token, a session's tree, or an
// address where no token is required.
type requests struct {
	known *share.Pool // on routes that need a token
	open  *share.Pool // on others, so that they leave the rest alone
}

func newRequests(most int) *requests {
	open := max(2, min(maxOpenRequests, most/8))
	return &requests{share.New(int64(max(2, most-open)), share.Free), share.New(int64(open), share.Free)}
}

// alwaysAnswered are the routes that need no place: they tell whether this coordinator works.
func alwaysAnswered(route string) bool { return route == "/health" || route == "/ready" }

// enter takes a place for a request, until leave is called, which is never nil.
func (q *requests) enter(g *gin.Context) (leave func(), err error) {
	route := g.FullPath()
	if alwaysAnswered(route) {
		return noPlace, nil
	}
	pool, owner := q.known, caller(g).Owner()
	if access.RuleOf(g.Request.Method, route).Scope == access.Open {
		pool = q.open
		if g.Request.ContentLength != 0 {
			_ = http.NewResponseController(g.Writer).SetReadDeadline(time.Now().Add(openBodyTimeout))
		}
	}
	if pool.Take(owner, 1) {
		return func() { pool.Give(owner, 1) }, nil
	}
	if mine := pool.Of(owner); mine > 0 {
		return noPlace, fault.New(fault.Busy, "too_many_requests", fmt.Sprintf("your share is used up: %d of your "+
			"requests are in progress, and %d of %d places are free (AO_MAX_CONNECTIONS); a caller may have as many "+
			"as are free. Wait until some have ended", mine, max(pool.Room()-pool.Taken(), 0),
			pool.Room())).After(2 * time.Second)
	}
	return noPlace, fault.New(fault.Unavailable, "",
		"Too many requests are in progress (AO_MAX_CONNECTIONS); try again later").After(2 * time.Second)
}
