package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is the result of a round of requests.
type load struct {
	perSecond float64
	seconds   float64
	p50, p99  time.Duration
	errors    int
}

func (l load) String() string {
	return fmt.Sprintf("%7.0f/s  p50 %-9s p99 %-9s", l.perSecond, roundDuration(l.p50), roundDuration(l.p99))
}

func roundDuration(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Microsecond)
}

func client(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns}}
}

// closedLoop runs clients for d; each sends its next request when it has the answer.
func closedLoop(ctx context.Context, url string, body []byte, clients int, d time.Duration) load {
	end := time.Now().Add(d)
	return requests(ctx, url, body, clients, func() bool { return time.Now().Before(end) })
}

// burst sends n requests from the clients, as fast as they are answered.
func burst(ctx context.Context, url string, body []byte, clients, n int) load {
	var left atomic.Int64
	left.Store(int64(n))
	return requests(ctx, url, body, clients, func() bool { return left.Add(-1) >= 0 })
}

func requests(ctx context.Context, url string, body []byte, clients int, more func() bool) load {
	c := client(clients)
	defer c.CloseIdleConnections()
	return runLoops(ctx, clients, more, func() error { return post(c, url, body) })
}

// runLoops calls once in parallel loops while more returns true, and measures the calls without an error.
func runLoops(ctx context.Context, loops int, more func() bool, once func() error) load {
	var mu sync.Mutex
	var took []time.Duration
	var errors atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range loops {
		wg.Go(func() {
			var mine []time.Duration
			for more() && ctx.Err() == nil {
				t := time.Now()
				if err := once(); err != nil {
					errors.Add(1)
					continue
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return summarize(took, time.Since(start), int(errors.Load()))
}

func post(c *http.Client, url string, body []byte) error {
	r, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode >= 300 {
		err = fmt.Errorf("%s: %.200s", r.Status, text)
	}
	return err
}

func summarize(took []time.Duration, all time.Duration, errors int) load {
	if len(took) == 0 {
		return load{errors: errors}
	}
	slices.Sort(took)
	return load{float64(len(took)) / all.Seconds(), all.Seconds(), took[len(took)/2], took[len(took)*99/100], errors}
}
