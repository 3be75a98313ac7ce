package httpapi

import (
	"context"
	"encoding/csv"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/projection"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// A cell is never a formula, and is read back as it was but for the apostrophe.
func TestCells(t *testing.T) {
	for _, tt := range []struct{ cell, want string }{
		{"", ""},
		{"run_0192", "run_0192"},
		{"2026-01-31T12:00:00Z", `"2026-01-31T12:00:00Z"`},
		{`{"a":"x,y"}`, `"{""a"":""x,y""}"`},
		{"=1+1", `"'=1+1"`},
		{"+1", `"'+1"`},
		{"-1", `"'-1"`},
		{"@SUM(A1)", `"'@SUM(A1)"`},
		{"\t=1", "\"'\t=1\""},
		{"\r=1", "\"'\r=1\""},
		{"\n=1", "\"'\n=1\""},
		{"\x00=1", "\"'\x00=1\""},
		{"\x7f=1", "\"'\x7f=1\""},
		{" =1", `"' =1"`},
		{"\u00a0@x", "\"'\u00a0@x\""},
		{"＝1+1", `"'＝1+1"`},
		{"a;=1+1", `"a;=1+1"`},
		{`"=1`, `"""=1"`},
		{"a=1", `"a=1"`},
		{"ü", `"ü"`},
	} {
		got := string(appendCell(nil, tt.cell))
		if got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.cell, got, tt.want)
		}
		back, err := csv.NewReader(strings.NewReader("x," + got + "\n")).Read()
		bare := strings.TrimPrefix(back[1], "'")
		if err != nil || bare != strings.ReplaceAll(tt.cell, "\r\n", "\n") {
			t.Errorf("%q is read back as %q, %v", tt.cell, back, err)
		}
	}
}

// half is a history that is gone after one page.
type half struct {
	others
	pages int
}

type others Runs

func (h *half) Runs(context.Context, projection.Query) (projection.Page, error) {
	if h.pages++; h.pages > 1 {
		return projection.Page{}, fault.New(fault.Unavailable, "", "NATS is not reachable")
	}
	return projection.Page{Runs: []run.Run{{ID: "run_1"}}, Next: "more"}, nil
}

// A table that cannot be read to its end is cut off, so that nobody takes it for a whole one.
func TestHalfATable(t *testing.T) {
	for pages, whole := range map[int]bool{0: false, 1: true} {
		s := httptest.NewServer(New(Config{Runs: &half{pages: pages}, Positions: nowhere{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}))
		res, err := http.Get(s.URL + "/runs?format=csv")
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if (err == nil) != whole || whole && res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("after %d pages: %v, %v", 1-pages, res, err)
		}
		s.Close()
	}
}

type nowhere struct{ Positions }

func (nowhere) Position() uint64 { return 0 }

// TestATableWaitsForAMoment: who reads a table slowly keeps others from theirs, but does not keep them waiting.
func TestATableWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &runsAPI{tables: newSlots("tables are being read", csvAtOnce, csvAtOnce)}
		for range csvAtOnce {
			if _, err := a.tables.take(t.Context(), access.Anybody); err != nil {
				t.Fatal(err)
			}
		}
		g, _ := gin.CreateTestContext(httptest.NewRecorder())
		g.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs?format=csv", nil)
		began := time.Now()
		_, err := a.table(g, query{values: url.Values{}})
		if f := fault.Of(err); f.Kind != fault.Unavailable || f.RetryAfter == 0 || time.Since(began) != slotTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
