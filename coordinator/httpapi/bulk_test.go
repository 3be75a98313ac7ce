package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"ao/coordinator/runs"
)

// endless does what is asked of many for as long as its caller waits.
type endless struct{ Bulk }

func (endless) StopAll(ctx context.Context, _ runs.Selection, _ bool) (runs.BulkResult, error) {
	<-ctx.Done()
	return runs.BulkResult{}, ctx.Err()
}

func (e endless) RetryAll(ctx context.Context, _ runs.RetrySelection) (runs.BulkResult, error) {
	return e.StopAll(ctx, runs.Selection{}, false)
}

func (e endless) RedeliverAll(ctx context.Context, m runs.Selection) (runs.BulkResult, error) {
	return e.StopAll(ctx, m, false)
}

// TestBulkCallsEndWithTheirCaller: the runs are selected for as long as the caller waits.
func TestBulkCallsEndWithTheirCaller(t *testing.T) {
	for _, path := range []string{"/runs/stop", "/runs/retry", "/callbacks/redeliver"} {
		synctest.Test(t, func(t *testing.T) {
			a := New(Config{Bulk: endless{}, Positions: nowhere{}})
			ctx, hangUp := context.WithCancel(t.Context())
			ended := false
			go func() {
				body := strings.NewReader(`{"agent_name":"a"}`)
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1"+path, body)
				a.ServeHTTP(httptest.NewRecorder(), r)
				ended = true
			}()
			synctest.Wait()
			hangUp()
			synctest.Wait()
			if !ended {
				t.Fatalf("%s goes on", path)
			}
		})
	}
}
