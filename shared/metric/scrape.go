package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Sampled is a family whose values are read at each scrape.
type Sampled struct {
	Family
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Gauge makes a family of values that go up and down, or returns the existing one.
func (r *Registry) Gauge(name, help string, labels ...string) *Sampled {
	return r.sampled(name, help, KindGauge, prometheus.GaugeValue, labels)
}

// Count makes a family of values that are counted elsewhere and only grow, or returns the existing one. Its
// name ends with _total.
func (r *Registry) Count(name, help string, labels ...string) *Sampled {
	return r.sampled(name, help, KindCounter, prometheus.CounterValue, labels)
}

func (r *Registry) sampled(name, help, kind string, typ prometheus.ValueType, labels []string) *Sampled {
	if r == nil {
		return nil
	}
	f := Family{name, kind, help, labels}
	return getOrCreate(r, f, func() *Sampled { return &Sampled{f, prometheus.NewDesc(name, help, labels, nil), typ} })
}

// CertificateExpiry returns the family of the expiry times of certificates, which several parts of a process have.
func (r *Registry) CertificateExpiry() *Sampled {
	return r.Gauge("ao_certificate_expiry_timestamp_seconds",
		"When a certificate expires, as Unix time. http: the HTTP API's; nats: the NATS server's; nats_client: the "+
			"one that is sent to NATS.", "certificate", "connection")
}

type source struct{ sample func(*Scrape) }

// AtScrape calls sample at each scrape, from any goroutine, until forget is called. It must be quick, and
// return even if nobody answers it. What two of them set must differ in its labels.
func (r *Registry) AtScrape(sample func(*Scrape)) (forget func()) {
	if r == nil {
		return func() {}
	}
	w := &source{sample}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = append(r.watched, w)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watched = slices.DeleteFunc(slices.Clone(r.watched), func(o *source) bool { return o == w })
	}
}

// BeforeScrape calls prepare at each scrape, before anything is read, until forget is called. Counters that it
// makes are in that scrape. It may be called concurrently.
func (r *Registry) BeforeScrape(prepare func()) (forget func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = append(r.before[:len(r.before):len(r.before)], &prepare)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.before = slices.DeleteFunc(slices.Clone(r.before), func(f *func()) bool { return f == &prepare })
	}
}

// gather returns all families with their current values.
func (r *Registry) gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	all := r.before
	r.mu.Unlock()
	for _, prepare := range all {
		(*prepare)()
	}
	return r.reg.Gather()
}

// Scrape takes the values of one scrape.
type Scrape struct{ to chan<- prometheus.Metric }

// Set sets a value of a family, with these label values.
func (s *Scrape) Set(f *Sampled, v float64, values ...string) {
	m, err := prometheus.NewConstMetric(f.desc, f.kind, v, values...)
	if err != nil { // the scrape shows it besides the others
		m = prometheus.NewInvalidMetric(f.desc, err)
	}
	s.to <- m
}

// collector is the registry as a source of sampled values. It describes nothing, since families are made later;
// getOrCreate prevents duplicates.
type collector Registry

func (l *collector) Describe(chan<- *prometheus.Desc) {}

func (l *collector) Collect(to chan<- prometheus.Metric) {
	for _, w := range (*Registry)(l).sources() {
		w.sample(&Scrape{to})
	}
}

// sources are what is sampled at each scrape.
func (r *Registry) sources() []*source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.watched)
}
