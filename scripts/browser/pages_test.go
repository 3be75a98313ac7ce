package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestEveryPage: each page has few nodes and a heading, and fits wide and narrow windows.
func TestEveryPage(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/runs", `{"agent_name":"summarizer","prompt":"Look","mode":"sync"}`, 200)
	p := open(t, s, "/ui/")
	for _, path := range []string{
		"/ui/", "/ui/runs", "/ui/sessions", "/ui/agents", "/ui/agents/summarizer", "/ui/schemas", "/ui/new",
		"/ui/runners", "/ui/queues", "/ui/callbacks",
		"/ui/settings", "/ui/settings?tab=doctor", "/ui/settings?tab=settings", "/ui/settings?tab=audit",
		"/ui/nothing-here",
	} {
		for _, width := range []int64{1280, 360} {
			p.do(chromedp.EmulateViewport(width, 800), chromedp.Navigate(s.url+path))
			p.until(`document.querySelector("h1")?.textContent.trim() && !document.querySelector(".skeleton") && ` +
				`document.title.includes("Agent Orchestrator")`)
			got := eval[struct{ Nodes, Wide int }](p, `({Nodes: document.querySelectorAll("*").length, Wide: `+
				`document.scrollingElement.scrollWidth - innerWidth})`)
			if got.Nodes > 3000 || got.Wide > 0 {
				t.Errorf("%s at %d px: %d nodes, want at most 3000; %d px wider than the window", path, width,
					got.Nodes, got.Wide)
			}
		}
	}
}
