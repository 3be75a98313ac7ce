package httpapi

import (
	"slices"
	"strconv"
	"time"

	"ao/shared/fault"
	"ao/shared/metric"

	"github.com/gin-gonic/gin"
)

// answerOf is what requests are counted by: never by anything that a caller chose.
type answerOf struct {
	method, route string
	code          int
}

// methods are those that are told apart.
var methods = []string{"GET", "HEAD", "POST", "PATCH", "DELETE"}

// meters has the requests counted; nil: nobody counts.
func (a *API) meters(r *metric.Registry) *metric.Cells[answerOf, *metric.Histogram] {
	if r == nil {
		return nil
	}
	took := r.Histogram("ao_http_request_seconds", "How long HTTP requests took, by method, route and code, without the time for which they waited for a run. Live streams are not among them.", metric.Fast, "method", "route", "code")
	open := r.Gauge("ao_http_requests_open", "HTTP requests that are being answered at this moment, live streams included.")
	streams := r.Gauge("ao_http_streams_open", "Live streams that are open at this moment.")
	r.AtScrape(func(s *metric.Scrape) {
		requests, live := a.Open()
		s.Set(open, float64(requests))
		s.Set(streams, float64(live))
	})
	return metric.NewCells(func(k answerOf) *metric.Histogram { return took.Of(k.method, k.route, strconv.Itoa(k.code)) })
}

// measure counts a request that was answered.
func (a *API) measure(g *gin.Context, took time.Duration) {
	if a.took == nil || a.endless[g.FullPath()] && g.Writer.Status() == 200 {
		return
	}
	method := g.Request.Method
	if g.FullPath() == "" && !slices.Contains(methods, method) {
		method = metric.Other
	}
	a.took.Of(answerOf{method, pattern(g), g.Writer.Status()}).Took(took - of(g).waited)
}

// metrics answers who monitors.
func (a *API) metrics(g *gin.Context, _ query) (any, error) {
	if a.cfg.Metrics == nil {
		return nil, fault.New(fault.NotFound, "", "This coordinator counts nothing")
	}
	a.cfg.Metrics.Handler().ServeHTTP(&paced{ResponseWriter: g.Writer}, g.Request)
	return written{}, nil
}
