package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"

	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkAppend compares Append with a plain publish, by callers at once and sync. The figures that matter
// are ratios within one run: at 1 caller equal, at 128 with sync always several times as much.
func BenchmarkAppend(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1024)
	for _, sync := range []string{"always", "2m"} {
		for _, callers := range []int{1, 16, 128} {
			for _, way := range []string{"plain", "append"} {
				b.Run(fmt.Sprintf("sync=%s/callers=%d/%s", sync, callers, way), func(b *testing.B) {
					var opts []natstest.Option
					if sync == "always" {
						opts = append(opts, natstest.SyncAlways)
					}
					s := natstest.Proc(b, opts...)
					bb := s.Bus(b)
					js, err := jetstream.New(s.Conn(b))
					if err != nil {
						b.Fatal(err)
					}
					write := func(n int) error {
						if way == "plain" {
							_, err := js.Publish(context.Background(), ended(n), body)
							return err
						}
						_, err := bb.Append(context.Background(), bus.Entry{Subject: ended(n), Body: body})
						return err
					}
					run(b, callers, write)
				})
			}
		}
	}
}

// run divides b.N writes among callers.
func run(b *testing.B, callers int, write func(n int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
				if err := write(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

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
