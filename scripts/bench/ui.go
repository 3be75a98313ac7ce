package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"ao/scripts/try"
	"ao/shared/executor"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// The data of part ui; flags set the numbers of runs and events.
const (
	treeSessions = 5000
	treeFan      = 3 // children per session: the tree has eight levels below its root, the maximum
	rateOfRuns   = 1000
)

// The budgets of the dashboard.
const (
	maxFirstLoad = 150.0 * 1024 // bytes, compressed
	maxRequests  = 12           // of the first load, files and calls of the API
	maxNodes     = 3000
	maxGrowth    = 10.0 // MiB of heap
	maxFrame     = 50.0 // ms, p95
)

// screen is a browser that shows a side.
type screen struct {
	*side
	browser context.Context
	bench
}

// ui measures the dashboard in a browser with much data. Browser, load and system share the machine.
func (b bench) ui(ctx context.Context, fsync string) {
	layout := b.ours(fsync)
	layout.kind = "ui"
	ours := launch(ctx, layout)
	defer ours.end()
	browser, end := startBrowser(ctx)
	defer end()
	s := screen{ours, browser, b}
	for _, part := range []func(context.Context){s.firstLoad, s.events, s.tree, s.list, s.changingPages} {
		part(ctx)
	}
}

// compareToBudget formats a figure with its budget.
func compareToBudget(value, most float64, unit string) string {
	word := "met"
	if value > most {
		word = "MISSED"
	}
	return fmt.Sprintf("%.0f %s (budget %.0f: %s)", value, unit, most, word)
}

// firstLoad measures size and time of the first load of pages, each in a new profile.
func (s screen) firstLoad(context.Context) {
	for _, path := range []string{"/ui/", "/ui/runs", "/ui/new", "/ui/agents/noop"} {
		p := visit(s.browser, s.base+path)
		at := eval[float64](p, "window.shownAt")
		requests, files, bytes := p.loaded()
		p.end()
		kib := compareToBudget(bytes/1024, maxFirstLoad/1024, "KiB")
		asked := compareToBudget(float64(requests), maxRequests, "requests")
		fmt.Printf("first load of %-16s %4.0f ms, %s, %s, %d of them for files\n", path, at, kib, asked, files)
	}
}

// events measures a run's page while events arrive.
func (s screen) events(ctx context.Context) {
	for _, of := range []string{"runs", "sessions"} {
		s.eventsOf(ctx, of)
	}
}

func (s screen) eventsOf(ctx context.Context, of string) {
	id, session, err := s.start(ctx, fmt.Sprintf(`{"agent_name":"noop","parameters":{"events":%d,"after":3}}`,
		s.uiEvents))
	try.Check(err)
	path := map[string]string{"runs": id, "sessions": session}[of]
	p := visit(s.browser, s.base+"/ui/"+of+"/"+path)
	defer p.end()
	before := p.heap()
	start := time.Now()
	f := p.frames(5*time.Second, "")
	const over = `/completed|finished/.test(document.querySelector("h1").innerText) && ` +
		`document.body.innerText.includes("the last event")`
	p.until(over, 100*time.Second)
	took := time.Since(start)
	after := p.heap()
	nodes := eval[float64](p, `document.querySelectorAll("*").length`)
	fmt.Printf("%d events on the page of /%s: heap %.1f MiB, then %.1f: %s more; %s; all shown after %.1f s; frames "+
		"meanwhile %s: p95 %s\n", s.uiEvents, of, before, after, compareToBudget(after-before, maxGrowth, "MiB"),
		compareToBudget(nodes, maxNodes, "nodes"), took.Seconds(), f, compareToBudget(f.P95, maxFrame, "ms"))
}

// tree measures the page of a session with thousands of descendants.
func (s screen) tree(ctx context.Context) {
	root := s.createTree(ctx)
	start := time.Now()
	p := visit(s.browser, s.base+"/ui/sessions/"+root+"/tree")
	defer p.end()
	p.until(`document.body.innerText.includes("5,000 sessions")`, time.Minute)
	shown := time.Since(start)
	requests, files, bytes := p.loaded()
	unfold := eval[float64](p, `new Promise((done) => { const start = performance.now();
		[...document.querySelectorAll("button")].find((b) => b.textContent.trim() === "Expand all").click();
		requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))); })`)
	s.printScrolling(p, fmt.Sprintf("a tree of %d sessions: all there after %.0f ms, %d requests, %d of them "+
		"for files, %.0f KiB; unfolded in %.0f ms",
		treeSessions, shown.Seconds()*1000, requests, files, bytes/1024, unfold))
}

