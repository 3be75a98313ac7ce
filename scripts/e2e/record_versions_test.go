package e2e

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/ledger"
	"ao/coordinator/serve"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/worker"
	"ao/worker/profile"

	"github.com/nats-io/nats.go/micro"
)

// versions is an in-process deployment of programs with several record versions.
type versions struct {
	t    *testing.T
	nats *serve.NATS
	bus  *bus.Bus
	log  *slog.Logger
}

// coordinator runs a coordinator of a version; end stops it.
func (v *versions) coordinator(version int) (url string, end func()) {
	v.t.Helper()
	return v.patientCoordinator(version, 3*time.Second)
}

// patientCoordinator is coordinator with a time after which it removes a runner without a heartbeat.
func (v *versions) patientCoordinator(version int, remove time.Duration) (url string, end func()) {
	v.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	serving, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Config{
			HTTPAddr: "127.0.0.1:0", Server: v.nats, Log: v.log, Serving: func(url string) { serving <- url },
			NATS: serve.NATSConfig{DataDir: v.t.TempDir()},
			Coordinator: parts.Config{RecordVersion: version, Patience: runnerapi.Thresholds{
				Remove: remove, Stale: time.Minute}},
		})
	}()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			v.t.Errorf("the coordinator of version %d ended with %v", version, err)
		}
	})
	v.t.Cleanup(end)
	select {
	case url = <-serving:
	case <-time.After(30 * time.Second):
		v.t.Fatalf("the coordinator of version %d does not serve", version)
	}
	return url, end
}

// worker runs a worker of a version that completes its runs.
func (v *versions) worker(version int) {
	v.t.Helper()
	w, err := worker.New(worker.Config{
		Bus: v.bus, Host: "here", ProjectDir: v.t.TempDir(), Log: v.log, RecordVersion: version,
		Executor: completingExecutor{},
		Profile:  profile.Profile{Name: "talk", Type: run.Autonomous, MaxConcurrentRuns: 8},
	})
	if err != nil {
		v.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			v.t.Errorf("the worker ended with %v", err)
		}
	})
	v.t.Cleanup(func() { cancel(); wg.Wait() })
	<-w.Ready()
}

type completingExecutor struct{}

func (completingExecutor) Run(context.Context, executor.Invocation, executor.Host) run.Outcome {
	text := "well"
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}
}

// ask sends a request to a coordinator.
func ask[T any](v *versions, method, url, body string, code int) (out T) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil || res.StatusCode != code {
		v.t.Fatalf("%s %s: %d, %v, %.500s", method, url, res.StatusCode, err, raw)
	}
	return out
}

// runOnce runs a run and returns the versions of its attempt's records, and the version that the attempt allows.
func (v *versions) runOnce(at string, all ...string) (allows int, written []int) {
	v.t.Helper()
	acc := ask[struct {
		RunID     string `json:"run_id"`
		SessionID string `json:"session_id"`
	}](v, "POST", at+"/runs", `{"agent_name":"talker","prompt":"x"}`, 201)
	var first run.Run
	for i, at := range all {
		r := ask[run.Run](v, "GET", at+"/runs/"+acc.RunID+"/wait?timeout_seconds=60", "", 200)
		if r.Status != run.Completed {
			v.t.Fatalf("run %s is %s at %s: %v", acc.RunID, r.Status, at, r.Error)
		}
		if i == 0 {
			first = r
		} else if r.Attempt != first.Attempt || !r.EndedAt.Equal(*first.EndedAt) || r.RunnerID != first.RunnerID {
			v.t.Errorf("the end is %+v at one coordinator and %+v at another", first, r)
		}
		if l := ask[ledger.Report](v, "GET", at+"/ledger", "", 200); !l.OK || l.Foreign != 0 {
			v.t.Errorf("the ledger of %s: %+v", at, l)
		}
	}
	records, err := v.bus.Records(v.t.Context(), "ao.runs."+subject.Partition(acc.SessionID)+".>", 0, 1000)
	if err != nil {
		v.t.Fatal(err)
	}
	ends := 0
	for _, m := range records {
		rec, err := subject.Parse(m.Subject)
		if err != nil || rec.Run != acc.RunID {
			continue
		}
		var b struct {
			V      int `json:"v"`
			Allows int `json:"record_version"`
		}
		if err := json.Unmarshal(m.Body, &b); err != nil {
			v.t.Fatal(err)
		}
		written = append(written, b.V)
		if rec.Kind == subject.QueuedKind {
			allows = max(b.Allows, 1)
		}
		if rec.Kind == subject.EndedKind {
			ends++
		}
	}
	if ends != 1 || len(written) < 3 { // one more where the coordinator that took it did not know the worker yet
		v.t.Errorf("%d ends in %d records", ends, len(written))
	}
	return allows, written
}

