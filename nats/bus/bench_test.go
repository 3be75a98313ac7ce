package bus_test

import (
	"fmt"
	"sync"
	"testing"

	"ao/nats/natstest"
)

// BenchmarkEvents compares the events of a run one by one with packs of them, by sync. Eight runs publish at once; an
// op is an event that is stored.
func BenchmarkEvents(b *testing.B) {
	for _, disk := range []string{"always", "2m"} {
		for _, way := range []string{"single", "packs"} {
			b.Run(fmt.Sprintf("sync=%s/%s", disk, way), func(b *testing.B) {
				var opts []natstest.Option
				if disk == "always" {
					opts = append(opts, natstest.SyncAlways)
				}
				bb := natstest.Proc(b, opts...).Bus(b)
				var all sync.WaitGroup
				b.ResetTimer()
				for range 8 {
					all.Go(func() {
						e := bb.Emitter(b.Context(), seal)
						for n := range b.N / 8 {
							var err error
							if event := numbered(n, 500); way == "packs" {
								err = e.EmitPacked(b.Context(), event)
							} else {
								err = e.Emit(b.Context(), event.Subject, event.Body)
							}
							if err != nil {
								b.Error(err)
							}
						}
						if _, err := e.Flush(b.Context()); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
