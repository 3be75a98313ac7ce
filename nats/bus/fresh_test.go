package bus_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
)

// The consumer of a list may be at a replica that has yet to catch up. What was written before the list started is in
// it all the same.
func TestListHasWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	k := c.Bus(t).Bucket(subject.Agents)
	long := bytes.Repeat([]byte("x"), 100_000)
	const keys, last = 20, 400
	write := func(from, to int) {
		for n := from; n <= to; n++ {
			natstest.Until(t, "it is written", func() bool {
				_, err := k.Put(t.Context(), fmt.Sprint("k", n%keys), fmt.Appendf(nil, "%d %s", n, long))
				return err == nil
			})
		}
	}
	write(1, keys)
	c.Current()
	back := c.Servers[1]
	back.Kill()
	write(keys+1, last)
	natstest.Until(t, "a key is deleted", func() bool { return k.Delete(t.Context(), "k1") == nil })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			all, err := k.List(t.Context())
			_, there := all["k1"]
			if newest := all["k0"].Body; err != nil || there || len(all) != keys-1 ||
				!bytes.HasPrefix(newest, fmt.Appendf(nil, "%d ", last)) {
				t.Errorf("list %d: %d keys, the deleted one %v, the newest begins with %.5q, %v", n, len(all), there,
					newest, err)
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	back.Start()
	c.Current()
	close(stop)
	wg.Wait()
}
