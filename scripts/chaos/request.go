package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// answer is a coordinator's answer; code 0: none.
type answer struct {
	code int
	body []byte
	err  error
}

func (a answer) decode(v any) error {
	if a.err != nil {
		return a.err
	}
	return json.Unmarshal(a.body, v)
}

// unavailable reports whether there was no answer, or one that asks for a retry.
func (a answer) unavailable() bool {
	return a.err != nil || a.code == http.StatusServiceUnavailable || a.code == http.StatusTooManyRequests
}

var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}}

// request sends one request and reads the whole answer within the timeout.
func request(ctx context.Context, url, method, path string, body []byte, key string, timeout time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	r, err := httpClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return answer{r.StatusCode, bytes.TrimSpace(text), err}
}

// runView is a run in the API.
type runView struct {
	ID         string `json:"run_id"`
	Session    string `json:"session_id"`
	Status     string `json:"status"`
	Mode       string `json:"mode"`
	Type       string `json:"type"`
	Parent     string `json:"parent_session_id"`
	Runner     string `json:"runner_id"`
	Attempt    int    `json:"attempt"`
	Parameters struct {
		Prompt string `json:"prompt"`
	} `json:"parameters"`
	Error *struct {
		Code    string `json:"error"`
		Message string `json:"message"`
	} `json:"error"`
	Ended *time.Time `json:"completed_at"`
}

func isFinal(status string) bool {
	return status == "completed" || status == "failed" || status == "stopped"
}

// outcome returns the status; of a failed run with its error code.
func (v runView) outcome() string {
	if v.Status == "failed" && v.Error != nil {
		return "failed " + v.Error.Code
	}
	return v.Status
}
