package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ao/scripts/try"
)

// watchers is the number of readers of the live list in part watch.
const watchers = 10

// watch measures what ten readers of GET /sse/runs cost the callers, in alternating rounds with and without them. At
// full load the readers get the number of changed runs, not the runs: an item has at most 200 rows.
func (b bench) watch(ctx context.Context, fsync string) {
	ours := launch(ctx, b.ours(fsync))
	defer ours.end()
	clients := b.clients[len(b.clients)-1]
	closedLoop(ctx, ours.url, body["sync"], clients, time.Second) // warm-up
	var alone, watched []load
	var usedAlone, usedWatched [][]time.Duration
	var read int64
	for range b.rounds {
		l, used := ours.measure(func() load { return closedLoop(ctx, ours.url, body["sync"], clients, b.length) })
		alone, usedAlone = append(alone, l), append(usedAlone, used)
		bytes, stop := openWatchers(ctx, strings.TrimSuffix(ours.url, "/runs")+"/sse/runs")
		l, used = ours.measure(func() load { return closedLoop(ctx, ours.url, body["sync"], clients, b.length) })
		watched, usedWatched = append(watched, l), append(usedWatched, used)
		stop()
		read += bytes.Load()
	}
	a, w := median(alone), median(watched)
	fmt.Printf("×%-4d alone       %s  cpu/run %s   errors %d\n", clients, a, perRun(ours, usedAlone, alone), a.errors)
	fmt.Printf("×%-4d %d watchers %s  cpu/run %s   errors %d   throughput ×%.3f   %d bytes/s for each\n",
		clients, watchers, w, perRun(ours, usedWatched, watched), w.errors, w.perSecond/a.perSecond,
		int64(float64(read)/watchers/b.length.Seconds())/int64(b.rounds))
}

// openWatchers reads live lists until stop; bytes counts what they received.
func openWatchers(ctx context.Context, url string) (bytes *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	bytes = &atomic.Int64{}
	var wg sync.WaitGroup
	stop = func() { cancel(); wg.Wait() }
	for range watchers {
		res := try.Must(http.DefaultClient.Do(try.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))))
		if res.StatusCode != http.StatusOK {
			try.Failf("GET %s: %s", url, res.Status)
		}
		wg.Go(func() {
			defer res.Body.Close()
			_, _ = io.Copy(counter{bytes}, res.Body)
		})
	}
	return bytes, stop
}

// counter counts the bytes written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
