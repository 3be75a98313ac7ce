package deploy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinator "ao/coordinator/serve"
	"ao/nats/natstest"

	"github.com/goccy/go-yaml"
)

const docs = "../../shared/docs/"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object is a document of Kubernetes.
type object map[string]any

// at returns what is below a path of members and indexes; nil: nothing.
func (o object) at(path string) any {
	var v any = map[string]any(o)
	for _, name := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func (o object) list(path string) (all []object) {
	in, _ := o.at(path).([]any)
	for _, v := range in {
		all = append(all, v.(map[string]any))
	}
	return all
}

func (o object) String() string { return fmt.Sprint(o.at("kind"), " ", o.at("metadata.name")) }

// manifests returns all documents of the folders for Kubernetes.
func manifests(t *testing.T) (all []object) {
	t.Helper()
	for _, dir := range []string{"kubernetes", "backup"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			decoder := yaml.NewDecoder(strings.NewReader(read(t, path)))
			for {
				var o object
				err := decoder.Decode(&o)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if filepath.Base(path) != "nats-values.yaml" {
					all = append(all, o)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// pod returns the template of an object's pods.
func (o object) pod() object {
	for _, path := range []string{"spec.template", "spec.jobTemplate.spec.template"} {
		if p, ok := o.at(path).(map[string]any); ok {
			return p
		}
	}
	return nil
}

// isSetting reports whether a page of the documentation has a setting.
func isSetting(t *testing.T, name string) bool {
	t.Helper()
	page := read(t, docs+"reference/settings.md")
	return name == "GOMEMLIMIT" || name == "KEEP" || strings.Contains(page, "| `"+name+"` |")
}

// TestPodsFitThePrograms: settings, ports, paths of probes, references and grace periods are those of the programs.
func TestPodsFitThePrograms(t *testing.T) {
	all, routes := manifests(t), routes(t)
	dockerfile := read(t, "../images/Dockerfile")
	settings := map[string]string{} // of the generated ConfigMaps
	names := map[string]bool{"ConfigMap ao-backup": true}
	for _, o := range all {
		names[o.String()] = true
		for _, g := range o.list("configMapGenerator") {
			names["ConfigMap "+g["name"].(string)] = true
			literals, _ := g["literals"].([]any)
			for _, l := range literals {
				name, value, _ := strings.Cut(l.(string), "=")
				settings[name] = value
			}
		}
	}
	for name := range settings {
		if !isSetting(t, name) {
			t.Errorf("the ConfigMap has %s, which is no setting", name)
		}
	}
	pods := 0
	for _, o := range all {
		pod := o.pod()
		if pod == nil {
			continue
		}
		pods++
		volumes := map[any]bool{}
		for _, v := range pod.list("spec.volumes") {
			volumes[v["name"]] = true
			if name := v.at("configMap.name"); name != nil && !names[fmt.Sprint("ConfigMap ", name)] {
				t.Errorf("%s: there is no ConfigMap %v", o, name)
			}
		}
		for _, c := range pod.list("spec.containers") {
			checkContainer(t, o, c, volumes, routes, dockerfile)
			for _, e := range c.list("env") {
				if e["name"] == "AO_DRAIN_GRACE" {
					checkGrace(t, o, e["value"].(string), pod.at("spec.terminationGracePeriodSeconds"))
				}
			}
		}
	}
	if pods != 3 {
		t.Errorf("%d objects have pods, want 3", pods)
	}
}

func checkContainer(t *testing.T, o, c object, volumes map[any]bool, routes []string, dockerfile string) {
	t.Helper()
	for _, e := range c.list("env") {
		if !isSetting(t, e["name"].(string)) {
			t.Errorf("%s sets %v, which is no setting", o, e["name"])
		}
	}
	for _, m := range c.list("volumeMounts") {
		if !volumes[m["name"]] || m["subPath"] != nil {
			t.Errorf("%s mounts %v: it needs its volume, and no subPath, where a changed secret never arrives", o, m)
		}
	}
	ports := map[any]bool{}
	for _, p := range c.list("ports") {
		ports[p["name"]] = true
		number := fmt.Sprint(p["containerPort"])
		if number != "9464" && !strings.Contains(dockerfile, "EXPOSE "+number+"\n") {
			t.Errorf("%s: the image has no port %s", o, number)
		}
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		path := c.at(probe + ".httpGet.path")
		if path != nil && (!slices.Contains(routes, fmt.Sprint("GET ", path)) || !ports[c.at(probe+".httpGet.port")]) {
			t.Errorf("%s: %s asks for %v at %v", o, probe, path, c.at(probe+".httpGet.port"))
		}
	}
	if c.at("securityContext.readOnlyRootFilesystem") != true || c.at("resources.limits.memory") == nil {
		t.Errorf("%s: the container needs a read-only root file system and a limit of memory", o)
	}
}

func checkGrace(t *testing.T, o object, grace string, patience any) {
	t.Helper()
	seconds, err := strconv.Atoi(grace)
	if total, err2 := strconv.Atoi(fmt.Sprint(patience)); err != nil || err2 != nil || total < seconds+20 {
		t.Errorf("%s: AO_DRAIN_GRACE is %s, and the pod is killed after %v s", o, grace, patience)
	}
}

// routes returns the routes of a coordinator, as "GET /health".
func routes(t *testing.T) (all []string) {
	t.Helper()
	n, err := coordinator.OpenNATS(coordinator.NATSConfig{URL: "embed", Listen: "none", Sync: "2m",
		DataDir: t.TempDir(), Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	serving, ended := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		ended <- coordinator.Run(ctx, coordinator.Config{HTTPAddr: "127.0.0.1:0", Server: n, Log: natstest.Log(t),
			Serving: func(url string) { serving <- url }})
	}()
	select {
	case url := <-serving:
		res, err := http.Get(url + "/openapi.json")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var api struct{ Paths map[string]map[string]any }
		if err := json.NewDecoder(res.Body).Decode(&api); err != nil {
			t.Fatal(err)
		}
		for path, methods := range api.Paths {
			for method := range methods {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the coordinator does not serve")
	}
	return all
}

// TestServicesAndPolicies: services and policies name pods and ports that exist; two coordinators run.
func TestServicesAndPolicies(t *testing.T) {
	all := manifests(t)
	apps, ports := map[string]bool{"nats": true}, map[string]bool{"53": true, "443": true, "4222": true, "6222": true}
	for _, o := range all {
		pod := o.pod()
		if pod == nil {
			continue
		}
		apps[fmt.Sprint(pod.at("metadata.labels.app"))] = true
		for _, c := range pod.list("spec.containers") {
			for _, p := range c.list("ports") {
				ports[fmt.Sprint(p["containerPort"])] = true
			}
		}
		if o.String() == "Deployment coordinator" && fmt.Sprint(o.at("spec.replicas")) < "2" {
			t.Errorf("%s has %v replicas", o, o.at("spec.replicas"))
		}
	}
	policies := map[string]bool{}
	number := regexp.MustCompile(`port:(\d+)`)
	app := regexp.MustCompile(`(?:app|kubernetes\.io/name):([a-z]+)`)
	for _, o := range all {
		if o["kind"] != "NetworkPolicy" && o["kind"] != "Service" {
			continue
		}
		text := fmt.Sprint(o.at("spec"))
		for _, m := range number.FindAllStringSubmatch(text, -1) {
			if !ports[m[1]] {
				t.Errorf("%s names port %s, which nobody has", o, m[1])
			}
		}
		for _, m := range app.FindAllStringSubmatch(text, -1) {
			if !apps[m[1]] {
				t.Errorf("%s names %s, which no pod is called", o, m[1])
			}
		}
		policies[o.String()] = true
	}
	for name := range apps {
		if !policies["NetworkPolicy "+name] {
			t.Errorf("no policy says what %s may reach", name)
		}
	}
	var values object
	if err := yaml.Unmarshal([]byte(read(t, "kubernetes/nats-values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"config.cluster.replicas": "3",
		"config.jetstream.merge.sync_interval": "always", "config.merge.max_payload": "<< 1MB >>"} {
		if got := fmt.Sprint(values.at(path)); got != want {
			t.Errorf("nats-values.yaml: %s is %s, want %s as in nats/server.conf and AO_NATS_REPLICAS", path, got, want)
		}
	}
}

// TestKustomize: kubectl builds the folders.
func TestKustomize(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("SKIPPED: there is no kubectl here")
	}
	for dir, want := range map[string][]string{
		"kubernetes":             {"image: registry.example.org/ao-coordinator:", "name: ao-settings-"},
		"kubernetes/autoscaling": {"kind: ScaledObject"},
	} {
		out, err := exec.Command("kubectl", "kustomize", dir).CombinedOutput()
		for _, w := range want {
			if err != nil || !strings.Contains(string(out), w) {
				t.Errorf("%s: %v; want %q in %.2000s", dir, err, w, out)
			}
		}
	}
}

// TestAutoscalingMetrics: the query names metrics and labels that coordinators export, and the threshold leaves free
// slots.
func TestAutoscalingMetrics(t *testing.T) {
	page := read(t, docs+"reference/metrics.md")
	for _, o := range manifests(t) {
		if o["kind"] != "ScaledObject" {
			continue
		}
		query := fmt.Sprint(o.at("spec.triggers.0.metadata.query"))
		found := regexp.MustCompile(`(ao_\w+)\{(\w+)=`).FindAllStringSubmatch(query, -1)
		if len(found) != 2 {
			t.Errorf("the query has %d metrics: %s", len(found), query)
		}
		for _, m := range found {
			row := regexp.MustCompile("\\| `" + m[1] + "` \\| gauge \\| [^|]*\\b" + m[2] + "\\b")
			if !row.MatchString(page) {
				t.Errorf("there is no metric %s with the label %s", m[1], m[2])
			}
		}
		return
	}
	t.Error("there is no ScaledObject")
}

// TestUnits: systemd takes the units, and they set settings that exist.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 4 {
		t.Fatalf("units %v %v", units, err)
	}
	for _, unit := range units {
		text := read(t, unit)
		for _, m := range regexp.MustCompile(`(?m)^Environment=(\w+)=`).FindAllStringSubmatch(text, -1) {
			if !isSetting(t, m[1]) {
				t.Errorf("%s sets %s, which is no setting", unit, m[1])
			}
		}
		for _, want := range []string{"User=ao-", "NoNewPrivileges=yes", "ProtectSystem=strict", "LogNamespace=ao"} {
			if !strings.Contains(text, "\n"+want) {
				t.Errorf("%s has no %s", unit, want)
			}
		}
	}
	worker, page := read(t, "systemd/ao-worker@.service"), read(t, docs+"operating.md")
	secret := regexp.MustCompile(`(?m)^Environment(?:=AO_NATS_CREDS|File)=-?(\S+)`)
	for _, m := range secret.FindAllStringSubmatch(worker, -1) {
		if !strings.HasPrefix(m[1], "/etc/ao/") || !strings.Contains(worker, "\nEnvironment=AO_HIDE=/etc/ao\n") {
			t.Errorf("programs of another profile can read %s", m[1])
		}
	}
	for _, path := range []string{"/etc/ao-worker/profiles", "/etc/ao-worker/agents", "install -m 0600 /dev/null"} {
		if !strings.Contains(page, path) {
			t.Errorf("operating.md does not say %s", path)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIPPED: there is no systemd-analyze here")
	}
	dir := t.TempDir()
	files, err := filepath.Glob("systemd/ao-*")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files { // the programs are not installed here
		text := regexp.MustCompile(`ExecStart=\S+`).ReplaceAllString(read(t, f), "ExecStart=/bin/true")
		files[i] = filepath.Join(dir, strings.Replace(filepath.Base(f), "@.", "@procedural.", 1))
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "ao-") {
		t.Errorf("systemd-analyze verify: %v %s", err, out)
	}
}

// TestSizing: the table of operating.md is what performance.md measured, as a line through its two rows.
func TestSizing(t *testing.T) {
	performance, page := read(t, docs+"performance.md"), read(t, docs+"operating.md")
	measured := func(runs string) (mib [3]float64) {
		row := regexp.MustCompile(`(?m)^\| ` + runs + ` \| [\d.]+ m?s \| .*? \| .*? ` +
			`\| (\d+) MiB \| (\d+) MiB \| (\d+) MiB \|`).FindStringSubmatch(performance)
		if row == nil {
			t.Fatalf("performance.md has no row of %s ended runs", runs)
		}
		for i := range mib {
			mib[i], _ = strconv.ParseFloat(row[i+1], 64)
		}
		return mib
	}
	cpu := regexp.MustCompile(`run of one caller took (\d+), (\d+) and (\d+) us`).FindStringSubmatch(performance)
	if cpu == nil {
		t.Fatal("performance.md does not say what a run of one caller takes")
	}
	seconds := 0.0
	for _, us := range cpu[1:] {
		n, _ := strconv.ParseFloat(us, 64)
		seconds += n / 1e6
	}
	none, million := measured("0"), measured("1000000")
	_, table, _ := strings.Cut(page, "<!-- sizing -->\n")
	table, _, _ = strings.Cut(table, "<!-- end of sizing -->")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	for _, row := range rows[2:] {
		day, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(strings.Split(row, "|")[1]), ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		kept := min(7*day, 1_000_000)
		want := fmt.Sprintf("| %s | %s |", thousands(day), thousands(kept))
		for i := range none {
			want += fmt.Sprintf(" %.0f MiB |", none[i]+(million[i]-none[i])*float64(kept)/1e6)
		}
		want += fmt.Sprintf(" %.2f |", max(0.01, 5*float64(day)/86400*seconds))
		if row != want {
			t.Errorf("operating.md has  %s\nmeasured gives %s", row, want)
		}
	}
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// TestPages: links between the pages of the documentation lead somewhere. The settings and files that the pages for
// operators name exist.
func TestPages(t *testing.T) {
	link := regexp.MustCompile(`\]\(([\w./-]*)(?:#([\w-]+))?\)`)
	heading, punctuation := regexp.MustCompile(`(?m)^#+ (.*)$`), regexp.MustCompile(`[^\w -]`)
	pages, err := filepath.Glob(docs + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		name := filepath.Base(path)
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			target := filepath.Join(docs, cmp.Or(m[1], name))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: there is no %s", name, m[0])
				continue
			}
			if m[2] == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(read(t, target), -1) {
				anchor := punctuation.ReplaceAllString(strings.ToLower(h[1]), "")
				found = found || strings.ReplaceAll(anchor, " ", "-") == m[2]
			}
			if !found {
				t.Errorf("%s: no heading for %s", name, m[0])
			}
		}
	}

	setting := regexp.MustCompile(`\b(?:AO|RUN|RUNNER)_[A-Z_]+\b`)
	file := regexp.MustCompile(`\bscripts/[\w./@-]*\w`)
	elsewhere := read(t, "../../docker-compose.yml") + " AO_TOKEN AO_URL AO_REVISION " // of compose, ao and builds
	for _, name := range []string{"operating.md", "symptoms.md"} {
		page := read(t, docs+name)
		for _, s := range setting.FindAllString(page, -1) {
			if !isSetting(t, s) && !strings.Contains(elsewhere, s) {
				t.Errorf("%s: there is no setting %s", name, s)
			}
		}
		for _, f := range file.FindAllString(page, -1) {
			if matches, err := filepath.Glob("../../" + f + "*"); err != nil || len(matches) == 0 {
				t.Errorf("%s: there is no %s", name, f)
			}
		}
	}
}
