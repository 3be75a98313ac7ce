package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary run as a worker, as the program does.
func TestMain(m *testing.M) {
	if role := os.Getenv("AO_PEERS_ROLE"); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := roles[role](ctx); err != nil && ctx.Err() == nil {
			os.Stderr.WriteString(role + ": " + err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

var folder string

// program is scripts/bench, built once.
var program = sync.OnceValues(func() (path string, err error) {
	folder, err = os.MkdirTemp("", "ao-peers-test-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "bench")
	return path, build(context.Background(), path)
})

func programPath(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var implausible = regexp.MustCompile(`\d{4,}\.\d s`)

// measure runs the command with small numbers and returns its output.
func measure(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	args = append([]string{"-program", programPath(t)}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := command(ctx, args, &out, t.Output()); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &out)
	}
	if strings.Contains(out.String(), "FAILED") {
		t.Errorf("%v:\n%s", args, &out)
	}
	if implausible.MatchString(out.String()) {
		t.Errorf("%v: a time of an hour and more, which nothing here takes:\n%s", args, &out)
	}
	return out.String()
}

// TestJobs runs a few jobs on each installed system.
func TestJobs(t *testing.T) {
	for _, name := range []string{"floor", "ours", "asynq", "river"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			for _, c := range contenders() {
				if err := missingProgram(c.needs); err != nil && strings.HasPrefix(c.name, name) {
					t.Skip(err)
				}
			}
			out := measure(t, "-only", "jobs", "-systems", name, "-rounds", "1", "-seconds", "0.2", "-jobs", "100",
				"-producers", "4")
			for _, c := range contenders() {
				if strings.HasPrefix(c.name, name) && !strings.Contains(out, "| "+c.name) {
					t.Errorf("no row for %s:\n%s", c.name, out)
				}
			}
		})
	}
}

// TestRecovery kills a worker of our system; the others take too long for a test.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, l := range lossCases() {
		if !strings.HasPrefix(l.settings, "RUN_LEASE") {
			continue
		}
		t.Run(l.name+" "+l.settings, func(t *testing.T) {
			t.Parallel()
			b := small(t)
			wait, err := b.startAndKill(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			took, err := wait()
			if err != nil {
				t.Fatal(err)
			}
			if took < 500*time.Millisecond || took > 20*time.Second {
				t.Errorf("settled after %s", took)
			}
		})
	}
}

func small(t *testing.T) *bench {
	t.Helper()
	b := &bench{program: programPath(t), out: t.Output(), log: t.Output(), dir: t.TempDir(), text: 100, producers: 4,
		slots: 8, jobs: 100, length: 200 * time.Millisecond, patience: 30 * time.Second}
	return b
}

func TestInvalidFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-rounds 0", "-rounds must be more than 0"},
		{"-systems kafka", `there is no "kafka"`},
		{"-only sleep", "there are jobs and recovery"},
		{"here", "unexpected argument"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out bytes.Buffer
			if err := command(t.Context(), strings.Fields(tt.args), &out, t.Output()); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestSubmittedAt reads the time of submission from a job.
func TestSubmittedAt(t *testing.T) {
	at := time.Now()
	if got := submittedAt(job(at, 10)); got != at.UnixNano() {
		t.Errorf("got %d, want %d", got, at.UnixNano())
	}
	if got := submittedAt([]byte(`{"at": 17, "text": ""}`)); got != 17 {
		t.Errorf("as PostgreSQL writes it: got %d, want 17", got)
	}
	if got := submittedAt([]byte(`{}`)); got != 1 {
		t.Errorf("a job without a time: got %d, want 1", got)
	}
}
