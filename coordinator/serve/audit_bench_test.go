package serve_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"ao/coordinator/serve"
)

// BenchmarkAPostWithAudit is what a run's POST costs with and without the stream AUDIT, every record synced to disk.
// Runs wait for a runner that there is not, so that nothing else writes.
func BenchmarkAPostWithAudit(b *testing.B) {
	for _, tt := range []struct {
		name string
		none bool
	}{{"none", true}, {"stream", false}} {
		b.Run(tt.name, func(b *testing.B) {
			quiet := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}))
			s := start(b, func(c *serve.Config) {
				c.NoAuditStream, c.NATS.Sync, c.Log, c.NATS.Log = tt.none, "always", quiet, quiet
				c.Coordinator.MaxPending = 1 << 30
			})
			s.post("/agents", `{"name":"nobodys","demands":{"tags":["none"]}}`).want(201)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					res, err := client.Post(s.url+"/runs", "application/json",
						strings.NewReader(`{"agent_name":"nobodys","prompt":"x"}`))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					if res.Body.Close(); res.StatusCode != http.StatusCreated {
						b.Errorf("%s", res.Status)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
		})
	}
}
