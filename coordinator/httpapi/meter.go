package httpapi

import (
	"slices"
	"strconv"
	"time"

	"ao/shared/metric"

	"github.com/gin-gonic/gin"
)

// requestLabels is what requests are counted by: never by anything that a caller chose.
type requestLabels struct {
	method, route string
	code          int
}

// methods are those that are told apart.
var methods = []string{"GET", "HEAD", "POST", "PATCH", "DELETE"}

// meter counts requests.
type meter struct {
	durations *metric.Cache[requestLabels, *metric.Histogram] // nil: nobody counts
	endless   map[string]bool                                 // routes that are live streams
}

// newMeter has the requests counted; open says how many are under way, and how many of them are live streams. A nil
// registry: nobody counts.
func newMeter(r *metric.Registry, open func() (requests, streams int64)) *meter {
	m := &meter{endless: map[string]bool{}}
	if r == nil {
		return m
	}
	took := r.Histogram("ao_http_request_seconds", "How long HTTP requests took, by method, route and code, without "+
		"the time for which they waited for a run. Live streams are not among them.", metric.Fast, "method", "route",
		"code")
	requests := r.Gauge("ao_http_requests_open",
		"HTTP requests that are being answered at this moment, live streams included.")
	streams := r.Gauge("ao_http_streams_open", "Live streams that are open at this moment.")
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

// measure counts a request that was answered.
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
