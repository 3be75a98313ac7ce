package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSpawn compares Run with a bare os/exec loop: 64 concurrent programs that do nothing.
func BenchmarkSpawn(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH")}
	bare := func(b *testing.B) {
		var out, errs bytes.Buffer
		c := exec.Command(path)
		c.Env, c.Stdout, c.Stderr = env, &out, &errs
		if err := c.Run(); err != nil {
			b.Error(err)
		}
	}
	ours := func(b *testing.B) {
		if _, err := Run(b.Context(), Spec{Path: path, Env: env}); err != nil {
			b.Error(err)
		}
	}
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("at once=%d", n), func(b *testing.B) {
			// In turns, so that what else the machine does falls on both.
			round := func(do func(*testing.B)) (wall, cpu time.Duration) {
				start, used := time.Now(), cpuTime()
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						for range max(1, 64/n) {
							do(b)
						}
					})
				}
				wg.Wait()
				return time.Since(start), cpuTime() - used
			}
			var sum [4]time.Duration
			for b.Loop() {
				for i, do := range []func(*testing.B){bare, ours} {
					wall, cpu := round(do)
					sum[2*i] += wall
					sum[2*i+1] += cpu
				}
			}
			b.ReportMetric(float64(sum[0])/float64(sum[2]), "speed/bare")
			b.ReportMetric(float64(sum[3])/float64(sum[1]), "cpu/bare")
			b.ReportMetric(float64(64*b.N)/sum[2].Seconds(), "runs/s")
		})
	}
}

// BenchmarkConfined is the cost of each step of a confinement for a program that does nothing.
func BenchmarkConfined(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		c    *Confinement
	}{
		{"none", nil},
		{"own TMPDIR", &Confinement{}},
		{"limits", &Confinement{Limits: Limits{CPUSeconds: 9, MemoryMB: 1000, FileMB: 100, OpenFiles: 100}}},
		{"sandbox", &Confinement{Sandbox: Sandbox{Kind: Bubblewrap}}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			if tt.c != nil {
				if err := tt.c.Supported(); err != nil {
					b.Skip(err)
				}
			}
			for b.Loop() {
				if e, err := Run(b.Context(), Spec{Path: path, Confinement: tt.c,
					Env: []string{"PATH=" + os.Getenv("PATH")}}); err != nil || e.Code != 0 {
					b.Fatal(err, e)
				}
			}
		})
	}
}

// cpuTime returns the CPU time of this process and of all children it waited for.
func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		syscall.Getrusage(who, &u)
		sum += cpu(u)
	}
	return sum
}
