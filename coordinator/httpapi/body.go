package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"ao/coordinator/budget"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// A body must arrive within bodyTimeout, which the server sets, plus a second for each bodyRate bytes that came.
const (
	bodyTimeout = 15 * time.Second
	bodyRate    = 256 << 10
)

// memoryTimeout is how long a large body waits for memory.
const memoryTimeout = 30 * time.Second

// intake reads bodies.
type intake struct {
	limit int64  // bytes of a body
	by    string // what sets the limit, for the refusal
}

// body reads a request's body within limits of size, memory and time. Memory is reserved for bytes that came, not for
// the announced length.
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
		return nil, fault.Newf(fault.Invalid, "Content-Encoding %.40q is not supported; send the body without it",
			e).With("field", "Content-Encoding")
	}
	x := exchangeOf(g)
	raw, err := receive(&x.body, g.Writer, http.MaxBytesReader(g.Writer, r.Body, in.limit), r.ContentLength, in.limit)
	if err == nil && len(raw) > budget.Small {
		err = x.work.Wait(r.Context(), int64(len(raw)), memoryTimeout)
	}
	if err == nil {
		return strictjson.TrimBOM(raw), nil
	}
	g.Writer.Header().Set("Connection", "close")
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if fault.KindOf(err) == fault.Unavailable {
		return nil, err
	}
	return nil, fault.Wrap(fault.Invalid, "", "The body arrived incomplete; send it again", err)
}

// noBody refuses a body, except an empty object.
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
	return fault.New(fault.Invalid, "", "This route takes no body; omit it")
}

// receive reads a body of the given length, -1 if unknown, and of at most most bytes.
func receive(a *budget.Account, w http.ResponseWriter, in io.Reader, length, most int64) ([]byte, error) {
	var raw []byte
	until := time.Now().Add(bodyTimeout)
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
		// At the end net/http has cleared the deadline, and a new one would look like a disconnect.
		if more := (len(raw) - paid) / bodyRate; more > 0 && err == nil {
			paid += more * bodyRate
			until = until.Add(time.Duration(more) * time.Second)
			_ = http.NewResponseController(w).SetReadDeadline(until)
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

// nextSize returns the next size of a buffer: twice as large, at most the body's.
func nextSize(now, length, most int64) int64 {
	if length < 0 {
		length = most + 1 // to see that there is more
	}
	return min(max(2*now, 16<<10), length)
}
