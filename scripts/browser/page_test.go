package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// page is a tab of the browser. A test fails on any console error, violation of the content security policy, or
// request to another host. Error answers of the API are allowed.
type page struct {
	t       *testing.T
	ctx     context.Context
	end     context.CancelFunc // closes the tab
	streams *atomic.Int32      // that it has asked for
}

// open opens a path of the dashboard in a tab with a new profile.
func open(t *testing.T, s *stack, path string) *page {
	t.Helper()
	p := tab(t, s, path)
	p.until("document.querySelector('.page')")
	return p
}

// tab opens a path that may show a login. It may also visit other stacks.
func tab(t *testing.T, s *stack, path string, others ...*stack) *page {
	t.Helper()
	return show(t, s, path, chromium, others, chromedp.WithNewBrowserContext())
}

// openTab opens another path in another tab of the same browser.
func (p *page) openTab(s *stack, path string) *page {
	p.t.Helper()
	n := show(p.t, s, path, p.ctx, nil)
	n.until("document.querySelector('.page')")
	return n
}

func show(t *testing.T, s *stack, path string, in context.Context, others []*stack,
	how ...chromedp.ContextOption) *page {
	t.Helper()
	own := []string{s.url}
	for _, o := range others {
		own = append(own, o.url)
	}
	var mu sync.Mutex
	var wrong []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	var streams atomic.Int32
	listen := chromedp.WithListener(func(ev any) {
		observe(ev, own, note)
		if sent, ok := ev.(*network.EventRequestWillBeSent); ok && strings.Contains(sent.Request.URL, "/sse/") {
			streams.Add(1)
		}
	})
	ctx, end := chromedp.NewContext(in, append(how, listen)...)
	t.Cleanup(func() {
		end()
		mu.Lock()
		defer mu.Unlock()
		for _, w := range wrong {
			t.Error(w)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // makes the tab, which lives as long as ctx
		t.Fatal(err)
	}
	p := &page{t, ctx, end, &streams}
	p.do(enable, chromedp.Navigate(s.url+path))
	return p
}

// enable enables events for requests, log and console, and brings the tab to the front: others drop keyboard input.
var enable = chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
	_, inLog := cdp.Call(ctx, t, cdplog.Enable, cdp.Empty{})
	_, atRun := cdp.Call(ctx, t, runtime.Enable, cdp.Empty{})
	_, focused := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{
		Enabled: true})
	return errors.Join(err, inLog, atRun, focused)
})

func observe(ev any, own []string, note func(string, ...any)) {
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		note("exception: %s", exceptionText(ev.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, a := range ev.Args {
				note("console: %s%s", a.Value, a.Description)
			}
		}
	case *cdplog.EventEntryAdded:
		if ev.Entry.Level == "error" && ev.Entry.Source != "network" {
			note("%s: %s", ev.Entry.Source, ev.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		u := ev.Request.URL
		ours := slices.ContainsFunc(own, func(one string) bool { return strings.HasPrefix(u, one+"/") })
		if !ours && !strings.HasPrefix(u, "data:") {
			note("a request to another host: %s", u)
		}
	}
}

func exceptionText(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Exception.Description
	}
	return e.Text
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 40*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns the value of an expression, or of its promise.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 40*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%v in: %s", err, expression)
	}
	return v
}

// until waits until an expression is true; the page polls it.
func (p *page) until(expression string) {
	p.t.Helper()
	looking := `new Promise((done) => {
		const start = performance.now();
		const look = () => ((` + expression + `) ? done(true) :
			performance.now() - start > 500 ? done(false) : setTimeout(look, 20));
		look();
	})`
	for end := time.Now().Add(30 * time.Second); ; {
		ctx, cancel := context.WithTimeout(p.ctx, 40*time.Second)
		found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](looking, chromedp.EvalAwaitPromise))
		cancel()
		if found {
			return
		}
		if time.Now().After(end) { // an error alone may be that the page has just changed
			p.t.Fatalf("waited in vain: %s (%v)\nthe page shows: %s", expression, err,
				tail(eval[string](p, "document.body.innerText"), 1500))
		}
	}
}

