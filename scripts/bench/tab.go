package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/scripts/try"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// startBrowser starts a headless Chromium, which ends with the returned context.
func startBrowser(ctx context.Context) (context.Context, context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1400, 1000))
	alloc, stop := chromedp.NewExecAllocator(ctx, options...)
	browser, end := chromedp.NewContext(alloc)
	both := func() { end(); stop() }
	if err := chromedp.Do(browser); err != nil {
		both()
		try.Failf("no Chromium starts here (scripts/browser/run installs one): %w", err)
	}
	return browser, both
}

// tab is a page of the dashboard in a new profile, without a cache. It counts what it loads.
type tab struct {
	ctx context.Context
	end context.CancelFunc

	mu       sync.Mutex
	requests int
	files    int     // of these, for files of the dashboard
	bytes    float64 // compressed
}

// watchShown records when a page is complete: it has a heading, and nothing is loading.
const watchShown = `(() => {
	const whole = () => document.querySelector("h1")?.textContent.trim() && !document.querySelector(".skeleton");
	const look = () => (whole() ? (window.shownAt = performance.now()) : requestAnimationFrame(look));
	if (document.documentElement) look(); else addEventListener("DOMContentLoaded", look, {once: true});
})()`

// visit opens an address in a new tab and waits until the page is complete.
func visit(browser context.Context, url string) *tab {
	p := &tab{}
	p.ctx, p.end = chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(ev any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			if strings.HasPrefix(ev.Request.URL, "http") {
				p.requests++
			}
			if strings.Contains(ev.Request.URL, "/ui/assets/") {
				p.files++
			}
		case *network.EventLoadingFinished:
			p.bytes += ev.EncodedDataLength
		}
	}))
	listen := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		script := page.AddScriptToEvaluateOnNewDocumentParams{Source: watchShown}
		_, noted := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, script)
		return errors.Join(err, noted)
	})
	try.Check(chromedp.Do(p.ctx)) // creates the tab, which lives as long as its context
	p.do(listen, chromedp.Navigate(url))
	p.until("window.shownAt", time.Minute)
	return p
}

// loaded returns the number of requests, how many of them were for files of the dashboard, and the bytes received.
func (p *tab) loaded() (requests, files int, bytes float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.files, p.bytes
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Minute)
	defer cancel()
	try.Check(chromedp.Do(ctx, steps...))
}

// eval returns the value of an expression, or of its promise.
func eval[T any](p *tab, expression string) T {
	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		try.Failf("%w in: %s", err, expression)
	}
	return v
}

// until waits until an expression is true; the page polls it.
func (p *tab) until(expression string, most time.Duration) {
	found := eval[bool](p, `new Promise((done) => {
		const end = performance.now() + `+strconv.Itoa(int(most.Milliseconds()))+`;
		const look = () => ((`+expression+`) ? done(true) :
			performance.now() > end ? done(false) : setTimeout(look, 10));
		look();
	})`)
	if !found {
		try.Failf("waited in vain: %s; the page shows: %s", expression,
			eval[string](p, "document.body.innerText.slice(0, 600)"))
	}
}

// heap returns the JavaScript heap in use after a garbage collection, in MiB.
func (p *tab) heap() (mib float64) {
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for range 2 {
			if _, err := cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
				return err
			}
		}
		used, err := cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
		mib = used.UsedSize / (1 << 20)
		return err
	}))
	return mib
}

// frames are statistics of the times between frames.
type frames struct {
	P50, P95, Longest float64 // milliseconds
	Count             int
}

func (f frames) String() string {
	return fmt.Sprintf("p50 %.0f ms, p95 %.0f ms, longest %.0f ms, %d frames", f.P50, f.P95, f.Longest, f.Count)
}

// frames measures the frames for d; act is a JavaScript statement that each frame runs first.
func (p *tab) frames(d time.Duration, act string) frames {
	return eval[frames](p, `new Promise((done) => {
		const took = [], start = performance.now();
		let last = start;
		const frame = () => {
			const now = performance.now();
			took.push(now - last);
			last = now;
			`+act+`;
			if (now - start < `+strconv.Itoa(int(d.Milliseconds()))+`) return requestAnimationFrame(frame);
			took.sort((a, b) => a - b);
			const at = (q) => took[Math.min(took.length - 1, Math.floor(q * took.length))];
			done({P50: at(0.5), P95: at(0.95), Longest: took.at(-1), Count: took.length});
		};
		requestAnimationFrame(() => ((last = performance.now()), requestAnimationFrame(frame)));
	})`)
}
