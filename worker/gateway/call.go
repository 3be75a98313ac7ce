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
	*Door
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context // ends with the request and with the run
	path []string        // without the token
	body []byte
}

// hurry bounds how long a client may take to read its answer.
func (c call) hurry() {
	conn := http.NewResponseController(c.w)
	conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
	if c.Door.ctx.Err() != nil {
		conn.SetWriteDeadline(time.Now().Add(lastAnswer))
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	if errors.Is(err, context.Canceled) {
		f = fault.New(fault.Unavailable, "", "The run ended meanwhile")
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	answer(w, statuses[f.Kind], f)
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := strictjson.Encode(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"internal"}`)
	}
	send(w, status, "application/json", body)
}

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
