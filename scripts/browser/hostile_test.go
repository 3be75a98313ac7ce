package browser

import (
	"strings"
	"testing"
)

// hostile is a text with HTML, a formula, shell syntax and right-to-left characters.
const hostile = `<img src=x onerror=\"window.taken=1\"><script>window.taken=1</script>'\";$(touch taken)` + "\u202e" +
	`{{7*7}}`

// TestHostileNamesOnEveryPage: text from callers and agents creates no elements and hides nothing, on any page.
func TestHostileNamesOnEveryPage(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"hostilenames","type":"autonomous","executor_profile":"test","description":"`+
		hostile+`","tags":["`+"evil"+`"],"system_prompt":"`+hostile+`",
		"parameters_schema":{"type":"object","title":"`+hostile+`","properties":{"prompt":{"type":"string",
			"title":"`+hostile+`","description":"`+hostile+`",
			"default":"`+hostile+`","examples":["`+hostile+`"]}}}}`, 201)
	s.call(t, "POST", "/schemas", `{"name":"hostileschema","description":"`+hostile+
		`","schema":{"type":"object","title":"`+hostile+`"}}`, 201)
	said, session := s.run(t, `{"agent_name":"hostilenames","prompt":"@tool `+hostile+` {\"`+
		strings.ReplaceAll(hostile, `\"`, `'`)+`\":1} => \"`+strings.ReplaceAll(hostile, `\"`, `'`)+`\"\n@say `+hostile+
		`"}`)
	failed, _ := s.run(t, `{"agent_name":"hostilenames","prompt":"@stderr `+hostile+`\n@fail bad `+hostile+`"}`)
	waits, _ := s.run(t, `{"agent_name":"hostilenames","prompt":"x","project_dir":"/`+hostile+
		`","additional_demands":{"hostname":"`+hostile+`","tags":["`+hostile+`"]}}`)
	s.ended(t, said)
	s.ended(t, failed)
	p := open(t, s, "/ui/")
	for _, at := range []string{
		"/ui/", "/ui/runs", "/ui/runs?q=hostilenames", "/ui/runs?q=%3Cimg%20src%3Dx%20onerror%3Dtaken%3D1%3E",
		"/ui/runs/" + said, "/ui/runs/" + failed, "/ui/runs/" + waits,
		"/ui/sessions", "/ui/sessions/" + session, "/ui/sessions/" + session + "/tree", "/ui/agents",
		"/ui/agents/hostilenames", "/ui/agents/hostilenames?tab=input", "/ui/agents/hostilenames?tab=prompt",
		"/ui/schemas", "/ui/schemas/hostileschema", "/ui/new?agent=hostilenames", "/ui/new?retry=" + said,
		"/ui/new?session=%3Cimg%20src%3Dx%3E&parent=%3Cimg%20src%3Dx%3E", "/ui/queues", "/ui/callbacks", "/ui/settings",
		"/ui/%3Cimg%20src%3Dx%3E",
	} {
		eval[bool](p, `(history.pushState({}, "", `+"`"+at+"`"+
			`), dispatchEvent(new PopStateEvent("popstate", {state: {key: "k"}})), true)`)
		p.until(`document.querySelector(".page") && !document.querySelector(".skeleton, [aria-busy=true]")`)
		for what, wrong := range map[string]string{
			"an image": `document.querySelector("img:not(.cm-widgetBuffer), iframe, object, ` +
				`embed, #app script")`,
			"run a script": `window.taken`,
			"a bidi override": `[...document.querySelectorAll("#app *")].some((e) => [...e.childNodes].some((c) => ` +
				`c.nodeType === 3 && c.data.includes("\u202e") && !e.closest("textarea, .cm-editor, option")))`,
		} {
			if eval[bool](p, `Boolean(`+wrong+`)`) {
				t.Errorf("%s has %s", at, what)
			}
		}
	}
	s.call(t, "POST", "/runs/"+waits+"/stop", "", 200)
}

// TestMembersOfPrototypes: parameters named like members of JavaScript prototypes work like all others.
func TestMembersOfPrototypes(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents",
		`{"name":"prototypes","type":"autonomous","executor_profile":"test","parameters_schema":{"type":"object",`+
			`"properties":{
		"__proto__":{"type":"string"},"toString":{"type":"string"},"hasOwnProperty":{"type":"integer"},`+
			`"constructor":{"type":"object","properties":{"prototype":{"type":"string"}}}}}}`, 201)
	p := open(t, s, "/ui/new?agent=prototypes")
	p.fill("$.__proto__", "one")
	p.fill("$.toString", "two")
	p.fill("$.hasOwnProperty", "9223372036854775807")
	p.click("Add constructor")
	p.fill("$.constructor.prototype", "four")
	p.click("Start run")
	p.until(`/^\/ui\/runs\/run_/.test(location.pathname)`)
	id := strings.TrimPrefix(p.path(), "/ui/runs/")
	const want = `{"__proto__":"one","toString":"two","hasOwnProperty":9223372036854775807,` +
		`"constructor":{"prototype":"four"}}`
	if got := member(t, s.call(t, "GET", "/runs/"+id, "", 200), "parameters"); got != want {
		t.Errorf("the run has %s, want %s", got, want)
	}
	p.until(`document.querySelector(".json")?.textContent.includes("__proto__")`)
	if eval[bool](p, `"one" in {} || ({}).toString === "two" || typeof {}.hasOwnProperty !== "function"`) {
		t.Error("the page's objects have changed")
	}
}
