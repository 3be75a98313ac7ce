package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLargeBodiesTogether: the large bodies of a run in memory are limited; small requests still work.
func TestLargeBodiesTogether(t *testing.T) {
	const most = 2 << 20
	stuck, free := make(chan struct{}, 100), make(chan struct{})
	g, d, h := open(t, Config{MaxState: most}, func(r *Run) {
		r.Keep = func(ctx context.Context, _ []byte) error {
			stuck <- struct{}{}
			select {
			case <-free:
			case <-ctx.Done():
			}
			return nil
		}
	})
	defer d.Close() // nobody is waited for where this fails
	h.state = []byte("kept")
	other, _ := openEndpoint(g, "2")
	large := strings.Repeat("x", most)
	var wg sync.WaitGroup
	answers := make(chan int, 100)
	put := func(n int, body func() io.Reader) {
		for range n {
			wg.Go(func() {
				r, _ := http.NewRequest("PUT", d.URL+"/state", body())
				if a, err := client.Do(r); err == nil {
					a.Body.Close()
					answers <- a.StatusCode
				}
			})
		}
		for range n {
			select {
			case <-stuck:
			case <-time.After(20 * time.Second):
				t.Fatal("they are not let in")
			}
		}
	}
	put(8, func() io.Reader { return io.MultiReader(strings.NewReader("small, and its length not told")) })
	put(maxLargeBodies, func() io.Reader { return strings.NewReader(large) })
	for method, sent := range map[string]string{"PUT": large, "GET": ""} {
		if status, head, body := ask(t, method, d.URL+"/state", sent); status != 429 || head.Get("Retry-After") == "" {
			t.Errorf("%s gets %d %.100s", method, status, body)
		}
	}
	if status, _, body := ask(t, "POST", d.URL+"/bind", `{"executor_session_id":"m"}`); status != 200 {
		t.Errorf("a small one gets %d %s", status, body)
	}
	if status, _, _ := ask(t, "PUT", other.URL+"/state", large); status != 200 {
		t.Errorf("another run gets %d", status)
	}
	close(free)
	wg.Wait()
	close(answers)
	for status := range answers {
		if status != 200 {
			t.Errorf("one got %d", status)
		}
	}
	if status, _, body := ask(t, "GET", d.URL+"/state", ""); status != 200 || body != "kept" {
		t.Errorf("then %d %s", status, body)
	}
}
