package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"ao/shared/executor"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// What part ui shows to a browser. Runs and events can be set by flags.
const (
	treeSessions = 5000
	treeFan      = 3 // children of a session: the tree has eight levels below its root, the most that there may be
	rateOfRuns   = 1000
)

// The budgets of the dashboard.
const (
	mostFirstLoad = 150.0 * 1024 // bytes, compressed
	mostRequests  = 12           // of the first load, files and calls of the API
	mostNodes     = 3000
	mostGrowth    = 10.0 // MiB of heap
	mostFrame     = 50.0 // ms, p95
)

// screen is a browser before a side.
type screen struct {
	*side
	browser context.Context
	bench
}

// ui is what the dashboard costs a browser that has much to show. Browser, load and system share the machine.
func (b bench) ui(ctx context.Context, fsync string) error {
	layout := b.ours(fsync)
	layout.kind = "ui"
	ours, err := launch(ctx, layout)
	if err != nil {
		return err
	}
	defer ours.end()
	browser, end, err := browse(ctx)
	if err != nil {
		return err
	}
	defer end()
	s := screen{ours, browser, b}
	for _, part := range []func(context.Context) error{s.firstLoad, s.events, s.tree, s.list, s.busy} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verdict is a figure beside its budget.
func verdict(value, most float64, unit string) string {
	word := "held"
	if value > most {
		word = "MISSED"
	}
	return fmt.Sprintf("%.0f %s (budget %.0f: %s)", value, unit, most, word)
}

// firstLoad is what comes and how long it takes until the pages are whole, each in a profile that has nothing.
func (s screen) firstLoad(context.Context) error {
	for _, path := range []string{"/ui/", "/ui/runs", "/ui/new", "/ui/agents/noop"} {
		p, err := visit(s.browser, s.base+path)
		if err != nil {
			return err
		}
		at, err := eval[float64](p, "window.shownAt")
		requests, files, bytes := p.loaded()
		p.end()
		if err != nil {
			return err
		}
		kib := verdict(bytes/1024, mostFirstLoad/1024, "KiB")
		asked := verdict(float64(requests), mostRequests, "requests")
		fmt.Printf("first load of %-16s %4.0f ms, %s, %s, %d of them for files\n", path, at, kib, asked, files)
	}
	return nil
}

// events is a run's page while the run tells its events.
func (s screen) events(ctx context.Context) error {
	for _, of := range []string{"runs", "sessions"} {
		if err := s.eventsOf(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

func (s screen) eventsOf(ctx context.Context, of string) error {
	id, session, err := s.start(ctx, fmt.Sprintf(`{"agent_name":"noop","parameters":{"events":%d,"after":3}}`, s.uiEvents))
	if err != nil {
		return err
	}
	path := map[string]string{"runs": id, "sessions": session}[of]
	p, err := visit(s.browser, s.base+"/ui/"+of+"/"+path)
	if err != nil {
		return err
	}
	defer p.end()
	before, err := p.heap()
	if err != nil {
		return err
	}
	begin := time.Now()
	f, err := p.frames(5*time.Second, "")
	if err != nil {
		return err
	}
	const over = `/completed|finished/.test(document.querySelector("h1").innerText) && document.body.innerText.includes("the last event")`
	if err := p.until(over, 100*time.Second); err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := p.heap()
	if err != nil {
		return err
	}
	nodes, err := eval[float64](p, `document.querySelectorAll("*").length`)
	fmt.Printf("%d events on the page of /%s: heap %.1f MiB, then %.1f: %s more; %s; all shown after %.1f s; frames meanwhile %s: p95 %s\n",
		s.uiEvents, of, before, after, verdict(after-before, mostGrowth, "MiB"), verdict(nodes, mostNodes, "nodes"),
		took.Seconds(), f, verdict(f.P95, mostFrame, "ms"))
	return err
}

// tree is the page of a session with thousands below it.
func (s screen) tree(ctx context.Context) error {
	root, err := s.grow(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	p, err := visit(s.browser, s.base+"/ui/sessions/"+root+"/tree")
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.until(`document.body.innerText.includes("5,000 sessions")`, time.Minute); err != nil {
		return err
	}
	shown := time.Since(begin)
	requests, files, bytes := p.loaded()
	unfold, err := eval[float64](p, `new Promise((done) => { const start = performance.now();
		[...document.querySelectorAll("button")].find((b) => b.textContent.trim() === "Unfold all").click();
		requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))); })`)
	if err != nil {
		return err
	}
	return s.scrolled(p, fmt.Sprintf("a tree of %d sessions: all there after %.0f ms, %d requests, %d of them for files, %.0f KiB; unfolded in %.0f ms",
		treeSessions, shown.Seconds()*1000, requests, files, bytes/1024, unfold))
}

// scrolled prints what a page says of itself while it is scrolled, and after it.
func (s screen) scrolled(p *tab, what string) error {
	f, err := p.frames(5*time.Second, `document.querySelector("[data-scroller]").scrollBy(0, 400)`)
	if err != nil {
		return err
	}
	nodes, err := eval[float64](p, `document.querySelectorAll("*").length`)
	if err != nil {
		return err
	}
	heap, err := p.heap()
	fmt.Printf("%s; %s; heap %.1f MiB; frames while it scrolls %s: p95 %s\n",
		what, verdict(nodes, mostNodes, "nodes"), heap, f, verdict(f.P95, mostFrame, "ms"))
	return err
}

// list is the page of runs where there are very many.
func (s screen) list(ctx context.Context) error {
	if l := burst(ctx, s.url, prompted(), 64, s.uiRuns); l.errors > 0 {
		return fmt.Errorf("%d runs were refused", l.errors)
	}
	if err := s.drained(ctx); err != nil {
		return err
	}
	p, err := visit(s.browser, s.base+"/ui/runs?flat=1")
	if err != nil {
		return err
	}
	defer p.end()
	at, err := eval[float64](p, "window.shownAt")
	if err != nil {
		return err
	}
	requests, files, bytes := p.loaded()
	found, err := eval[float64](p, `new Promise(async (done) => { const start = performance.now();
		await (await fetch("/runs?limit=50&q=not+to+be+found")).text();
		done(performance.now() - start); })`)
	if err != nil {
		return err
	}
	return s.scrolled(p, fmt.Sprintf("a list of %d runs: shown after %.0f ms, %d requests, %d of them for files, %.0f KiB; a search answers in %.0f ms",
		s.uiRuns, at, requests, files, bytes/1024, found))
}

// prompted is a request with a prompt as people write them.
func prompted() []byte {
	const sentence = "Read the report of last week and tell what changed. "
	return []byte(`{"agent_name":"noop","parameters":{"prompt":"` + strings.Repeat(sentence, 5) + `"}}`)
}

// busy is what is drawn while runs come and end, at a rate.
func (s screen) busy(ctx context.Context) error {
	for _, path := range []string{"/ui/runs", "/ui/runs?flat=1", "/ui/"} {
		if err := s.busyOn(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func (s screen) busyOn(ctx context.Context, path string) error {
	p, err := visit(s.browser, s.base+path)
	if err != nil {
		return err
	}
	defer p.end()
	still, err := p.frames(2*time.Second, "")
	if err != nil {
		return err
	}
	before, err := p.heap()
	if err != nil {
		return err
	}
	refused, stop := s.offer(ctx)
	f, err := p.frames(10*time.Second, "")
	sent := stop()
	if err != nil {
		return err
	}
	after, err := p.heap()
	fmt.Printf("%-15s while %.0f runs/s come (%d refused): frames %s: p95 %s; at rest %s; heap %s more\n",
		path, float64(sent)/10, refused.Load(), f, verdict(f.P95, mostFrame, "ms"), still, verdict(max(0, after-before), mostGrowth, "MiB"))
	return err
}

// offer starts runs at a rate, whatever comes back, until stop, which tells how many.
func (s screen) offer(ctx context.Context) (refused *atomic.Int64, stop func() int64) {
	const every = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	refused = &atomic.Int64{}
	var sent atomic.Int64
	c := client(128)
	var g errgroup.Group
	g.Go(func() error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		body := prompted()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			for range rateOfRuns / int(time.Second/every) {
				g.Go(func() error {
					if post(c, s.url, body) != nil {
						refused.Add(1)
					}
					sent.Add(1)
					return nil
				})
			}
		}
	})
	return refused, func() int64 { cancel(); _ = g.Wait(); c.CloseIdleConnections(); return sent.Load() }
}

// grow makes a tree of sessions, level by level, and returns its root.
func (s screen) grow(ctx context.Context) (root string, err error) {
	all := make([]string, treeSessions)
	if _, all[0], err = s.start(ctx, `{"agent_name":"noop","parameters":{"prompt":"the root"}}`); err != nil {
		return "", err
	}
	for first, size := 1, treeFan; first < treeSessions; first, size = first+size, size*treeFan {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(32)
		for i := first; i < min(first+size, treeSessions); i++ {
			g.Go(func() (err error) {
				const body = `{"agent_name":"noop","parameters":{"prompt":"node %d"},"parent_session_id":"%s"}`
				_, all[i], err = s.start(ctx, fmt.Sprintf(body, i, all[(i-1)/treeFan]))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return "", err
		}
	}
	return all[0], s.drained(ctx)
}

// start starts a run.
func (s screen) start(ctx context.Context, body string) (id, session string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	var made struct {
		Run     string `json:"run_id"`
		Session string `json:"session_id"`
		Message string `json:"message"`
	}
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil || res.StatusCode != http.StatusCreated {
		return "", "", fmt.Errorf("POST /runs: %s %s %w", res.Status, made.Message, err)
	}
	return made.Run, made.Session, nil
}

// talker is a noop that tells as many events as its parameters ask for, some seconds after its start.
type talker struct{}

func (talker) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	var ask struct{ Events, After int }
	_ = json.Unmarshal(inv.Parameters, &ask)
	if ask.Events > 0 {
		select {
		case <-ctx.Done():
			return run.Outcome{Status: run.Stopped}
		case <-time.After(time.Duration(ask.After) * time.Second):
		}
	}
	for n := range ask.Events {
		input := fmt.Sprintf(`"tool_name":"read","tool_input":{"path":"/srv/report/%d.md","from":%d}`, n-n%4, n-n%4)
		switch {
		case n == ask.Events-1:
			host.Tell(run.EventMessage, run.Say("assistant", "the last event"))
		case n%4 == 1:
			host.Tell(run.EventPreTool, json.RawMessage("{"+input+"}"))
		case n%4 == 2:
			host.Tell(run.EventPostTool, json.RawMessage(fmt.Sprintf(`{%s,"tool_output":{"lines":[%d,"a line","another line"]}}`, input, n)))
		default:
			const text = "Step %d: I looked at **file %d**, and it is as the report says: nothing that matters has changed since."
			host.Tell(run.EventMessage, run.Say("assistant", fmt.Sprintf(text, n, n%97)))
		}
	}
	return noop{}.Run(ctx, inv, host)
}
