package browser

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/access"

	"github.com/chromedp/chromedp"
)

// withoutControl are changing routes without a control, with the reasons.
var withoutControl = map[string]string{
	"POST /login":                       "the form of the login, which nobody has to be allowed to see",
	"POST /logout":                      "whoever is logged in may log out",
	"POST /login/codes":                 "for ao dashboard, which opens a browser",
	"POST /ledger/accept":               "an operator decides it, with ao verify --accept-damage",
	"POST /mcp":                         "for agents",
	"POST /runner/register":             "for workers",
	"POST /runs/validate":               "asked while somebody types",
	"POST /agents/preview":              "asked while somebody types",
	"POST /schemas/validate":            "asked while somebody types",
	"PUT /agents/:name/drafts/:side":    "kept while somebody types, where the agent may be changed",
	"DELETE /agents/:name/drafts/:side": "goes with what is typed, where the agent may be changed",
}

// control is an element that calls a route.
type control struct {
	Route, Name, Title string
	Off                bool
}

// TestControlsByScope: for each scope, a control is enabled exactly if the scope may call its route, and otherwise
// names the scope it needs. No page sends forbidden requests.
func TestControlsByScope(t *testing.T) {
	t.Parallel()
	shipped, err := filepath.Abs("../../worker/agents/autonomous")
	if err != nil {
		t.Fatal(err)
	}
	s := newTokenStack(t, append(slices.Clone(callsBack), "AO_AGENTS_SEED="+shipped)...)
	paths := s.controlled(t)
	for _, scope := range []string{"read", "run", "admin"} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			p := tab(t, s.stack, "/ui/")
			p.logIn(s.tokens[scope])
			p.shows("/ui/")
			seen := map[string]bool{}
			for _, v := range paths {
				p.do(chromedp.Navigate(s.url + v.path))
				p.settled()
				if v.open != nil {
					v.open(p)
				}
				for _, c := range p.controls() {
					seen[c.Route] = true
					if wrong := c.wrong(scope); wrong != "" {
						t.Errorf("%s: %q %s", v.path, c.Name, wrong)
					}
				}
				if refused := eval[[]string](p, `performance.getEntriesByType("resource").filter((e) => `+
					`e.responseStatus === 403).map((e) => e.name)`); len(refused) > 0 {
					t.Errorf("%s asks for what it may not have: %q", v.path, refused)
				}
			}
			for _, route := range slices.Sorted(maps.Keys(access.Rules)) {
				if reason := withoutControl[route]; (reason == "") != seen[route] && !strings.HasPrefix(route, "GET ") {
					t.Errorf("there is a control of %s: %v; the reason why there is none: %q", route, seen[route],
						reason)
				}
			}
		})
	}
}

// wrong returns how a control differs from the rights of a scope.
func (c control) wrong(scope string) string {
	rule, known := access.Rules[c.Route]
	allowed := slices.Index([]string{"", "read", "run", "admin"}, rule.Scope.String()) <= slices.Index(
		[]string{"", "read", "run", "admin"}, scope)
	named := strings.HasSuffix(c.Title, "This needs "+c.Route+".")
	switch {
	case !known:
		return "does " + c.Route + ", which is no route"
	case allowed && named:
		return "is refused, though " + c.Route + " is allowed"
	case !allowed && !c.Off:
		return "can be used, though " + c.Route + " is not allowed"
	case !allowed && !named:
		return fmt.Sprintf("does not say that %s is missing, but %q", c.Route, c.Title)
	}
	return ""
}

// controls returns the page's controls that call a route.
func (p *page) controls() []control {
	p.t.Helper()
	return eval[[]control](p,
		`[...document.querySelectorAll("[data-needs]")].map((e) => ({Route: e.dataset.needs, Name: `+
			`(e.getAttribute("aria-label") ?? e.textContent).trim(),
		Title: e.title, Off: e.getAttribute("aria-disabled") === "true" || e.disabled === true}))`)
}

// controlled creates the data for all controls and lists their pages.
func (g tokenStack) controlled(t *testing.T) []view {
	t.Helper()
	s := g.as("admin")
	s.agent(t, "controlled")
	s.call(t, "POST", "/schemas", `{"name":"controlled","schema":{"type":"object"}}`, 201)
	s.call(t, "PATCH", "/agents/summarizer", `{"description":"edited"}`, 200)
	run, session := s.finished(t, `{"agent_name":"controlled","prompt":"@say x","callback_url":"http://127.0.0.1:9/"}`)
	for range 201 { // one more than a page of the list has, so that all that match can be taken
		s.run(t, `{"agent_name":"controlled","prompt":"x","additional_demands":{"tags":["nowhere"]}}`)
	}
	return []view{
		{"/ui/", nil}, {"/ui/runs", nil}, {"/ui/runs?agent_name=controlled", func(p *page) {
			p.until(`(() => { const all = document.querySelector("thead .pick input"); all && !all.checked && ` +
				`all.click(); return document.querySelector(".bulk"); })()`)
		}},
		{"/ui/runs?agent_name=controlled&flat=1", func(p *page) { p.has("202 runs"); p.takeAll(202) }},
		{"/ui/runs/" + run, nil}, {"/ui/sessions", nil}, {"/ui/sessions/" + session, nil}, {"/ui/agents", nil},
		{"/ui/agents/controlled", nil}, {"/ui/agents/text-stats", nil},
		{"/ui/agents/summarizer", nil},
		{"/ui/schemas", nil}, {"/ui/schemas/controlled", nil}, {"/ui/new?agent=controlled", nil},
		{"/ui/new?retry=" + run, nil}, {"/ui/runners", nil}, {"/ui/callbacks", nil},
		{"/ui/settings?tab=doctor", (*page).palette}, {"/ui/settings?tab=settings", nil},
		{"/ui/settings?tab=audit", nil},
	}
}
