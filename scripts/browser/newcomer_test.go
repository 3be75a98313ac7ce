package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// about clicks text of a row outside its link.
func (p *page) about(agent string) {
	p.t.Helper()
	p.until(row(agent))
	eval[bool](p, `(`+row(agent)+`.querySelector("time").click(), true)`)
}

// TestARowOpens: a click beside a row's link also opens it, and the list's filters are kept on the way back.
func TestARowOpens(t *testing.T) {
	s := sharedStack(t)
	id, session := s.prompted(t, "rowopens", `@say look for zebras`)
	p := open(t, s, "/ui/runs")
	p.fill("Search runs", "zebras")
	p.until(`location.search === "?q=zebras"`)
	p.about("rowopens")
	p.until(`location.pathname === "/ui/runs/` + id + `"`)
	eval[bool](p, `(history.back(), true)`)
	p.until(`location.pathname + location.search === "/ui/runs?q=zebras"`)
	p.until(row("rowopens"))
	// a press that chooses opens nothing
	eval[bool](p, `(`+row("rowopens")+`.querySelector("input[type=checkbox]").click(), true)`)
	p.has("1 run selected")
	p.goTo("/ui/sessions?agent_name=rowopens")
	p.about("rowopens")
	p.until(`location.pathname === "/ui/sessions/` + session + `"`)
}

// TestTheEndBeforeTheStream: a run that ends between the load of its page and the opening of its stream is shown as
// ended.
func TestTheEndBeforeTheStream(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "endsbetween")
	id, _ := s.run(t, `{"agent_name":"endsbetween","prompt":"@sleep 600s"}`)
	p := open(t, s, "/ui/runs?agent_name=endsbetween")
	p.until(row("endsbetween") + `?.innerText.includes("running")`)
	eval[bool](p, `(() => {
		const [ask, every] = [fetch, setInterval];
		const opened = new Promise((go) => (window.openStreams = go));
		window.fetch = (to, ...more) => (String(to).startsWith("/sse/sessions") ? opened.then(() => ask(to, `+
		`...more)) : ask(to, ...more));
		window.setInterval = (act, ms, ...more) => (ms === 10000 ? 0 : every(act, ms, ...more)); // no page looks by `+
		`itself
		return true;
	})()`)
	p.about("endsbetween")
	p.until(`document.querySelector("h1").innerText.includes("running")`)
	s.call(t, "POST", "/runs/"+id+"/stop", "", 200)
	s.ended(t, id)
	eval[bool](p, `(openStreams(), true)`)
	p.until(`document.querySelector("h1").innerText.includes("stopped")`)
}

// TestStopAllBelow: an ended session and its tree can stop everything that still runs below, and say how much it is.
func TestStopAllBelow(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "stopabove")
	s.agent(t, "stopbelow")
	for _, path := range []string{"", "/tree"} {
		_, top := s.finished(t, `{"agent_name":"stopabove","prompt":"@say root"}`)
		_, between := s.finished(t, `{"agent_name":"stopbelow","parent_session_id":"`+top+`","prompt":"@say child"}`)
		child, _ := s.run(t, `{"agent_name":"stopbelow","parent_session_id":"`+between+`","prompt":"@sleep 600s"}`)
		p := open(t, s, "/ui/sessions/"+top+path)
		p.click(map[string]string{"": "Stop all below", "/tree": "Stop all"}[path])
		p.has("is stopped: 1 run.")
		p.click("Stop the tree")
		if end := s.ended(t, child); !strings.Contains(end, `"status":"stopped"`) {
			t.Errorf("%s: the child ended so: %s", path, end)
		}
		p = open(t, s, "/ui/runs/"+child)
		p.has("Stopped with the tree of")
		p.has("all that is below")
	}
}

// TestALineBreakAtTheEnd: a form shows that a value ends with a line break, and Ctrl+Enter starts the run.
func TestALineBreakAtTheEnd(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "linebreak")
	p := open(t, s, "/ui/new?agent=linebreak")
	p.fill("$.prompt", "@say one\n")
	p.has("The value ends with a line break")
	p.fill("$.prompt", "@say one")
	p.until(`!document.body.innerText.includes("ends with a line break")`)
	p.has("It would be accepted")
	eval[bool](p, `(`+at("$.prompt")+`.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", ctrlKey: true, `+
		`bubbles: true, cancelable: true})), true)`)
	p.until(`location.pathname.startsWith("/ui/runs/run_")`)
}

// TestStartInSight: on a narrow page the start button stays visible while the form is filled in.
func TestStartInSight(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "startsnarrow")
	p := open(t, s, "/ui/new?agent=startsnarrow")
	p.do(chromedp.EmulateViewport(390, 844))
	p.until(at("$.prompt"))
	p.until(`(() => { const b = [...document.querySelectorAll("button")].find((b) => b.textContent.trim() === "Start ` +
		`run").getBoundingClientRect(); return b.top > 400 && b.bottom < innerHeight; })()`)
	p.until(`document.querySelector("#main").scrollHeight > innerHeight`) // or it would be seen anyway
}
