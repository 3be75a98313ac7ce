package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"

	"ao/scripts/try"
)

// The extra load of the second side of part apart: runs that match no runner, almost the maximum, and webhooks that
// hang.
const (
	waitingRuns     = 99_000
	hangingWebhooks = 40
)

// isolation measures one waiting caller under that load, beside a side without other load.
func (b bench) isolation(ctx context.Context, fsync string) {
	free, burdened := b.ours(fsync), b.ours(fsync)
	burdened.env = []string{
		"AO_BENCH_AO_CALLBACK_HOSTS=*", "AO_BENCH_AO_CALLBACK_NETWORKS=127.0.0.0/8",
		"AO_BENCH_AO_CALLBACK_SECRET=whsec_" + base64.StdEncoding.EncodeToString([]byte(rand.Text()+rand.Text())),
	}
	all, end := launchAll(ctx, []string{"alone", "burdened"}, []layout{free, burdened})
	defer end()
	hold := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer receiver.Close()
	defer close(hold)
	for _, l := range []load{
		burst(ctx, all[1].url, []byte(`{"agent_name":"noop","additional_demands":{"hostname":"nowhere"}}`), 64,
			waitingRuns),
		burst(ctx, all[1].url, []byte(`{"agent_name":"noop","callback_url":"`+receiver.URL+`"}`), 8, hangingWebhooks),
	} {
		if l.errors > 0 {
			try.Failf("%d requests of the burden were refused", l.errors)
		}
	}
	for round := range b.rounds + 1 {
		for _, e := range all {
			l, used := e.measure(func() load { return closedLoop(ctx, e.url, body["sync"], 1, b.length) })
			if round > 0 { // the first round is a warm-up
				e.loads, e.used = append(e.loads, l), append(e.used, used)
			}
		}
	}
	for _, e := range all {
		m := median(e.loads)
		fmt.Printf("%-9s %s  cpu/run %s   p50 ×%.3f   errors %d\n", e.name, m, perRun(e.side, e.used, e.loads),
			float64(m.p50)/float64(median(all[0].loads).p50), m.errors)
	}
}