// checkVersions checks that all records have one version and no other is allowed.
func (v *versions) checkVersions(want int, at string, all ...string) {
	v.t.Helper()
	allows, written := v.runOnce(at, all...)
	for _, n := range written {
		if n != want || allows != want {
			v.t.Errorf("asked at %s: versions %v were written and %d is allowed, want %d", at, written, allows, want)
		}
	}
}

// TestCoordinatorsOfTwoVersions: an old and a new coordinator, in both orders, with a new or old worker. While the
// old one is running, all records are readable for it, and each run has the same end at both. After that the new ones
// write the new version.
func TestCoordinatorsOfTwoVersions(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"the old one first": {1, 2}, "the new one first": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVersions(t)
			urls := map[int]string{}
			ends := map[int]func(){}
			for _, version := range order {
				urls[version], ends[version] = v.coordinator(version)
			}
			v.worker(2)
			ask[map[string]any](v, "POST", urls[order[0]]+"/agents", `{"name":"talker"}`, 201)
			for range natstest.Load(2, 5) {
				v.checkVersions(1, urls[1], urls[1], urls[2])
				v.checkVersions(1, urls[2], urls[2], urls[1])
			}
			ends[1]()
			natstest.Until(t, "the new one writes what it knows", func() bool {
				allows, written := v.runOnce(urls[2], urls[2])
				return allows == 2 && slices.Min(written) == 2
			})
			// it reads the history from the beginning and does not know yet that no other coordinator is running
			again, _ := v.coordinator(2)
			v.runOnce(again, urls[2], again)
			v.runOnce(urls[2], again, urls[2])
		})
	}
}

// TestACoordinatorThatReportsNoVersion: an older program answers the ping without a version.
func TestACoordinatorThatReportsNoVersion(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	nc, err := v.nats.Dial(t.Context(), "before", v.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	before, err := micro.AddService(nc, micro.Config{Name: "ao", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	url, _ := v.coordinator(2)
	v.worker(2)
	ask[map[string]any](v, "POST", url+"/agents", `{"name":"talker"}`, 201)
	pace := time.NewTicker(250 * time.Millisecond)
	defer pace.Stop()
	for since := time.Now(); time.Since(since) < 7*time.Second; <-pace.C { // more than twice as long as without
		v.checkVersions(1, url, url)
	}
	if err := before.Stop(); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the new one is alone", func() bool {
		allows, _ := v.runOnce(url, url)
		return allows == 2
	})
}

func newVersions(t *testing.T) *versions {
	t.Helper()
	v := &versions{t: t, log: natstest.Log(t)}
	n, err := serve.OpenNATS(serve.NATSConfig{URL: "embed", Listen: "none", Sync: "2m", DataDir: t.TempDir(),
		Log: v.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	nc, err := n.Dial(t.Context(), "worker", v.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	v.bus, err = bus.Open(nc, bus.Config{Log: v.log})
	if err != nil {
		t.Fatal(err)
	}
	v.nats = n
	return v
}
