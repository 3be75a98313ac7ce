package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/projection/query"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// half is a history that is gone after one page.
type half struct {
	others
	pages int
}

type others Runs

func (h *half) Runs(context.Context, query.Query) (query.Page, error) {
	if h.pages++; h.pages > 1 {
		return query.Page{}, fault.New(fault.Unavailable, "", "NATS is not reachable")
	}
	return query.Page{Runs: []run.Run{{ID: "run_1"}}, Next: "more"}, nil
}

// TestIncompleteExport: what cannot be read to its end is cut off, so that nobody takes it for a whole file.
func TestIncompleteExport(t *testing.T) {
	for _, tt := range []struct {
		format string
		pages  int
		whole  bool
	}{{"csv", 0, false}, {"csv", 1, true}, {"ndjson", 0, false}, {"ndjson", 1, true}} {
		s := httptest.NewServer(New(Config{Runs: &half{pages: tt.pages}, Positions: nowhere{}, Log: slog.New(
			slog.NewTextHandler(t.Output(), nil))}))
		res, err := http.Get(s.URL + "/runs?format=" + tt.format)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if (err == nil) != tt.whole || tt.whole && res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s after %d pages: %v, %v", tt.format, 1-tt.pages, res, err)
		}
		s.Close()
	}
}

type nowhere struct{ Positions }

func (nowhere) Position() uint64 { return 0 }

// TestExportsLeaveOthersTheirShare: a slow reader gets half of the exports at once. Then it waits briefly, and another
// is not kept out.
func TestExportsLeaveOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &runsAPI{exports: newExports()}
		for range exportAtOnce / 2 {
			if _, err := a.exports.reserve(t.Context(), access.Unauthenticated); err != nil {
				t.Fatal(err)
			}
		}
		g, _ := gin.CreateTestContext(httptest.NewRecorder())
		g.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs?format=csv", nil)
		began := time.Now()
		_, err := a.export(g, request{params: params{values: url.Values{}}}, exports[formatCSV])
		if f := fault.Of(err); f.Kind != fault.Unavailable || f.RetryAfter == 0 || time.Since(began) != placeTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := a.exports.reserve(t.Context(), access.SessionCaller("another")); err != nil {
			t.Errorf("another's export: %v", err)
		}
	})
}
