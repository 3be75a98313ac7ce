package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"ao/coordinator/budget"
	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// A body has bodyPatience to arrive, and a second more for each bodyPace bytes that came: one that stalls is given up
// soon.
const (
	bodyTimeout = 15 * time.Second
	bodyRate    = 256 << 10
)

// memoryTimeout is how long a large body waits until those before it are checked and stored.
const memoryTimeout = 30 * time.Second

// intake reads bodies.
type intake struct {
	limit int64  // bytes of a body
	by    string // what sets the limit, as the refusal says it
}

// body reads a request's body, within limits of size, memory and time. Memory is taken for what came, never for what
// was announced.
func (in *intake) body(g *gin.Context) ([]byte, error) {
	r := g.Request
	tooLarge := func() error {
		g.Writer.Header().Set("Connection", "close")
		return fault.Newf(fault.TooLarge, "The body is larger than the %d bytes that are allowed%s", in.limit,
			in.by).With("limit", in.limit)
	}
	if r.ContentLength > in.limit {
		return nil, tooLarge()
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, fault.Newf(fault.Invalid, "Content-Encoding %.40q is not understood; send the body as it is",
			e).With("field", "Content-Encoding")
	}
	c := http.NewResponseController(g.Writer)
	x := exchangeOf(g)
	raw, err := receive(&x.body, c, http.MaxBytesReader(g.Writer, r.Body, in.limit), r.ContentLength, in.limit)
	if err == nil { // else what is left has no more time than that
		_ = c.SetReadDeadline(time.Time{})
	}
	if err == nil && len(raw) > budget.Small {
		err = x.work.Wait(r.Context(), int64(len(raw)), memoryTimeout)
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

// noBody refuses a body where a route takes none; an empty object is none.
func (in *intake) noBody(g *gin.Context) error {
	if g.Request.ContentLength == 0 {
		return nil
	}
	raw, err := in.body(g)
	if err != nil {
		return err
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "{}" {
		return nil
	}
	return fault.New(fault.Invalid, "", "This route takes no body; leave it out")
}

// receive reads to the end of a body of that length, -1: not known, and most bytes at most.
func receive(a *budget.Account, c *http.ResponseController, in io.Reader, length, most int64) ([]byte, error) {
	var raw []byte
	until := time.Now().Add(bodyTimeout)
	_ = c.SetReadDeadline(until)
	for paid := 0; length < 0 || int64(len(raw)) < length; {
		if len(raw) == cap(raw) {
			next := nextSize(int64(cap(raw)), length, most)
			if err := a.Take(next - int64(cap(raw))); err != nil {
				return nil, err
			}
			raw = append(make([]byte, 0, next), raw...)
		}
		n, err := in.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if more := (len(raw) - paid) / bodyRate; more > 0 {
			paid += more * bodyRate
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

// nextSize is the next size of a buffer: twice as large, and no larger than the body can be.
func nextSize(now, length, most int64) int64 {
	if length < 0 {
		length = most + 1 // to see that there is more
	}
	return min(max(2*now, 16<<10), length)
}
