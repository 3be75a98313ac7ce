package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// peak watches how much memory is in use until it is asked.
func peak() (ask func() uint64) {
	over, most := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		var high uint64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			high = max(high, m.HeapInuse)
			select {
			case <-tick.C:
			case <-over:
				most <- high
				return
			}
		}
	}()
	return func() uint64 { close(over); return <-most }
}

// answerOf reads an answer's status line and headers, with what time there is.
func answerOf(c io.Reader) string {
	b := make([]byte, 4<<10)
	n, _ := io.ReadAtLeast(c, b, 12)
	return string(b[:n])
}

// TestSlowBodies: a caller that announces much, sends a part and stalls holds what came, no more than a share, and
// keeps nobody else out.
func TestSlowBodies(t *testing.T) { // alone: it measures the memory of the process
	s := secure(t, func(c *serve.Config) { c.BodyMemory = 64 << 20 })
	s.post("/agents", `{"name":"plain"}`, s.admin).want(201)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	ask := peak()
	const size = 16 << 20
	part := strings.Repeat("x", 1<<20)
	head := fmt.Sprintf("POST /runs/validate HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n", s.read,
		size)
	var wg sync.WaitGroup
	refused := make(chan string, 100)
	for range 100 {
		wg.Go(func() {
			c := s.dial(head)
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = io.WriteString(c, part)
			_ = c.SetReadDeadline(time.Now().Add(6 * time.Second))
			if a := answerOf(c); a != "" {
				refused <- a
			}
		})
	}
	wg.Wait()
	if high := ask(); high > before.HeapInuse+200<<20 {
		t.Errorf("100 bodies that stall take %d MiB", (high-before.HeapInuse)>>20)
	}
	if len(refused) < 40 {
		t.Errorf("%d of 100 large bodies were refused", len(refused))
	}
	for range len(refused) {
		if a := <-refused; !strings.HasPrefix(a, "HTTP/1.1 503 ") || !strings.Contains(a, "Retry-After: ") ||
			!strings.Contains(a, "AO_BODY_MEMORY") {
			t.Errorf("refused with %.300q", a)
		}
	}
	for range 10 { // small ones of the same caller, and large ones of another, come through
		s.post("/runs/validate", `{"agent_name":"plain","prompt":"x"}`, s.read).want(200)
	}
	s.post("/runs/validate", `{"agent_name":"plain","prompt":"`+part+`"}`, s.run).want(200)
}

