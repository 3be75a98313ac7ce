package state

import (
	"runtime"
	"testing"
)

// prompted are n ended runs whose prompts are prose of about so many bytes; every tenth failed.
// A run with a long prompt is kept in less than 0.9 KiB, its session and its search text included.
func TestMemoryOfRunsWithPrompts(t *testing.T) {
	runs := 30_000
	if raced() {
		runs = 5_000
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	f := newReducer(nil)
	before := heap()
	seq := 0
	for range runs / 1000 {
		for _, m := range prompted(t, 1000, 400) {
			seq++
			m.Seq = uint64(seq)
			f.Apply(m)
		}
	}
	per := float64(heap()-before) / float64(runs)
	t.Logf("%.0f bytes for an ended run with its session and a prompt of 400 bytes", per)
	if f.ended != runs || per > 0.9*1024 {
		t.Errorf("%d ended runs, %.0f bytes each; want at most 921", f.ended, per)
	}
	runtime.KeepAlive(f)
}
