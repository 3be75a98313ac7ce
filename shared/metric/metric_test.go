package metric_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/shared/metric"
	"ao/shared/metric/metrictest"
)

// page is what the registry writes.
func page(t *testing.T, r *metric.Registry) metrictest.Page {
	t.Helper()
	s := httptest.NewServer(r.Handler())
	t.Cleanup(s.Close)
	return metrictest.Get(t, s.URL)
}

func TestCountedValuesAreExported(t *testing.T) {
	r := metric.New("test")
	runs := r.Counter("ao_runs_total", "Runs.", "agent")
	runs.With("a").Inc()
	runs.With("a").Inc()
	r.Counter("ao_runs_total", "Runs.", "agent").With("b").Inc() // the same family again
	took := r.Histogram("ao_took_seconds", "Took.", metric.Fast).With()
	took.ObserveDuration(20 * time.Millisecond)
	took.ObserveDuration(-time.Second) // somebody's clock is ahead
	took.ObserveSince(time.Now())
	depth := r.Gauge("ao_depth", "Depth.", "queue")
	forget := r.AtScrape(func(s *metric.Scrape) { s.Set(depth, 7, "x") })
	p := page(t, r)
	for _, tt := range []struct {
		name  string
		label []string
		want  float64
	}{
		{"ao_runs_total", []string{"agent=a"}, 2}, {"ao_runs_total", []string{"agent=b"}, 1},
		{"ao_took_seconds", nil, 3},
		{"ao_depth", []string{"queue=x"}, 7}, {"ao_build_info", []string{"program=test"}, 1},
	} {
		if got := p.Sum(tt.name, tt.label...); got != tt.want {
			t.Errorf("%s%v: got %v, want %v", tt.name, tt.label, got, tt.want)
		}
	}
	if sum := p.Series("ao_took_seconds")[0].GetHistogram().GetSampleSum(); sum < .02 || sum > 1 {
		t.Errorf("seconds: %v", sum)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if p[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	forget()
	p = page(t, r)
	if p["ao_depth"] != nil {
		t.Error("what was removed is written")
	}
	var names []string
	for _, f := range r.Families() {
		names = append(names, f.Name+" "+f.Kind)
	}
	if want := []string{"ao_build_info gauge", "ao_depth gauge", "ao_runs_total counter",
		"ao_took_seconds histogram"}; !slices.Equal(names, want) {
		t.Errorf("families %v, want %v", names, want)
	}
}

// A metric that is created because of a scrape is on that scrape's page.
func TestBeforeScrape(t *testing.T) {
	r := metric.New("test")
	runs := r.Counter("ao_runs_total", "Runs.", "agent")
	forget := r.BeforeScrape(func() { runs.With("a") })
	if n := len(page(t, r).Series("ao_runs_total", "agent=a")); n != 1 {
		t.Errorf("%d series on the first page", n)
	}
	forget()
	forget = r.BeforeScrape(func() { runs.With("b") })
	forget()
	if n := len(page(t, r).Series("ao_runs_total")); n != 1 {
		t.Errorf("%d series after it was forgotten", n)
	}
}

func TestNilRegistryDoesNothing(t *testing.T) {
	var r *metric.Registry
	r.Counter("x", "").With().Inc()
	h := r.Histogram("x", "", metric.Fast).With()
	h.Observe(1)
	h.ObserveDuration(time.Second)
	h.ObserveSince(time.Now())
	var cells *metric.Cache[int, *metric.Counter]
	cells.Get(1).Inc()
	r.AtScrape(func(*metric.Scrape) {})()
	r.BeforeScrape(func() {})()
	if r.Gauge("x", "") != nil || !h.Start().IsZero() {
		t.Error("something counts")
	}
}

func TestTwoFamiliesOfOneNamePanic(t *testing.T) {
	r := metric.New("test")
	r.Counter("ao_x", "", "a")
	defer func() {
		if recover() == nil {
			t.Error("nobody noticed")
		}
	}()
	r.Counter("ao_x", "", "b")
}

func TestBoundKeepsLabelsFew(t *testing.T) {
	b := metric.NewLabelLimit(2)
	var got []string
	for _, v := range []string{metric.Other, "a", "b", "c", "a", "d"} {
		got = append(got, b.Label(v))
	}
	if s := strings.Join(got, " "); s != "other a b other a other" {
		t.Errorf("got %s", s)
	}
	made := 0
	c := metric.NewCache(func(k string) int { made++; return len(k) })
	for range 2 {
		if n := c.Get("abc"); n != 3 || made != 1 {
			t.Errorf("got %d, made %d times", n, made)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.Get("abc") }); n != 0 {
		t.Errorf("a look allocates %v times", n)
	}
}

func TestPorts(t *testing.T) {
	var log strings.Builder
	l := slog.New(slog.NewTextHandler(&log, nil))
	shut, err := metric.Endpoints{Metrics: "127.0.0.1:0", Pprof: "localhost:0"}.Listen(t.Context(),
		metric.New("test"), l)
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	var urls []string
	for _, word := range strings.Fields(log.String()) {
		if url, ok := strings.CutPrefix(word, "url="); ok {
			urls = append(urls, url)
		}
	}
	if len(urls) != 2 {
		t.Fatalf("the log says %q", log.String())
	}
	if p := metrictest.Get(t, urls[0]); p.Sum("ao_build_info") != 1 {
		t.Error("no metrics")
	}
	ask := func(url, host string) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if site, ok := strings.CutPrefix(host, "page: "); ok {
			req.Header.Set("Sec-Fetch-Site", site)
			host = ""
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	for _, tt := range []struct {
		url, host string
		status    int
		body      string
	}{
		{urls[1] + "goroutine?debug=1", "", 200, "goroutine profile"},
		{urls[1] + "goroutine?debug=1", "localhost:1", 200, "goroutine profile"},
		{urls[1], "evil.example", 403, "own name"}, {urls[1], "page: cross-site", 403, "own name"},
		{urls[1], "page: none", 200, "profiles"}, {urls[0] + "/more", "", 404, ""},
	} {
		if status, body := ask(tt.url, tt.host); status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s as %q: %d %.100q", tt.url, tt.host, status, body)
		}
	}
	taken := strings.TrimSuffix(strings.TrimPrefix(urls[0], "http://"), "/metrics")
	for _, tt := range []struct {
		ports metric.Endpoints
		want  string
	}{
		{metric.Endpoints{Metrics: taken}, "AO_METRICS_ADDR"}, {metric.Endpoints{Pprof: taken}, "AO_PPROF_ADDR"},
		{metric.Endpoints{Pprof: "0.0.0.0:0"}, `AO_PPROF_ADDR "0.0.0.0:0" can be reached from beyond this machine`},
		{metric.Endpoints{Pprof: ":0"}, "beyond"}, {metric.Endpoints{Pprof: "10.0.0.1:6060"}, "beyond"},
	} {
		shut, err := tt.ports.Listen(t.Context(), metric.New("test"), l)
		if err == nil {
			shut()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.ports, err, tt.want)
		}
	}
	shut()
	if _, err := http.Get(urls[0]); err == nil {
		t.Error("it answers after its end")
	}
}