// printScrolling prints the figures of a page while it is scrolled and after it.
func (s screen) printScrolling(p *tab, what string) {
	f := p.frames(5*time.Second, `document.querySelector("[data-scroller]").scrollBy(0, 400)`)
	nodes := eval[float64](p, `document.querySelectorAll("*").length`)
	heap := p.heap()
	fmt.Printf("%s; %s; heap %.1f MiB; frames while it scrolls %s: p95 %s\n",
		what, compareToBudget(nodes, maxNodes, "nodes"), heap, f, compareToBudget(f.P95, maxFrame, "ms"))
}

// list measures the list of very many runs.
func (s screen) list(ctx context.Context) {
	if l := burst(ctx, s.url, promptBody(), 64, s.uiRuns); l.errors > 0 {
		try.Failf("%d runs were refused", l.errors)
	}
	s.waitDrained(ctx)
	p := visit(s.browser, s.base+"/ui/runs?flat=1")
	defer p.end()
	at := eval[float64](p, "window.shownAt")
	requests, files, bytes := p.loaded()
	found := eval[float64](p, `new Promise(async (done) => { const start = performance.now();
		await (await fetch("/runs?limit=50&q=not+to+be+found")).text();
		done(performance.now() - start); })`)
	s.printScrolling(p, fmt.Sprintf("a list of %d runs: shown after %.0f ms, %d requests, %d of them for files,"+
		" %.0f KiB; a search answers in %.0f ms", s.uiRuns, at, requests, files, bytes/1024, found))
}

// promptBody returns a request with a realistic prompt.
func promptBody() []byte {
	const sentence = "Read the report of last week and tell what changed. "
	return []byte(`{"agent_name":"noop","parameters":{"prompt":"` + strings.Repeat(sentence, 5) + `"}}`)
}

// changingPages measures pages while runs start and end at a rate.
func (s screen) changingPages(ctx context.Context) {
	for _, path := range []string{"/ui/runs", "/ui/runs?flat=1", "/ui/"} {
		s.changingPage(ctx, path)
	}
}

func (s screen) changingPage(ctx context.Context, path string) {
	p := visit(s.browser, s.base+path)
	defer p.end()
	still := p.frames(2*time.Second, "")
	before := p.heap()
	refused, stop := s.startAtRate(ctx)
	f := p.frames(10*time.Second, "")
	sent := stop()
	after := p.heap()
	fmt.Printf("%-15s while %.0f runs/s come (%d refused): frames %s: p95 %s; at rest %s; heap %s more\n",
		path, float64(sent)/10, refused.Load(), f, compareToBudget(f.P95, maxFrame, "ms"), still,
		compareToBudget(max(0, after-before), maxGrowth, "MiB"))
}

// startAtRate starts runs at a rate, regardless of the answers, until stop, which returns their number.
func (s screen) startAtRate(ctx context.Context) (refused *atomic.Int64, stop func() int64) {
	const every = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	refused = &atomic.Int64{}
	var sent atomic.Int64
	c := client(128)
	var g errgroup.Group
	g.Go(func() error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		body := promptBody()
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

// createTree creates a tree of sessions, level by level, and returns its root.
func (s screen) createTree(ctx context.Context) string {
	all := make([]string, treeSessions)
	_, root, err := s.start(ctx, `{"agent_name":"noop","parameters":{"prompt":"the root"}}`)
	try.Check(err)
	all[0] = root
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
		try.Check(g.Wait())
	}
	s.waitDrained(ctx)
	return root
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

// eventSender is a noop that sends the number of events in its parameters, some seconds after its start.
type eventSender struct{}

func (eventSender) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
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
			host.Emit(run.EventMessage, run.TextMessage("assistant", "the last event"))
		case n%4 == 1:
			host.Emit(run.EventPreTool, json.RawMessage("{"+input+"}"))
		case n%4 == 2:
			host.Emit(run.EventPostTool,
				json.RawMessage(fmt.Sprintf(`{%s,"tool_output":{"lines":[%d,"a line","another line"]}}`, input, n)))
		default:
			const text = "Step %d: I looked at **file %d**, and it is as the report says: nothing that matters " +
				"has changed since."
			host.Emit(run.EventMessage, run.TextMessage("assistant", fmt.Sprintf(text, n, n%97)))
		}
	}
	return noop{}.Run(ctx, inv, host)
}
