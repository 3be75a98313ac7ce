package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// handler returns what a route answers, or an error. Only streams write themselves; they return written.
type handler func(*gin.Context) (any, error)

// reply is an answer with its own status, location or body.
type reply struct {
	status   int
	location string // header Location
	body     any    // nil: none
}

// written is returned by a handler that has answered itself.
type written struct{}

// answers writes what handlers return.
type answers struct {
	audit *recorder
	log   *slog.Logger
}

// of returns the gin handler of a handler.
func (a *answers) of(ok int, f handler) gin.HandlerFunc {
	return func(g *gin.Context) {
		v, err := f(g)
		if err != nil {
			a.refuse(g, err)
			return
		}
		switch v := v.(type) {
		case written:
		case reply:
			a.write(g, v)
		case download:
			a.file(g, v)
		default:
			a.write(g, reply{status: ok, body: v})
		}
	}
}

// clientClosed is the status in the log where the caller disconnected before the answer.
const clientClosed = 499

// refuse writes an error. Unclassified errors are logged and not shown.
func (a *answers) refuse(g *gin.Context, err error) {
	f := problem(g, err)
	a.audit.refused(g, f.Code)
	if g.Request.Context().Err() != nil && f.Kind != fault.Invalid {
		g.Status(clientClosed)
		return
	}
	switch f.Kind {
	case fault.Internal:
		a.log.Error("request failed", "request", requestID(g), "route", pattern(g), "err", err)
	case fault.Unavailable:
		a.log.Warn("request refused", "request", requestID(g), "route", pattern(g), "err", err)
	}
	if f.Kind == fault.Unavailable || f.Kind == fault.Busy {
		seconds := int64((max(f.RetryAfter, time.Second) + time.Second - 1) / time.Second)
		g.Writer.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	a.write(g, reply{status: f.Kind.Status(), body: f})
}

func (a *answers) noRoute(g *gin.Context) {
	a.refuse(g, fault.Newf(fault.NotFound, "There is no route %.80q; GET / lists the routes", g.Request.URL.Path))
}

func (a *answers) noMethod(g *gin.Context) {
	say := fmt.Sprintf("%.10s is not possible here; possible: %s", g.Request.Method, g.Writer.Header().Get("Allow"))
	a.write(g, reply{status: http.StatusMethodNotAllowed, body: fault.New(fault.Invalid, "method_not_allowed", say)})
}

var (
	buffers  = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	jsonType = []string{"application/json"}
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
)

// write writes every answer and encodes it once.
func (a *answers) write(g *gin.Context, r reply) {
	h := g.Writer.Header()
	if r.location != "" {
		h.Set("Location", r.location)
	}
	if r.body == nil {
		g.Writer.WriteHeader(r.status)
		g.Writer.WriteHeaderNow()
		return
	}
	b := buffers.Get().(*bytes.Buffer)
	defer recycle(b)
	if err := encode(b, r.body); err != nil {
		a.log.Error("answer cannot be encoded", "request", requestID(g), "route", pattern(g), "err", err)
		b.Reset()
		r.status = http.StatusInternalServerError
		_ = encode(b, fault.Of(err))
	}
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(b.Len())}
	g.Writer.WriteHeader(r.status)
	if err := send(g.Writer, b.Bytes()); err != nil {
		a.log.Debug("answer not taken", "request", requestID(g), "err", err)
	}
}

// encode writes v as JSON on one line, without HTML escapes. Frequent types encode themselves.
func encode(b *bytes.Buffer, v any) error {
	if v, ok := v.(strictjson.Appender); ok {
		raw, err := v.AppendJSON(b.AvailableBuffer())
		if err == nil {
			b.Write(append(raw, '\n'))
		}
		return err
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// recycle returns a buffer to the pool unless it has grown large.
func recycle(b *bytes.Buffer) {
	if b.Cap() <= 1<<20 {
		b.Reset()
		buffers.Put(b)
	}
}

// Deadlines of slow readers, per piece.
const (
	writeTimeout = 30 * time.Second
	writeChunk   = 256 << 10
)

// send writes in pieces, each with its own deadline.
func send(w http.ResponseWriter, b []byte) error {
	c := http.NewResponseController(w)
	for len(b) > 0 {
		n := min(len(b), writeChunk)
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails for connections without deadlines
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
