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

// keeper keeps a program's state where its gateway is.
type keeper struct {
	url    string
	client *http.Client
}

// remember gives a program's Host its State and Keep; both stay nil where there is no gateway.
func remember(h *Host) {
	if h.URL == "" {
		return
	}
	k := keeper{h.URL + "/state", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	h.LoadState = func(ctx context.Context) ([]byte, error) { return k.ask(ctx, http.MethodGet, nil) }
	h.SaveState = func(ctx context.Context, state []byte) error {
		_, err := k.ask(ctx, http.MethodPut, state)
		return err
	}
}

// ask asks the gateway, again while it says that this is too often. The answer is nil where there is nothing.
func (k keeper) ask(ctx context.Context, method string, body []byte) ([]byte, error) {
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
