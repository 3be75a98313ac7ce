package browser

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// mostRequests is the budget of the first load of a page, files and calls of the API together. A stream counts one.
const mostRequests = 12

// TestRequests counts what the first load of each page asks for, by a browser that has nothing stored.
func TestRequests(t *testing.T) {
	s := ownStack(t)
	for _, tt := range s.everyPage(t) {
		t.Run(tt.path, func(t *testing.T) {
			if asked := s.firstLoad(t, tt.path); len(asked) > mostRequests {
				t.Errorf("%d requests, want at most %d:\n%s", len(asked), mostRequests, strings.Join(asked, "\n"))
			}
		})
	}
}

// traffic is what a tab asked for, and what of it is under way. Streams never finish.
type traffic struct {
	mu    sync.Mutex
	asked []string
	open  map[network.RequestID]bool
}

func (r *traffic) observe(ev any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, "http") {
			return
		}
		r.asked = append(r.asked, ev.Request.Method+" "+ev.Request.URL)
		if !strings.Contains(ev.Request.URL, "/sse/") {
			r.open[ev.RequestID] = true
		}
	case *network.EventLoadingFinished:
		delete(r.open, ev.RequestID)
	case *network.EventLoadingFailed:
		delete(r.open, ev.RequestID)
	}
}

// finished returns what was asked for, and whether all of it is answered.
func (r *traffic) finished() ([]string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked, len(r.open) == 0
}

// noPolls keeps pages from asking again every few seconds.
const noPolls = `window.setInterval = () => 0`

// firstLoad returns what is asked for until the page is whole and asks for nothing more.
func (s *stack) firstLoad(t *testing.T, path string) []string {
	t.Helper()
	sent := traffic{open: map[network.RequestID]bool{}}
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(sent.observe))
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, ctx: ctx, end: end}
	p.do(enable, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		script := cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: noPolls}
		_, err := cdp.Call(ctx, tab, cdppage.AddScriptToEvaluateOnNewDocument, script)
		_, cold := cdp.Call(ctx, tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
		return errors.Join(err, cold)
	}), chromedp.Navigate(s.url+path))
	for {
		p.settled()
		before, _ := sent.finished()
		// What an answer leads to is asked for by the second frame after it.
		eval[bool](p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true)))))`)
		if after, all := sent.finished(); all && len(after) == len(before) {
			return after
		}
	}
}
