package ao_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	ao "ao/shared/clients/go"
)

// coordinator stands for a real one: it knows one run, which has ended.
func coordinator() *httptest.Server {
	const ended = `{"run_id":"run_1","session_id":"ses_1","status":"completed","result":{"result_text":"4 lines"}}`
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"pending"}`)
	})
	mux.HandleFunc("GET /runs/run_1", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, ended) })
	mux.HandleFunc("GET /runs/run_1/wait", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, ended) })
	mux.HandleFunc("GET /sse/sessions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: 0-1\nevent: event\ndata: {\"event_type\":\"run_start\",\"run_id\":\"run_1\"}\n\n"+
			"id: 0-2\nevent: event\ndata: {\"event_type\":\"run_completed\",\"run_id\":\"run_1\"}\n\n")
	})
	mux.HandleFunc("GET /runs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Ao-Position", "0-2")
		io.WriteString(w, `{"runs":[{"run_id":"run_1","status":"running"}]}`)
	})
	mux.HandleFunc("GET /sse/runs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		const ended = `{"runs":[{"run_id":"run_1","status":"completed"}]}`
		io.WriteString(w, "id: 0-3\nevent: runs\ndata: "+ended+"\n\n"+
			"id: 0-4\nevent: runs\ndata: {\"deleted\":[\"run_1\"]}\n\n")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":"not_found","message":"there is no such run"}`)
	})
	return httptest.NewServer(mux)
}

// A run is started and waited for, also across lost connections.
func ExampleClient_Run() {
	server := coordinator()
	defer server.Close()
	client := ao.New(ao.Config{URL: server.URL})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run, err := client.Run(ctx, ao.Request{AgentName: "text-stats", Parameters: map[string]string{"file": "README.md"}})
	var failed *ao.RunError
	if errors.As(err, &failed) {
		fmt.Println("the run failed:", failed.Code)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Status, run.Result.Text)
	// Output: completed 4 lines
}

// Events come one by one until the run has ended.
func ExampleClient_Events() {
	server := coordinator()
	defer server.Close()
	client := ao.New(ao.Config{URL: server.URL})
	for event, err := range client.Events(context.Background(), "run_1", "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event.Position, event.Type)
	}
	// Output:
	// 0-1 run_start
	// 0-2 run_completed
}

// A list of runs is read, then each of its changes.
func ExampleClient_WatchRuns() {
	server := coordinator()
	defer server.Close()
	client := ao.New(ao.Config{URL: server.URL})
	enough := errors.New("enough")
	list := ao.RunWatch{Filters: url.Values{"agent_name": {"text-stats"}}, First: 20, Again: 1000}
	err := client.WatchRuns(context.Background(), list, func(c ao.RunChanges) error {
		for _, doc := range c.Runs {
			fmt.Println(c.Page, string(doc))
		}
		if len(c.Deleted) > 0 {
			return enough
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// true {"run_id":"run_1","status":"running"}
	// false {"run_id":"run_1","status":"completed"}
	// enough
}

// A refusal says what is wrong.
func ExampleAPIError() {
	server := coordinator()
	defer server.Close()
	_, err := ao.New(ao.Config{URL: server.URL}).Get(context.Background(), "run_2")
	var refused *ao.APIError
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, refused.Message, refused.Temporary())
	}
	// Output: not_found there is no such run false
}

// A receiver of a callback_url believes nothing that is not signed.
func ExampleVerifyWebhook() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		hook, err := ao.VerifyWebhook(body, r.Header, "whsec_c2VjcmV0")
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Println(hook.Type, hook.Run.ID) // hook.ID identifies a repeated delivery
	}))
	defer receiver.Close()
	res, err := http.Post(receiver.URL, "application/json", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output: 401 Unauthorized
}
