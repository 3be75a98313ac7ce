package openai

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"
)

// TestAStreamThatIsNotClosed: the answer counts soon after its end, whatever the endpoint does with the connection.
func TestAStreamThatIsNotClosed(t *testing.T) {
	const (
		hi     = `{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`
		finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage  = `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	)
	for _, tt := range []struct {
		name   string
		events []string // one every 8 s; then only comments come
		want   string   // text, output tokens, time
	}{
		{"a finish reason", []string{hi, finish}, "Hi 0 26s"},
		{"a finish reason, then the usage", []string{hi, finish, usage}, "Hi 2 34s"},
		{"[DONE] as well", []string{hi, finish, usage, "[DONE]"}, "Hi 2 32s"},
		{"only the usage", []string{hi, usage}, "Hi 2 26s"},
		{"more after the usage", []string{hi, usage, hi, finish}, "HiHi 2 42s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := endpoint.NewClient(5 * time.Minute)
				client.HTTP().Transport = events(tt.events)
				m := New(Config{BaseURL: "http://model.example", Client: client})
				start := time.Now()
				r, err := m.Ask(t.Context(), chat.Request{Model: "m"}, silent{})
				got := fmt.Sprintf("%s %d %v", r.Message.Text(), r.Usage.Output, time.Since(start))
				if err != nil || got != tt.want {
					t.Errorf("got %s %v, want %s", got, err, tt.want)
				}
			})
		})
	}
}

// events answers with a stream of events, which stays open until the request is canceled.
type events []string

func (e events) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	go func() {
		for i := 0; ; i++ {
			select {
			case <-r.Context().Done():
				w.CloseWithError(r.Context().Err())
				return
			case <-time.After(8 * time.Second):
			}
			line := ": still here"
			if i < len(e) {
				line = "data: " + e[i]
			} else if i > 100 {
				w.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			fmt.Fprint(w, line+"\n\n")
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}}, nil
}

type silent struct{}

func (silent) Text(string) error { return nil }
func (silent) End()              {}