// TestManyLargeBodies: whole ones are checked a few at a time; the others wait, or are refused with Retry-After.
func TestManyLargeBodies(t *testing.T) { // alone: it measures the memory of the process
	s := secure(t, func(c *serve.Config) { c.BodyMemory = 40 << 20 })
	const checked = 200
	s.post("/agents", `{"name":"tool","parameters_schema":{"type":"object"}}`, s.admin).want(201)
	body := `{"agent_name":"tool","parameters":{"p":"` + strings.Repeat("x", 5<<20) + `"}}`
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	ask := peak()
	var wg sync.WaitGroup
	callers := natstest.Load(12, 50)
	codes := make(chan int, callers)
	for range callers {
		wg.Go(func() {
			req, _ := http.NewRequest("POST", s.url+"/runs/validate", strings.NewReader(body))
			name, value, _ := strings.Cut(s.read, ": ")
			req.Header.Set(name, value)
			res, err := http.DefaultClient.Do(req)
			if err != nil { // refused while it was being sent
				codes <- 503
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			codes <- res.StatusCode
		})
	}
	wg.Wait()
	if high, most := ask(), uint64(natstest.Load(110, 240)); high > before.HeapInuse+most<<20 {
		t.Errorf("%d bodies of 5 MiB: got %d MiB, want at most %d", callers, (high-before.HeapInuse)>>20, most)
	}
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	if count[checked] == 0 || count[checked]+count[503] != callers {
		t.Errorf("%d callers: got answers %v, want only 200 and 503", callers, count)
	}
	natstest.Until(t, "there is room again",
		func() bool { return s.post("/runs/validate", body, s.read).status == checked })
}

// TestManyReadersOfALargeBody: they are answered one after the other.
func TestManyReadersOfALargeBody(t *testing.T) { // alone: it measures the memory of the process
	s := start(t, func(c *serve.Config) { c.BodyMemory = 64 << 20 })
	const size = 3 << 20
	s.workAs(thinker("mind"), func(run.Queued) run.Outcome { return done(`1`) })
	s.post("/agents", `{"name":"tool","parameters_schema":{"type":"object"}}`).want(201)
	acc := s.submit(`{"agent_name":"tool","parameters":{"p":"` + strings.Repeat("y", size) + `"}}`)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	ask := peak()
	var wg sync.WaitGroup
	readers := natstest.Load(20, 100)
	for range readers {
		wg.Go(func() {
			res, err := http.Get(s.url + "/runs/" + acc.RunID)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			n, _ := io.Copy(io.Discard, res.Body)
			if res.StatusCode != 503 && (res.StatusCode != 200 || n < size) {
				t.Errorf("%d with %d bytes", res.StatusCode, n)
			}
		})
	}
	wg.Wait()
	if high, most := ask(), uint64(natstest.Load(140, 250)); high > before.HeapInuse+most<<20 {
		t.Errorf("%d readers of 3 MiB: got %d MiB, want at most %d", readers, (high-before.HeapInuse)>>20, most)
	}
}

// TestWaitingCallerHoldsNoBody: over NATS, too, the memory of a large body is returned once its run is stored, however
// long that takes.
func TestWaitingCallerHoldsNoBody(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.BodyMemory = 64 << 20 })
	gate := make(chan struct{})
	s.workAs(thinker("mind"), func(run.Queued) run.Outcome { <-gate; return done(`1`) })
	s.post("/agents", `{"name":"tool","parameters_schema":{"type":"object"}}`).want(201)
	defer close(gate)
	const many, size = 12, 800 << 10 // 4 times as much for each, of a share of 32 MiB
	body := `{"agent_name":"tool","mode":"sync","wait_seconds":60,"parameters":{"p":"` +
		strings.Repeat("x", size) + `"}}`
	for i := range many {
		sub, err := s.nc.SubscribeSync(s.nc.NewInbox())
		if err == nil {
			err = s.nc.PublishRequest(subject.APIRunsCreate, sub.Subject, []byte(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, "the run is stored, or refused", func() bool {
			if n, _, _ := sub.Pending(); n > 0 {
				r, err := sub.NextMsg(time.Second)
				t.Fatalf("number %d is answered at once: %s %v", i, r.Data, err)
			}
			runs, _ := s.get("/runs").want(200)["runs"].([]any)
			return len(runs) == i+1
		})
	}
}

// Publishers that wait for their runs leave room for others' requests.
func TestWaitingPublishersBlockNobody(t *testing.T) {
	t.Parallel()
	s := start(t)
	gate := make(chan struct{})
	s.work(func(run.Queued) run.Outcome { <-gate; return done(`1`) }, echo("tool"))
	defer close(gate)
	sub, err := s.nc.SubscribeSync(s.nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	const many = 300 // more than are worked on at once
	for range many {
		if err := s.nc.PublishRequest(subject.APIRunsCreate, sub.Subject,
			[]byte(`{"agent_name":"tool","mode":"sync","wait_seconds":60,"parameters":{}}`)); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := s.nc.Request(subject.APIRunsCreate, []byte(`{"agent_name":"tool","parameters":{}}`), 30*time.Second)
	if err != nil || answer.Header.Get("status") != "201" {
		t.Fatalf("an asynchronous request: %v, %v", answer, err)
	}
	if n, _, _ := sub.Pending(); n > 0 {
		t.Errorf("%d of those that wait are answered", n)
	}
}
