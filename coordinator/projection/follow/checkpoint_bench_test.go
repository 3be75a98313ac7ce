package follow

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
)

// heapNow returns the bytes of all objects on the heap, garbage included.
func heapNow() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// mostHeap returns how much the heap grew at most while f ran.
func mostHeap(f func()) (grown uint64) {
	runtime.GC()
	before, over := heapNow(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-over:
				tick.Stop()
				return
			case <-tick.C:
				if now := heapNow(); now > before {
					grown = max(grown, now-before)
				}
			}
		}
	})
	f()
	close(over)
	wg.Wait()
	return grown
}

// BenchmarkCheckpoint writes and reads a checkpoint of a million ended runs, each with its own session.
func BenchmarkCheckpoint(b *testing.B) {
	const runs = 1_000_000
	j := joinedIn(b.TempDir(), nil, projection.Config{})
	j.checkpoints.identity = "x"
	seq := 0
	for range runs / 1000 {
		for _, m := range plain(b, 1000) {
			seq++
			m.Seq = uint64(seq)
			j.Apply(m)
		}
	}
	b.Run("write", func(b *testing.B) {
		var done SnapshotStats
		var grown uint64
		for b.Loop() {
			grown = max(grown, mostHeap(func() {
				var err error
				done, err = j.checkpoints.save(func() {})
				if err != nil {
					b.Fatal(err)
				}
			}))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/runs, "ns/run")
		b.ReportMetric(float64(done.Bytes)/runs, "bytes/run")
		b.ReportMetric(float64(grown)/(1<<20), "MiB-heap")
		b.ReportMetric(float64(done.Longest.Microseconds()), "us-locked")
	})
	j.Restore(state.New(nil, nil, 0))
	b.Run("read", func(b *testing.B) {
		var grown uint64
		for b.Loop() {
			grown = max(grown, mostHeap(func() {
				f, err := j.checkpoints.read()
				if err != nil {
					b.Fatal(err)
				}
				if n, _ := state.Kept(f); n != runs {
					b.Fatal(err)
				}
			}))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/runs, "ns/run")
		b.ReportMetric(float64(grown)/(1<<20), "MiB-heap")
	})
}
