package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Our system and the floor are three roles of scripts/bench each: NATS, coordinator, worker.

func launchFloor(ctx context.Context, b *bench, p plan) (*system, error) {
	return pipeline(ctx, b, p, "floor")
}
func launchOurs(ctx context.Context, b *bench, p plan) (*system, error) {
	return pipeline(ctx, b, p, "ours")
}

// endpoints are the addresses of such a pipeline.
type endpoints struct {
	name string // ours or floor
	nats string // URL
	base string // of the HTTP API
	env  []string
}

func pipeline(ctx context.Context, b *bench, p plan, name string) (*system, error) {
	return launchSystem(ctx, b, p, func(s *system) (err error) {
		defer caught(&err)
		at := must(b.nats(ctx, s, p))
		at.name = name
		s.at = at
		must(b.coordinator(s))
		slots := strconv.Itoa(max(p.slots/max(p.workers, 1), 1))
		s.worker = func(worker string, env ...string) (*proc, error) {
			env = append(append(at.env[:len(at.env):len(at.env)], "AO_BENCH_ROLE="+name+"-worker", "AO_BENCH_TELL=1",
				"AO_BENCH_DEBUG=127.0.0.1:0", "AO_BENCH_WORKER="+worker, "AO_BENCH_SLOTS="+slots), env...)
			return start(child{kind: "workers", name: worker, path: b.program, env: env, tells: true,
				log: s.logFile(worker)})
		}
		c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
		s.closes = append(s.closes, c.CloseIdleConnections)
		s.accept = func(ctx context.Context, job []byte) error { return post(ctx, c, at.base, "", job) }
		s.answer = func(ctx context.Context, job []byte) error { return post(ctx, c, at.base, `,"mode":"sync"`, job) }
		s.empty = func(context.Context) (bool, error) { return true, nil } // the floor has no state
		if name == "ours" {
			s.empty = func(ctx context.Context) (bool, error) {
				text, err := get(ctx, c, at.base+"/runs?status=pending,claimed,running,stopping&limit=1")
				return strings.HasPrefix(text, `{"runs":[]`), err
			}
		}
		return nil
	})
}

// nats starts a NATS server with the plan's sync setting.
func (b *bench) nats(ctx context.Context, s *system, p plan) (_ *endpoints, err error) {
	defer caught(&err)
	var ports [2]string
	for i := range ports {
		ports[i] = must(freeAddr())
	}
	at := &endpoints{nats: "nats://" + ports[0], base: "http://" + ports[1]}
	at.env = append([]string{"AO_BENCH_DIR=" + s.dir, "AO_BENCH_HTTP=" + ports[1], "AO_BENCH_NATS=" +
		at.nats, "AO_BENCH_SYNC=" + p.sync()}, p.env...)
	must(s.startProcess(child{kind: "servers", name: "nats", path: b.program,
		env: append(at.env[:len(at.env):len(at.env)], "AO_BENCH_ROLE=nats", "AO_BENCH_DEBUG=127.0.0.1:0"),
		log: s.logFile("nats")}))
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return at, poll(ctx, 10*time.Millisecond, func() (bool, error) {
		nc, err := nats.Connect(at.nats)
		if err == nil {
			nc.Close()
		}
		return err == nil, nil
	})
}

func (b *bench) coordinator(s *system) (*proc, error) {
	env := append(s.at.env[:len(s.at.env):len(s.at.env)], "AO_BENCH_ROLE="+s.at.name+"-coordinator",
		"AO_BENCH_DEBUG=127.0.0.1:0")
	return s.startProcess(child{kind: "servers", name: "coordinator", path: b.program, env: env,
		log: s.logFile("coordinator")})
}

// post starts a run; more are further members of the request.
func post(ctx context.Context, c *http.Client, base, more string, job []byte) error {
	body := make([]byte, 0, len(job)+64)
	body = append(append(append(append(body, `{"agent_name":"noop","parameters":`...), job...), more...), '}')
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/runs", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	_, err = do(c, req)
	return err
}

func get(ctx context.Context, c *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return "", err
	}
	return do(c, req)
}

func do(c *http.Client, req *http.Request) (string, error) {
	r, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode >= 300 {
		err = fmt.Errorf("%s: %.300s", r.Status, text)
	}
	return string(text), err
}

// runState is a run in the API.
type runState struct {
	ID     string `json:"run_id"`
	Status string `json:"status"`
	Error  *struct {
		Code string `json:"error"`
	} `json:"error"`
}

func getRun(ctx context.Context, base, id string) (runState, error) {
	var r runState
	text, err := get(ctx, http.DefaultClient, base+"/runs/"+id)
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	return r, err
}
