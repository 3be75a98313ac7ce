package browser

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// packed is axe-core, unchanged and compressed (MPL-2.0), for tests only; scripts/bundles fetches it.
//
//go:embed axe/axe.min.js.gz
var packed []byte

// axe is its source.
var axe = sync.OnceValues(func() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
})

// view is a page to check, with an action that opens something in it.
type view struct {
	path string
	open func(*page)
}

// TestAccessible: axe-core finds nothing serious or critical on any page, in light and in dark colours.
func TestAccessible(t *testing.T) {
	s := sharedStack(t)
	for _, tt := range s.everyPage(t) {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			p := open(t, s, tt.path)
			p.settled()
			if tt.open != nil {
				tt.open(p)
			}
			for theme, rules := range map[string]string{"light": "", "dark": `, runOnly: ["color-contrast"]`} {
				for _, found := range p.axe(theme, rules) {
					t.Errorf("%s: %s", theme, found)
				}
			}
		})
	}
}

// settled waits until the page is shown and nothing is loading.
func (p *page) settled() {
	p.t.Helper()
	p.until(`document.querySelector(".page h1, .login h1")?.textContent.trim() && ` +
		`!document.querySelector(".skeleton") && document.fonts.status === "loaded"`)
}

// axe returns the serious and critical findings of axe-core in a theme.
func (p *page) axe(theme, rules string) []string {
	p.t.Helper()
	eval[bool](p, `(document.documentElement.dataset.theme = "`+theme+
		`", document.getAnimations().filter((a) => a instanceof CSSTransition).forEach((a) => a.finish()), true)`)
	text, err := axe()
	if err != nil {
		p.t.Fatal(err)
	}
	eval[bool](p, `(globalThis.axe || (() => {`+text+`})(), true)`)
	return eval[[]string](p, `axe.run(document, {resultTypes: ["violations"]`+rules+
		`}).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
		.flatMap((v) => v.nodes.map((n) => v.id + " (" + v.impact + ") at " + n.target.join(" ") + ": " + `+
		`n.any.concat(n.all, n.none).map((c) => c.message).join("; ") + "\n" + n.html.slice(0, 300))))`)
}

// everyPage creates data for all pages and lists them.
func (s *stack) everyPage(t *testing.T) []view {
	t.Helper()
	for _, name := range []string{"axe-parent", "axe-child"} {
		s.agent(t, name)
	}
	s.call(t, "POST", "/schemas", `{"name":"axe-schema","schema":{"type":"object","required":["ok"]}}`, 201)
	s.call(t, "POST", "/agents", `{"name":"axe-agent","type":"autonomous","parameters_schema":`+hard+
		`,"output_schema_name":"axe-schema","mcp_servers":{"files":{"command":"x","env":{"A":"b"}}}}`, 201)
	run, session := s.finished(t, `{"agent_name":"axe-parent","prompt":"@say # Title\n\nText with `+"`code`"+
		`, a [link](https://a.example/) and\n\n|a|b|\n|-|-|\n|1|2|\n@tool look {\"n\":1} => [1]"}`)
	s.finished(t, `{"agent_name":"axe-child","mode":"async_callback","parent_session_id":"`+session+
		`","prompt":"@fail broken It broke"}`)
	bad, _ := s.finished(t, `{"agent_name":"axe-child","prompt":"@json {\"summary\":5}",`+
		`"output_schema":{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"}}}}`)
	waits, _ := s.run(t, `{"agent_name":"axe-child","prompt":"x","additional_demands":{"tags":["nowhere"]}}`)
	click := func(names ...string) func(*page) {
		return func(p *page) {
			for _, name := range names {
				p.click(name)
			}
		}
	}
	all := []view{
		{"/ui/", nil}, {"/ui/?first=" + session, nil}, {"/ui/runs", nil},
		{"/ui/runs?agent_name=axe-child", func(p *page) {
			p.until(`(() => { const c = document.querySelector("thead .pick input"); c?.checked || ` +
				`c?.click(); return ` +
				`document.querySelector(".bulk"); })()`)
		}},
		{"/ui/runs/" + run, nil}, {"/ui/runs/" + bad, click("Run again")}, {"/ui/runs/" + waits, click("More")},
		{"/ui/sessions", nil}, {"/ui/sessions/" + session, nil}, {"/ui/sessions/" + session + "/tree", nil},
		{"/ui/agents", click("New agent")}, {"/ui/agents?q=axe", click("Actions for axe-agent")}, {"/ui/schemas", nil},
		{"/ui/schemas/axe-schema", nil},
		{"/ui/new", nil}, {"/ui/new?agent=axe-agent", click("Start run")}, {"/ui/new?retry=" + run, nil},
		{"/ui/runners", nil}, {"/ui/queues", nil}, {"/ui/callbacks", nil},
		{"/ui/settings", (*page).palette}, {"/ui/settings?tab=doctor", nil}, {"/ui/settings?tab=settings", nil},
		{"/ui/settings?tab=audit", nil}, {"/ui/nothing-here", nil},
	}
	for _, tab := range strings.Fields("general input output prompt servers runners json") {
		all = append(all, view{fmt.Sprintf("/ui/agents/axe-agent?tab=%s", tab), nil})
	}
	return all
}

// palette opens the palette, as Ctrl-K does.
func (p *page) palette() {
	p.t.Helper()
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.until(`document.querySelector("dialog.palette[open] [role=option]")`)
}
