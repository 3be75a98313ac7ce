package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// call is a request of a run, with its body read.
type call struct {
	*Endpoint
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context // ends with the request and with the run
	path []string        // path segments after the token
	body []byte
}

// setWriteDeadline bounds how long a client may take to read the response.
func (c call) setWriteDeadline() {
	conn := http.NewResponseController(c.w)
	conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
	if c.Endpoint.ctx.Err() != nil {
		conn.SetWriteDeadline(time.Now().Add(finalWriteTimeout))
	}
}

func writeError(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	if errors.Is(err, context.Canceled) {
		f = fault.New(fault.Unavailable, "", "the run ended before this request did")
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	writeJSON(w, f.Kind.Status(), f)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := strictjson.Encode(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"internal"}`)
	}
	write(w, status, "application/json", body)
}

func write(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
