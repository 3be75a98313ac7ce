package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"ao/shared/fault"
)

// stateClient stores a program's state at its gateway.
type stateClient struct {
	url    string
	client *http.Client
}

// connectState sets a program's LoadState and SaveState; both stay nil without a gateway.
func connectState(h *Host) {
	if h.URL == "" {
		return
	}
	k := stateClient{h.URL + "/state", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	h.LoadState = func(ctx context.Context) ([]byte, error) { return k.request(ctx, http.MethodGet, nil) }
	h.SaveState = func(ctx context.Context, state []byte) error {
		_, err := k.request(ctx, http.MethodPut, state)
		return err
	}
}

// request sends a request to the gateway, and retries while that is busy. The reply is nil if there is no state.
func (k stateClient) request(ctx context.Context, method string, body []byte) ([]byte, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, method, k.url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		a, err := k.client.Do(req)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		} else if err != nil {
			// without its URL, which is a secret
			return nil, fmt.Errorf("the worker's gateway does not answer: %w", errors.Unwrap(err))
		}
		all, err := io.ReadAll(a.Body)
		a.Body.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the worker's gateway: %w", err)
		case a.StatusCode == http.StatusNoContent:
			return nil, nil
		case a.StatusCode == http.StatusOK:
			return all, nil
		case a.StatusCode != http.StatusTooManyRequests:
			f := fault.New(fault.Internal, "", "")
			if json.Unmarshal(all, f) != nil || f.Message == "" {
				return nil, fmt.Errorf("the worker's gateway answers %s to %s", a.Status, method)
			}
			return nil, f
		}
		seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
		t := time.NewTimer(time.Duration(max(seconds, 1)) * time.Second)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}
