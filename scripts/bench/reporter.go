package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"ao/coordinator/serve"
	"ao/scripts/try"
	"ao/shared/config"
	"ao/shared/executor"
	"ao/shared/run"
)

// scripts/bench/peers, which compares other systems, also starts the roles of this program. These environment
// variables are for it only:
//
//	AO_BENCH_TELL     the worker reports runs on stdout (see reporter)
//	AO_BENCH_HOLD     its runs do not end
//	AO_BENCH_SLOTS    its slots
//	AO_BENCH_WORKER   a name that is unique among workers
//	AO_BENCH_<NAME>   the coordinator's setting NAME, such as AO_BENCH_RUN_LEASE

// reporter reports each run to the parent process in 16 bytes: the number "at" of its parameters, and when it started.
// Both are in nanoseconds since 1970, little-endian. Two zeros first mean that the worker is ready.
type reporter chan [2]int64

func newReporter() reporter {
	if os.Getenv("AO_BENCH_TELL") == "" {
		return nil
	}
	t := make(reporter, 1024)
	go func() {
		out := bufio.NewWriter(os.Stdout)
		for pair := range t {
			binary.Write(out, binary.LittleEndian, pair)
			if len(t) == 0 {
				out.Flush()
			}
		}
	}()
	return t
}

func (t reporter) ready() {
	if t != nil {
		t <- [2]int64{}
	}
}

// started reports a job, which contains "at":NUMBER.
func (t reporter) started(job []byte) {
	if t == nil {
		return
	}
	_, rest, _ := bytes.Cut(job, []byte(`"at":`))
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	at, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	t <- [2]int64{max(at, 1), time.Now().UnixNano()}
}

// reportingNoop is a noop that reports its runs.
type reportingNoop struct {
	reporter
	hold bool
}

func (t reportingNoop) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	t.started(inv.Parameters)
	if t.hold {
		<-ctx.Done()
		return run.Outcome{Status: run.Stopped}
	}
	return noop{}.Run(ctx, inv, host)
}

// slotCount returns the slots of a worker.
func slotCount() int {
	if n, err := strconv.Atoi(os.Getenv("AO_BENCH_SLOTS")); err == nil && n > 0 {
		return n
	}
	return slots
}

// projectDir distinguishes a worker from others on the same machine; empty: the only one.
func projectDir() string {
	if name := os.Getenv("AO_BENCH_WORKER"); name != "" {
		return filepath.Join(os.Getenv("AO_BENCH_DIR"), name)
	}
	return ""
}

// coordinatorConfig returns the default configuration, with settings from AO_BENCH_<NAME>.
func coordinatorConfig() (cfg serve.Config) {
	try.Check(config.Parse(config.Program{Name: "bench"}, nil, func(name string) (string, bool) {
		return os.LookupEnv("AO_BENCH_" + name)
	}, cfg.Settings()...))
	cfg.HTTPAddr, cfg.Log = os.Getenv("AO_BENCH_HTTP"), warnLogger()
	cfg.NATS = serve.NATSConfig{URL: os.Getenv("AO_BENCH_NATS")}
	return cfg
}
