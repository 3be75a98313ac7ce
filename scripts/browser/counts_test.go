package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const maxHeapGrowth = 10 << 20 // bytes

// heap returns how many bytes are in use after a garbage collection.
func (p *page) heap() (used int) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, heapprofiler.CollectGarbage, cdp.Empty{})
		usage, asked := cdp.Call(ctx, tab, runtime.GetHeapUsage, cdp.Empty{})
		if asked == nil {
			used = int(usage.UsedSize)
		}
		return errors.Join(err, asked)
	}))
	return used
}

// TestHeapOfManyEvents: a page that has read 100,000 events holds little more than before.
func TestHeapOfManyEvents(t *testing.T) {
	s := sharedStack(t)
	id, session := s.prompted(t, "heapofevents", "@say the first")
	p := open(t, s, "/ui/runs?agent_name=heapofevents")
	p.until(row("heapofevents"))
	eval[bool](p, fmt.Sprintf(feeds, session, id))
	p.about("heapofevents")
	p.until(`window.feed`)
	p.has("the first")
	before := p.heap()
	eval[bool](p, `(feed(100000), true)`)
	p.until(`document.querySelector("#events")?.innerText.includes("event 99999.")`)
	if n := eval[int](p, `document.querySelectorAll("*").length`); n > 3000 {
		t.Errorf("%d nodes are in the document, 3000 are the most", n)
	}
	if grown := p.heap() - before; grown > maxHeapGrowth {
		t.Errorf("the heap grew by %.1f MiB, want at most %d", float64(grown)/(1<<20), maxHeapGrowth>>20)
	}
}

// feeds has the page's stream of a session come from the page itself.
const feeds = `(() => {
	const ask = fetch, bytes = new TextEncoder();
	const item = (n) => "id: 900000000-" + (900000000 + n) + "\nevent: event\ndata: " + JSON.stringify({
		event_type: "message", session_id: %q, run_id: %q, timestamp: "2026-11-24T12:00:00Z", role: "assistant",
		content: [{type: "text", text: "This is event " + n + "."}]}) + "\n\n";
	window.fetch = (to, ...more) => {
		if (!String(to).startsWith("/sse/sessions")) return ask(to, ...more);
		let n = 0, most = 0, wake = () => {};
		window.feed = (count) => ((most += count), wake());
		const body = new ReadableStream({
			async pull(out) {
				while (n >= most) await new Promise((go) => (wake = go));
				let text = "";
				for (const end = Math.min(n + 200, most); n < end; n++) text += item(n);
				out.enqueue(bytes.encode(text));
			},
		});
		return Promise.resolve(new Response(body, {headers: {"Content-Type": "text/event-stream"}}));
	};
	return true;
})()`

// maxShift is how much a page may move while it loads, as browsers score it; they call 0.1 good. Conversations grow:
// their turns come one by one, and texts are rendered once they are there.
func maxShift(path string) float64 {
	if strings.HasPrefix(path, "/ui/sessions/") || strings.HasPrefix(path, "/ui/runs/") {
		return 0.1
	}
	return 0.01
}

// TestLayoutShift: little moves while a page loads.
func TestLayoutShift(t *testing.T) {
	s := ownStack(t)
	for _, tt := range s.everyPage(t) {
		t.Run(tt.path, func(t *testing.T) {
			p := tab(t, s, tt.path)
			p.settled()
			got := eval[struct {
				Sum   float64
				Moved []string
			}](p, `new Promise((done) => {
				let sum = 0;
				const moved = [];
				const add = (e) => {
					if (e.hadRecentInput) return;
					sum += e.value;
					for (const {node, previousRect: a, currentRect: b} of e.sources) {
						const what = node?.outerHTML || node?.textContent || "gone";
						const [from, to] = [a, b].map((r) => [r.x, r.y, r.width, r.height].map(Math.round));
						moved.push((node?.parentElement?.className || "") + " > " + what.slice(0, 120) +
							" " + from + " to " + to);
					}
				};
				const seen = new PerformanceObserver((list) => list.getEntries().forEach(add));
				seen.observe({type: "layout-shift", buffered: true});
				setTimeout(() => done({Sum: sum, Moved: moved}), 300);
			})`)
			if most := maxShift(tt.path); got.Sum > most {
				t.Errorf("the layout shifted by %.3f, want at most %.2f; what moved:\n%s", got.Sum, most,
					strings.Join(got.Moved, "\n"))
			}
		})
	}
}
