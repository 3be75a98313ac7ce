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

// mostRequests is the budget for the first load of a page, files and API calls together. A stream counts as one.
const mostRequests = 12

// TestRequests counts the requests of the first load of each page in a new profile.
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

// traffic are the requests of a tab, and those in flight. Streams never finish.
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

// finished returns the requests, and whether all are answered.
func (r *traffic) finished() ([]string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked, len(r.open) == 0
}

// noPolls stops the pages' polling.
const noPolls = `window.setInterval = () => 0`

// firstLoad returns the requests until the page is complete and idle.
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
		// Follow-up requests are sent by the second frame after an answer.
		eval[bool](p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() `+
			`=> done(true)))))`)
		if after, all := sent.finished(); all && len(after) == len(before) {
			return after
		}
	}
}
