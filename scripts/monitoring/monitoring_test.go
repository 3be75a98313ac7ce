package monitoring_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinator "ao/coordinator/serve"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/scripts/reference"
	"ao/shared/metric"
	"ao/shared/metric/metrictest"
	worker "ao/worker/serve"

	"github.com/goccy/go-yaml"
)

const docs = "../../shared/docs/metrics.md"

// stack runs a coordinator and a worker with one registry and a run, and returns their metrics.
func stack(t *testing.T) (*metric.Registry, metrictest.Page) {
	t.Helper()
	log, reg := natstest.Log(t), metric.New("test")
	n, err := coordinator.OpenNATS(coordinator.NATSConfig{URL: "embed", Listen: "none", Sync: "2m",
		DataDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	serving := make(chan string, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	t.Cleanup(func() { cancel(); <-ended; <-ended })
	go func() {
		ended <- coordinator.Run(ctx, coordinator.Config{HTTPAddr: "127.0.0.1:0", Server: n, Serving: func(url string) {
			serving <- url
		}, Metrics: reg, Log: log})
	}()
	var url string
	select {
	case url = <-serving:
	case <-time.After(30 * time.Second):
		t.Fatal("the coordinator does not serve")
	}
	nc, err := n.Dial(t.Context(), "worker", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w := worker.Config{ProfilesDir: "../../worker/profiles", Profiles: []string{"procedural"}, ProjectDir: t.TempDir(),
		Metrics: reg, Log: log}
	w.Bus, err = bus.Open(nc, bus.Config{Metrics: reg, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := w.Read()
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- worker.Run(ctx, w, profiles) }()
	body := `{"agent_name":"text-stats","parameters":{"file":"` + "none" + `"},"mode":"sync"}`
	natstest.Until(t, "a run has ended", func() bool {
		res, err := http.Post(url+"/runs", "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	var page metrictest.Page
	// an end record is counted after the run's end is visible
	natstest.Until(t, "the worker reports its run", func() bool {
		page = metrictest.Get(t, url+"/metrics")
		return page.Sum("ao_worker_claims_total", "result=won") >= 1 && page.Sum("ao_worker_last_words_total",
			"result=stands") >= 1 && page.Sum("ao_worker_execution_seconds") >= 1
	})
	return reg, page
}

// expression is a PromQL expression with its place.
type expression struct{ where, expr string }

func rules(t *testing.T) (all []expression, alerts []string) {
	t.Helper()
	raw, err := os.ReadFile("rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(raw, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all, alerts = append(all, expression{"alert " + r.Alert, r.Expr}), append(alerts, r.Alert)
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: for: %v", r.Alert, err)
			}
			if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) ||
				r.Annotations["summary"] == "" || r.Annotations["runbook"] != "shared/docs/metrics.md#"+
				strings.ToLower(r.Alert) {
				t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	return all, alerts
}

func dashboard(t *testing.T) (all []expression) {
	t.Helper()
	raw, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range file.Panels {
		if seen[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		seen[p.ID] = true
		for _, e := range p.Targets {
			all = append(all, expression{"panel " + p.Title, e.Expr})
		}
	}
	return all
}

// No PromQL parser is small enough to be a dependency, so names and labels are found by patterns. That finds names
// that do not exist; promtool, if installed, finds all other errors of alerts.
var (
	names   = regexp.MustCompile(`\b(?:(?:ao|go|process|node)_[a-z0-9_]+|up\b)`)
	foreign = regexp.MustCompile(`^(?:up|node_.*)$`) // of Prometheus itself and of the node exporter
	selects = regexp.MustCompile(`\b((?:ao|go|process)_[a-z0-9_]+)\{([^}]*)\}`)
	matches = regexp.MustCompile(`([a-zA-Z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	suffix  = regexp.MustCompile(`_(bucket|sum|count)$`)
	strs    = regexp.MustCompile(`"[^"]*"`)
)

// TestReference: the rules and the dashboard name metrics that exist, and so does the page of metrics, which
// AO_WRITE_DOCS=yes rewrites.
func TestReference(t *testing.T) {
	reg, page := stack(t)
	families := map[string]metric.Family{}
	for _, f := range reg.Families() {
		families[f.Name] = f
		if f.Help == "" || (f.Kind == metric.KindCounter) != strings.HasSuffix(f.Name, "_total") ||
			!strings.HasPrefix(f.Name, "ao_") {
			t.Errorf("%+v", f)
		}
	}
	for _, name := range page.Names("ao_") {
		if _, ok := families[name]; !ok {
			t.Errorf("metric %s is exported but unknown", name)
		}
	}
	if page.Sum("ao_worker_slots") < 1 || page["ao_worker_processes"] == nil {
		t.Error("the worker exports no metrics of slots or processes")
	}
	alerts, _ := rules(t)
	all := append(alerts, dashboard(t)...)
	if len(all) < 40 {
		t.Errorf("only %d expressions", len(all))
	}
	for _, e := range all {
		bare := strs.ReplaceAllString(e.expr, `""`)
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(bare, pair[:1]) != strings.Count(bare, pair[1:]) {
				t.Errorf("%s: brackets of %s", e.where, e.expr)
			}
		}
		found := names.FindAllString(bare, -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric: %s", e.where, e.expr)
		}
		for _, name := range found {
			f, ok := families[name]
			if base := suffix.ReplaceAllString(name, ""); !ok && base != name {
				f, ok = families[base]
				ok = ok && f.Kind == metric.KindHistogram
			}
			if !ok && page[name] == nil && !foreign.MatchString(name) {
				t.Errorf("%s: unknown metric %s", e.where, name)
			}
		}
		for _, m := range selects.FindAllStringSubmatch(e.expr, -1) {
			f, ok := families[suffix.ReplaceAllString(m[1], "")]
			for _, label := range matches.FindAllStringSubmatch(m[2], -1) {
				if ok && !slices.Contains(f.Labels, label[1]) && !slices.Contains([]string{"instance", "job", "le"},
					label[1]) {
					t.Errorf("%s: %s has no label %s", e.where, m[1], label[1])
				}
			}
		}
	}
	reference.Check(t, "monitoring", "metrics.md", "what a coordinator and a worker export",
		metricsPage(reg.Families()))
}

// metricsPage makes the page of metrics.
func metricsPage(families []metric.Family) string {
	var rows [][]string
	for _, f := range families {
		help, _, derived := strings.Cut(f.Help, " Derived from the history:")
		rows = append(rows, []string{reference.Code(f.Name), f.Kind, strings.Join(f.Labels, ", "), help,
			map[bool]string{true: "max"}[derived]})
	}
	return "# All metrics\n\nFor looking up. [metrics.md](../metrics.md) says where they are, " +
		"how to read them, and what to do about each alert. Beside these there are Go's own (`go_…`) and the " +
		"process's (`process_…`).\n\n`max`: every coordinator derives it from the history and reports the same, so " +
		"take the maximum, not the sum.\n\n" +
		reference.Table([]string{"metric", "kind", "labels", "", "of several"}, rows)
}

func TestEveryAlertIsExplained(t *testing.T) {
	raw, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, alerts := rules(t)
	for _, a := range alerts {
		if !strings.Contains(string(raw), "\n### "+a+"\n") {
			t.Errorf("%s does not explain %s", docs, a)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Ao\w+)$`).FindAllStringSubmatch(string(raw), -1) {
		if !slices.Contains(alerts, m[1]) {
			t.Errorf("%s explains %s, which does not exist", docs, m[1])
		}
	}
	var any map[string]any
	raw, err = os.ReadFile("prometheus.yml")
	if err == nil {
		err = yaml.Unmarshal(raw, &any)
	}
	if err != nil || any["scrape_configs"] == nil {
		t.Errorf("prometheus.yml: %v", err)
	}
}
