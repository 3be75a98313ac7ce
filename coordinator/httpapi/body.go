package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

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

// accounts is what a request has of the memory for bodies.
type accounts struct{ body, work, answer *budget.Account }

const accountsKey = "accounts"

// lend opens the request's accounts. What it gives closes them.
func (a *API) lend(g *gin.Context) (giveBack func()) {
	who, m := caller(g).Keys(), a.cfg.Memory
	all := &accounts{m.Requests.Open(who), m.Work.Open(who), m.Answers.Open(who)}
	g.Set(accountsKey, all)
	g.Request = g.Request.WithContext(budget.Answering(g.Request.Context(), all.answer))
	return func() {
		all.body.Close()
		all.work.Close()
		all.answer.Close()
	}
}

// lent is what a request has.
func lent(g *gin.Context) *accounts {
	v, _ := g.Get(accountsKey)
	all, ok := v.(*accounts)
	if !ok {
		return &accounts{}
	}
	return all
}

// spent gives back what a body took: it is stored, and nobody holds it any more.
func spent(g *gin.Context) {
	all := lent(g)
	all.body.Empty()
	all.work.Empty()
}

// body reads a request's body, within limits of size, memory and time. Memory is taken for what came, never for what was announced.
func (a *API) body(g *gin.Context) ([]byte, error) {
	r := g.Request
	tooLarge := func() error {
		g.Writer.Header().Set("Connection", "close")
		return fault.Newf(fault.TooLarge, "The body is larger than the %d bytes that are allowed (AO_MAX_PAYLOAD)", a.limit)
	}
	if r.ContentLength > a.limit {
		return nil, tooLarge()
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, fault.Newf(fault.Invalid, "Content-Encoding %.40q is not understood; send the body as it is", e).With("field", "Content-Encoding")
	}
	c := http.NewResponseController(g.Writer)
	all := lent(g)
	raw, err := receive(all.body, c, http.MaxBytesReader(g.Writer, r.Body, a.limit), r.ContentLength, a.limit)
	if err == nil { // else what is left has no more time than that
		_ = c.SetReadDeadline(time.Time{})
	}
	if err == nil && len(raw) > budget.Small {
		err = all.work.Wait(r.Context(), int64(len(raw)), workPatience)
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
