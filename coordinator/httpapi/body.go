package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/budget"
	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// A body has bodyPatience to arrive, and a second more for each bodyPace bytes that came: one that stalls is given up soon.
const (
	bodyPatience = 15 * time.Second
	bodyPace     = 256 << 10
)

// workPatience is how long a large body waits until those before it are checked and stored.
const workPatience = 30 * time.Second

// exchange is what the door keeps with a request, as its context: who asks, what it has of the memory for bodies, and for how long it waited
// for a run, which is the run's time and not the request's.
type exchange struct {
	budget.Answering
	who        access.Caller
	body, work budget.Account
	waited     time.Duration
}

type exchangeKey struct{}

// Value is a context's.
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Answering.Value(key)
}

// of is a request's exchange; one that passed no door is nobody's, who may do nothing.
func of(g *gin.Context) *exchange {
	if x, ok := g.Request.Context().Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// enter opens a request's exchange; close gives its memory back.
func enter(g *gin.Context) *exchange {
	x := &exchange{}
	x.Context = g.Request.Context()
	g.Request = g.Request.WithContext(x)
	return x
}

// lend gives a request its accounts, once it is known whose they are.
func (x *exchange) lend(m *budget.Memory) {
	who := x.who.Keys()
	x.body.Begin(m.Requests, who)
	x.work.Begin(m.Work, who)
	x.Answer.Begin(m.Answers, who)
}

// spent gives back what a body took: it is stored, and nobody holds it any more.
func (x *exchange) spent() {
	x.body.Empty()
	x.work.Empty()
}

// close gives back everything, at the request's end.
func (x *exchange) close() {
	x.body.Close()
	x.work.Close()
	x.Answer.Close()
}

// body reads a request's body, within limits of size, memory and time. Memory is taken for what came, never for what was announced.
func (a *API) body(g *gin.Context) ([]byte, error) {
	r := g.Request
	tooLarge := func() error {
		g.Writer.Header().Set("Connection", "close")
		return fault.Newf(fault.TooLarge, "The body is larger than the %d bytes that are allowed (AO_MAX_PAYLOAD)", a.limit).With("limit", a.limit)
	}
	if r.ContentLength > a.limit {
		return nil, tooLarge()
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, fault.Newf(fault.Invalid, "Content-Encoding %.40q is not understood; send the body as it is", e).With("field", "Content-Encoding")
	}
	c := http.NewResponseController(g.Writer)
	x := of(g)
	raw, err := receive(&x.body, c, http.MaxBytesReader(g.Writer, r.Body, a.limit), r.ContentLength, a.limit)
	if err == nil { // else what is left has no more time than that
		_ = c.SetReadDeadline(time.Time{})
	}
	if err == nil && len(raw) > budget.Small {
		err = x.work.Wait(r.Context(), int64(len(raw)), workPatience)
	}
	if err == nil {
		return raw, nil
	}
	g.Writer.Header().Set("Connection", "close")
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if fault.KindOf(err) == fault.Unavailable {
		return nil, err
	}
	return nil, fault.Wrap(fault.Invalid, "", "The body did not arrive as a whole; send it again", err)
}

// receive reads to the end of a body of that length, -1: not known, and most bytes at most.
func receive(a *budget.Account, c *http.ResponseController, in io.Reader, length, most int64) ([]byte, error) {
	var raw []byte
	until := time.Now().Add(bodyPatience)
	_ = c.SetReadDeadline(until)
	for paid := 0; length < 0 || int64(len(raw)) < length; {
		if len(raw) == cap(raw) {
			next := grown(int64(cap(raw)), length, most)
			if err := a.Take(next - int64(cap(raw))); err != nil {
				return nil, err
			}
			raw = append(make([]byte, 0, next), raw...)
		}
		n, err := in.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if more := (len(raw) - paid) / bodyPace; more > 0 {
			paid += more * bodyPace
			until = until.Add(time.Duration(more) * time.Second)
			_ = c.SetReadDeadline(until)
		}
		switch {
		case err == io.EOF && int64(len(raw)) < length:
			return nil, io.ErrUnexpectedEOF
		case err == io.EOF:
			return raw, nil
		case err != nil:
			return nil, err
		}
	}
	return raw, nil
}

// grown is the next size of a buffer: twice as large, and no larger than the body can be.
func grown(now, length, most int64) int64 {
	if length < 0 {
		length = most + 1 // to see that there is more
	}
	return min(max(2*now, 16<<10), length)
}
