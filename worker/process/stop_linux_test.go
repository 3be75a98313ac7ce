package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestStopLeavesNothing ends trees that do all they can to stay, several times, and finds nothing of them. Each
// writes its numbers to $1.
func TestStopLeavesNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n      int
		script string
	}{
		{"grandchildren that ignore SIGTERM, under a parent that obeys", 2,
			`sh -c 'sh -c "trap \"\" TERM; echo \$\$ >>$0; while :; do sleep 1; done" $0 & echo $$ >>$0; wait' $1 & ` +
				`wait`},
		{"a daemon, twice forked, that ignores SIGTERM", 1,
			`setsid sh -c '(trap "" TERM; sh -c "echo \$\$ >>$0; sleep 100; sleep 100") </dev/null >/dev/null 2>&1 & ` +
				`exit' $1; while :; do sleep 1; done`},
		{"a daemon that holds the pipes, under a parent that is gone", 1,
			`setsid sh -c '(trap "" TERM; sh -c "echo \$\$ >>$0; sleep 100; sleep 100") & exit' $1; while ! [ -s $1 ` +
				`]; do sleep 0.01; done; while :; do sleep 1; done`},
		{"all of them ignore SIGTERM",
			2, `trap "" TERM; setsid sh -c 'echo $$ >>$0; sleep 100' $1 & echo $$ >>$1; while :; do sleep 1; done`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			os.WriteFile(file, nil, 0o600)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s := sh(tt.script, file)
			s.Grace = 100 * time.Millisecond
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { _, err = Run(ctx, s) })
			all := pids(t, file, tt.n)
			cause := errors.New("stop")
			for range 3 {
				cancel(cause)
			}
			start := time.Now()
			wg.Wait()
			if took := time.Since(start); took > 10*time.Second || !errors.Is(err, cause) {
				t.Errorf("it took %v and gave %v", took, err)
			}
			for _, pid := range all {
				if syscall.Kill(pid, 0) == nil {
					t.Errorf("%d is left", pid)
				}
			}
		})
	}
}

// TestKill: a killed program ends immediately, in its grace period or before it.
func TestKill(t *testing.T) {
	for _, tt := range []struct {
		name  string
		grace bool
	}{{"in its grace", true}, {"at once", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			stop, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			kill, end := context.WithCancel(t.Context())
			defer end()
			s := sh(`trap 'echo asked' TERM; sh -c 'trap "" TERM; echo $$ >>$0; while :; do sleep 1; done' $1 & echo `+
				`ready; while :; do sleep 0.01; done`, file)
			s.Grace, s.Kill = time.Minute, kill.Done()
			cause := errors.New("stop")
			s.OnStdout = func(line []byte) {
				switch {
				case string(line) == "asked":
					end()
				default:
					pids(t, file, 1)
					cancel(cause)
					if !tt.grace {
						end()
					}
				}
			}
			start := time.Now()
			e, err := Run(stop, s)
			if took := time.Since(start); took > 10*time.Second || !errors.Is(err, cause) ||
				e.signal != syscall.SIGKILL {
				t.Errorf("it took %v and gave %v, signal %d", took, err, e.signal)
			}
			for _, pid := range pids(t, file, 1) {
				if syscall.Kill(pid, 0) == nil {
					t.Errorf("%d is left", pid)
				}
			}
		})
	}
}

// TestStopCrossesTheEnd: a stop at about the natural end has one of two outcomes, and nothing in between.
func TestStopCrossesTheEnd(t *testing.T) {
	cause := errors.New("stop")
	ended, stopped := 0, 0
	for i := range 60 {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := sh(`echo done`)
		s.Grace = 100 * time.Millisecond
		s.OnStdout = func([]byte) { time.AfterFunc(time.Duration(i*20)*time.Microsecond, func() { cancel(cause) }) }
		e, err := Run(ctx, s)
		switch {
		case err == nil && e.Code == 0 && string(e.Stdout) == "done\n":
			ended++
		case errors.Is(err, cause) && e.Started && strings.HasPrefix("done\n", string(e.Stdout)):
			stopped++
		default:
			t.Fatalf("got %+v, %v", e, err)
		}
		cancel(nil)
	}
	t.Logf("%d ended, %d stopped", ended, stopped)
}
