// Package metrictest reads a process's metrics over HTTP, for tests.
package metrictest

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page is the content of one scrape.
type Page map[string]*dto.MetricFamily

// Get asks url; headers are given as "Name: value". Whatever is no metrics ends the test.
func Get(t testing.TB, url string, headers ...string) Page {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %v: %.300s", url, res.StatusCode, err, raw)
	}
	return Read(t, string(raw))
}

// Read reads Prometheus's text format.
func Read(t testing.TB, text string) Page {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("no metrics: %v", err)
	}
	return all
}

// Names returns the names of all families that begin with a prefix, sorted.
func (p Page) Names(prefix string) []string {
	names := slices.Sorted(maps.Keys(p))
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
}

// Sum adds up the values of a family's series that have these labels, each given as "name=value". Of a histogram, it
// adds up the counts. Nothing is 0.
func (p Page) Sum(name string, labels ...string) (sum float64) {
	for _, m := range p.Series(name, labels...) {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// Series returns those of a family that have these labels.
func (p Page) Series(name string, labels ...string) (all []*dto.Metric) {
	for _, m := range p[name].GetMetric() {
		has := map[string]bool{}
		for _, l := range m.GetLabel() {
			has[l.GetName()+"="+l.GetValue()] = true
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !has[l] }) {
			all = append(all, m)
		}
	}
	return all
}
