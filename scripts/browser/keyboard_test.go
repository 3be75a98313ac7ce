package browser

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyboardOnly gets from the login to a run's result without a mouse. Every focused element is visible.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	s.as("admin").agent(t, "bykeys")
	p := tab(t, s.stack, "/ui/")
	p.until(`document.activeElement?.type === "password"`)
	p.keys(s.tokens["run"] + kb.Enter)
	p.shows("/ui/")

	p.palette()
	p.keys("New run" + kb.Enter)
	p.arrives("New run")
	p.has("Choose an agent…")
	p.tabTo(`select`)
	p.keys("bykeys")
	p.until(at("$.prompt"))
	p.tabTo(`[data-path="$.prompt"]`)
	p.keys(`@say by keys`)
	p.until(at("$.prompt") + `.value === "@say by keys"`)
	p.has("It would be accepted")
	p.tabTo(`button:not([aria-disabled]).primary`)
	p.keys(kb.Enter)
	p.arrives("bykeys")
	p.until(`document.querySelector("h1")?.innerText.includes("completed") && document.querySelector(".card ` +
		`.md")?.innerText.includes("by keys")`)

	// Esc closes a dialog and restores the focus.
	p.tabTo(`[data-needs="POST /runs/:id/retry"]`)
	p.keys(kb.Enter)
	p.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
	p.keys(kb.Escape)
	p.until(`!document.querySelector("dialog[open]") && document.activeElement.dataset.needs === "POST ` +
		`/runs/:id/retry"`)

	// The list's rows, a tab of settings, and back.
	p.palette()
	p.keys("Runs" + kb.Enter)
	p.arrives("Runs")
	p.until(row("bykeys"))
	p.tabTo(`tbody a.name`)
	p.keys(kb.Enter)
	p.arrives("bykeys")
	p.palette()
	p.keys("Audit" + kb.Enter)
	p.arrives("Settings")
	p.tabTo(`[role=tab]`)
	p.keys(kb.Home)
	p.until(`location.search === ""`)
	p.has("What you may do")
	p.tabTo(`[aria-label="Log out"]`)
	p.keys(kb.Enter)
	p.until(`document.querySelector("form.login")`)
}

// arrives waits until a page is shown and its heading with this text has the focus.
func (p *page) arrives(heading string) {
	p.t.Helper()
	p.until(`document.activeElement.tagName === "H1" && document.activeElement.innerText.includes(` +
		strconv.Quote(heading) + `)`)
}

// keys types, key by key.
func (p *page) keys(text string) { p.t.Helper(); p.do(chromedp.KeyEvent(text)) }

// tabTo presses Tab until the selected element has the focus. Every element on the way must show its focus.
func (p *page) tabTo(selector string) {
	p.t.Helper()
	const most = 150
	var way []string
	for range most {
		p.press(kb.Tab)
		stop := eval[struct {
			There, Seen bool
			Name        string
		}](p, `(() => {
			const e = document.activeElement, box = e.getBoundingClientRect(), look = getComputedStyle(e);
			const label = e.labels?.[0]?.querySelector(".track") ?? e, ring = getComputedStyle(label);
			return {There: e.matches(`+strconv.Quote(selector)+`) && e.getClientRects().length > 0,
				Name: e.tagName + " " + (e.getAttribute("aria-label") ?? e.textContent.trim().slice(0, 40)),
				Seen: e === document.body || box.width > 0 && box.bottom > 0 && box.top < innerHeight && [look, `+
			`ring].some((s) => s.outlineStyle !== "none" || s.boxShadow !== "none")};
		})()`)
		way = append(way, stop.Name)
		if !stop.Seen {
			p.t.Errorf("nobody sees that %s has the focus", stop.Name)
		}
		if stop.There {
			return
		}
	}
	p.t.Fatalf("%d times Tab do not lead to %s, but to %s", most, selector, strings.Join(way, ", "))
}