// has waits until the page shows a text, ignoring white space.
func (p *page) has(text string) {
	p.t.Helper()
	p.until(`document.body.innerText.replace(/\s+/g, " ").includes(` + strconv.Quote(text) + `)`)
}

// click clicks the button, link or tab with this text or name, as soon as it is enabled.
func (p *page) click(text string) {
	p.t.Helper()
	q := strconv.Quote(text)
	p.until(`(() => {
		const name = (e) => [e.textContent.trim(), e.getAttribute("aria-label")];
		const all = [...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a[href], ` +
		`[role=tab], label, summary")];
		const found = all.find((e) => name(e).includes(` + q + `) && e.getAttribute("aria-disabled") !== "true" &&
			e.getClientRects().length);
		found?.click();
		return found;
	})()`)
}

// at returns a selector for the form control of a parameter's path or of a label.
func at(where string) string {
	q := strconv.Quote(where)
	return `([...document.querySelectorAll("[data-path]")].find((e) => e.dataset.path === ` + q + `) ??
		[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("label")].find((l) => ` +
		`l.textContent.trim().replace(/ optional$/, "") === ` + q + `)?.control ??
		document.querySelector('[aria-label=' + CSS.escape(` + q + `) + ']'))`
}

// fill replaces the text of a field. It repeats the input if the form was still being built.
func (p *page) fill(where, text string) {
	p.t.Helper()
	p.until(at(where))
	keeps := `new Promise((done) => setTimeout(() => done(` + at(where) + `?.value === ` + strconv.Quote(text) +
		`), 60))`
	for range 10 {
		eval[bool](p, `(() => { const e = `+at(where)+`; e.focus(); e.select?.(); return true; })()`)
		p.enter(text)
		if eval[bool](p, keeps) {
			return
		}
	}
	p.t.Fatalf("the field %s does not keep %q", where, text)
}

// choose selects an option by text.
func (p *page) choose(where, option string) {
	p.t.Helper()
	p.until(`(() => { const e = ` + at(where) + `; const o = [...e?.options ?? []].find((o) => o.text === ` +
		strconv.Quote(option) + `);
		if (!o) return false;
		e.value = o.value; e.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`)
}

// enter types into the focused element.
func (p *page) enter(text string) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// press presses a key, such as kb.Tab.
func (p *page) press(keys string) { p.t.Helper(); p.do(chromedp.KeyEvent(keys)) }

// edit replaces the text of the editor with this name.
func (p *page) edit(label, text string) {
	p.t.Helper()
	editor := `document.querySelector('.cm-content[aria-label="` + label + `"]')`
	p.until(editor)
	eval[bool](p, `(`+editor+`.focus(), document.execCommand("selectAll"), true)`)
	// Chromium would style text typed over a selection, which the policy refuses
	p.press(kb.Backspace)
	p.enter(text)
}

// text returns the text of the editor with this name.
func (p *page) text(label string) string {
	p.t.Helper()
	return eval[string](p, `[...document.querySelectorAll('.cm-content[aria-label="`+label+
		`"] .cm-line')].map((l) => l.textContent).join("\n")`)
}

// copied returns what the button with this name copies to the clipboard.
func (p *page) copied(button string) string {
	p.t.Helper()
	eval[bool](p, `(navigator.clipboard.writeText = (text) => ((window.copied = text), Promise.resolve()), `+
		`window.copied = null, true)`)
	p.click(button)
	p.until("window.copied !== null")
	return eval[string](p, "window.copied")
}

// path returns the path of the page's address.
func (p *page) path() string {
	p.t.Helper()
	u, err := url.Parse(eval[string](p, "location.href"))
	if err != nil {
		p.t.Fatal(err)
	}
	return u.Path
}
