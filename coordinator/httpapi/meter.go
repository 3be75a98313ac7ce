package httpapi

import (
	"slices"
	"strconv"
	"time"

	"ao/shared/metric"

	"github.com/gin-gonic/gin"
)

// requestLabels are the labels of requests. None of them is chosen by a caller.
type requestLabels struct {
	method, route string
	code          int
}

// methods are the labels for methods; others count as one.
var methods = []string{"GET", "HEAD", "POST", "PATCH", "DELETE"}

// meter measures requests.
type meter struct {
	durations *metric.Cache[requestLabels, *metric.Histogram] // nil: nobody counts
	endless   map[string]bool                                 // routes that are live streams
}

// newMeter makes the meter. open returns the requests in progress, and how many are live streams. r may be nil.
func newMeter(r *metric.Registry, open func() (requests, streams int64)) *meter {
	m := &meter{endless: map[string]bool{}}
	if r == nil {
		return m
	}
	took := r.Histogram("ao_http_request_seconds", "How long HTTP requests took, by method, route and code, without "+
		"waiting for a run and without live streams.", metric.Fast, "method", "route", "code")
	requests := r.Gauge("ao_http_requests_open", "HTTP requests in progress, live streams included.")
	streams := r.Gauge("ao_http_streams_open", "Open live streams.")
	r.AtScrape(func(s *metric.Scrape) {
		all, live := open()
		s.Set(requests, float64(all))
		s.Set(streams, float64(live))
	})
	m.durations = metric.NewCache(func(k requestLabels) *metric.Histogram {
		return took.With(k.method, k.route, strconv.Itoa(k.code))
	})
	return m
}

// measure measures an answered request.
func (m *meter) measure(g *gin.Context, took time.Duration) {
	if m.durations == nil || m.endless[g.FullPath()] && g.Writer.Status() == 200 {
		return
	}
	method := g.Request.Method
	if g.FullPath() == "" && !slices.Contains(methods, method) {
		method = metric.Other
	}
	m.durations.Get(requestLabels{method, pattern(g), g.Writer.Status()}).ObserveDuration(took - exchangeOf(g).waited)
}
