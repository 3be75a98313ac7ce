// Package metric provides a process's metrics in Prometheus's text format: counters and histograms, and values
// that are sampled at each scrape. It is the only package that uses the Prometheus client.
//
// A nil Registry works, and so does everything it returns: nothing is counted, at no cost.
package metric

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"ao/shared/version"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Kinds of families, as Prometheus calls them.
const (
	KindCounter   = "counter"
	KindGauge     = "gauge"
	KindHistogram = "histogram"
)

// Family is all series of one name.
type Family struct {
	Name   string
	Kind   string
	Help   string // for people
	Labels []string
}

// Registry has the metrics of one process. All methods may be called concurrently.
type Registry struct {
	reg      *prometheus.Registry
	mu       sync.Mutex
	families map[string]any // by name: *Counters, *Histograms or *Seen
	watched  []*source
	before   []*func()
	handler  http.Handler
}

// New makes the registry of a program, with the metrics of Go and of the process.
func New(program string) *Registry {
	r := &Registry{reg: prometheus.NewRegistry(), families: map[string]any{}}
	r.reg.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), (*collector)(r))
	r.handler = promhttp.HandlerFor(prometheus.GathererFunc(r.gather),
		promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
			ErrorHandling: promhttp.ContinueOnError})
	info := r.Gauge("ao_build_info", "Always 1; its labels say which program this is, and of which version.",
		"program", "version", "revision", "goversion")
	r.AtScrape(func(s *Scrape) { s.Set(info, 1, program, version.Current(), version.Revision(), runtime.Version()) })
	return r
}

// Handler serves all metrics: to four requests at a time, and 503 to further ones.
func (r *Registry) Handler() http.Handler {
	if r == nil {
		return http.NotFoundHandler()
	}
	return r.handler
}

// Families returns all families that were made so far, by name, without those of Go and the process.
func (r *Registry) Families() (all []Family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.families {
		all = append(all, f.(interface{ family() Family }).family())
	}
	slices.SortFunc(all, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (f Family) family() Family { return f }

// getOrCreate returns the family of that name, made by f if there is none. It panics if an existing one differs.
func getOrCreate[T interface{ family() Family }](r *Registry, want Family, f func() T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.families[want.Name]
	if !ok {
		made := f()
		r.families[want.Name] = made
		return made
	}
	same, ok := old.(T)
	if !ok || same.family().Kind != want.Kind || !slices.Equal(same.family().Labels, want.Labels) {
		panic(fmt.Sprintf("metric %s is created twice, with different definitions", want.Name))
	}
	return same
}

// Counters are a family of counters.
type Counters struct {
	Family
	vec *prometheus.CounterVec
}

// Counter makes a family of counters, or returns the existing one. Its name ends with _total.
func (r *Registry) Counter(name, help string, labels ...string) *Counters {
	if r == nil {
		return nil
	}
	f := Family{name, KindCounter, help, labels}
	return getOrCreate(r, f, func() *Counters {
		c := &Counters{f, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)}
		r.reg.MustRegister(c.vec)
		return c
	})
}

// With returns the counter with these label values. Keep it instead of calling With again.
func (c *Counters) With(values ...string) *Counter {
	if c == nil {
		return nil
	}
	return &Counter{c.vec.WithLabelValues(values...)}
}

// Counter is one series that only grows.
type Counter struct{ c prometheus.Counter }

// Inc adds one.
func (c *Counter) Inc() {
	if c != nil {
		c.c.Inc()
	}
}

// Histograms are a family of histograms.
type Histograms struct {
	Family
	vec *prometheus.HistogramVec
}

// Histogram makes a family of histograms with these upper bounds, or returns the existing one.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) *Histograms {
	if r == nil {
		return nil
	}
	f := Family{name, KindHistogram, help, labels}
	return getOrCreate(r, f, func() *Histograms {
		h := &Histograms{f, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help,
			Buckets: bounds}, labels)}
		r.reg.MustRegister(h.vec)
		return h
	})
}

// With returns the histogram with these label values. Keep it instead of calling With again.
func (h *Histograms) With(values ...string) *Histogram {
	if h == nil {
		return nil
	}
	return &Histogram{h.vec.WithLabelValues(values...)}
}

// Histogram is one distribution.
type Histogram struct{ h prometheus.Observer }

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	if h != nil {
		h.h.Observe(v)
	}
}

// ObserveDuration counts a duration, in seconds. Negative ones, from another machine's clock, count as 0.
func (h *Histogram) ObserveDuration(d time.Duration) {
	if h != nil {
		h.h.Observe(max(d, 0).Seconds())
	}
}

// Start returns the time for ObserveSince. It reads the clock only if somebody counts.
func (h *Histogram) Start() (t time.Time) {
	if h != nil {
		t = time.Now()
	}
	return t
}

// ObserveSince counts the time since Start.
func (h *Histogram) ObserveSince(t time.Time) {
	if h != nil {
		h.h.Observe(max(time.Since(t), 0).Seconds())
	}
}

// Bounds of histograms. There are few, since each is a series.
var (
	// Fast is for milliseconds: requests, writes.
	Fast = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}
	// Slow is for the phases of runs: from a millisecond to hours.
	Slow = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 14400}
	// Bytes is for sizes.
	Bytes = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	// Many is for numbers of items.
	Many = []float64{2, 4, 8, 16, 32, 64, 128, 256, 512, 1000}
)
