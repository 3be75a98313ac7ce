package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/clock/clocktest"

	"github.com/chromedp/chromedp/kb"
)

// TestInputSchema: a custom input schema shows errors at their lines and is saved into the file.
func TestInputSchema(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents/security-scanner?tab=input")
	p.has("prompt is required")
	if eval[bool](p, `Boolean(document.querySelector(".editor"))`) {
		t.Error("the editor is there while the switch is off")
	}
	p.click("Custom input schema")
	const label = "Custom input schema"
	p.edit(label, "{\n\"type\": \"object\",\n\"properties\": {\"topic\": {\"type\": \"strin\"}}\n}")
	p.has("Line 3 $.properties.topic.type 'strin' is not one of")
	p.until(`document.querySelector(".cm-lint-marker-error")`)
	p.click("Save")
	p.has("The input schema is not valid, line 3: $.properties.topic.type")
	p.until(`document.querySelector(".problem")`)
	p.edit(label, `{"type":"object","required":["topic"],"properties":{"10":{"maximum":9223372036854775807},`+
		`"2":{"multipleOf":0.10},"topic":{"type":"string"}}}`)
	p.until(`!document.querySelector(".problem")`) // it was said of another text
	p.has("prompt is not a field of this schema")
	p.click("Prettify")
	p.until(`document.querySelectorAll(".cm-line").length > 10`)
	p.click("Save")
	p.has("security-scanner is saved")
	want := `{"type":"object","required":["topic"],"properties":{"10":{"maximum":9223372036854775807},` +
		`"2":{"multipleOf":0.10},"topic":{"type":"string"}}}`
	if got := compact(member(t, s.call(t, "GET", "/agents/security-scanner", "", 200),
		"parameters_schema")); got != want {
		t.Errorf("stored is\n%s\nwant\n%s", got, want)
	}
	file, err := os.ReadFile(filepath.Join(s.agents, "security-scanner", "agent.json"))
	if err != nil || !strings.Contains(string(file), "9223372036854775807") ||
		!strings.Contains(string(file), `"severity"`) {
		t.Errorf("the file is %s (%v)", file, err)
	}
	list := open(t, s, "/ui/agents?q=security-scanner")
	list.until(`[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.includes("security-scanner") && ` +
		`r.innerText.includes("input"))`)

	p.until(`!document.querySelector("[aria-busy=true]")`)
	p.click("Add prompt")
	p.has("prompt is required")
	p.click("Custom input schema")
	p.has("The text is kept as a draft")
	p.click("Save")
	p.until(`document.body.innerText.includes("security-scanner is saved") && ` +
		`!document.body.innerText.includes("unsaved")`)
	clocktest.Until(t, "the schema is turned off", func() bool { // the page still says what was saved before
		got := member(t, s.call(t, "GET", "/agents/security-scanner", "", 200), "parameters_schema")
		return got == "" || got == "null"
	})
}

// TestEmptyEditor: an empty editor activates nothing and does not remove the active schema.
func TestEmptyEditor(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"empty","type":"autonomous"}`, 201)
	p := open(t, s, "/ui/agents/empty?tab=input")
	p.click("Custom input schema")
	p.has("The editor is empty: no schema is active")
	p.click("General")
	p.fill("Description", "changed")
	p.click("Save")
	p.has("The input editor is empty: no custom schema is active")
	doc := s.call(t, "GET", "/agents/empty", "", 200)
	if got := member(t, doc, "parameters_schema"); got != "" && got != "null" {
		t.Errorf("an empty editor has activated %s", got)
	}
	if got := member(t, doc, "description"); got != `"changed"` {
		t.Errorf("the description is %s", got)
	}
}

// TestSavedElsewhere: a concurrent change shows both versions, and nothing is lost.
func TestSavedElsewhere(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"contested","type":"autonomous","description":"first","tags":["a"]}`, 201)
	p := open(t, s, "/ui/agents/contested")
	p.fill("Description", "mine")
	s.call(t, "PATCH", "/agents/contested", `{"description":"theirs","tags":["b"]}`, 200)
	p.click("Save")
	p.has("Somebody else changed this agent")
	p.has("theirs")
	p.click("Overwrite with mine")
	p.has("contested is saved")
	doc := s.call(t, "GET", "/agents/contested", "", 200)
	if got := member(t, doc, "description") + member(t, doc, "tags"); got != `"mine"["b"]` {
		t.Errorf("stored is %s, want the description of the page and the tags of the other", got)
	}
}

// TestReadOnly: a runner's agent says why it cannot be changed.
func TestReadOnly(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents/text-stats?tab=input")
	p.has("Read only. it belongs to runner")
	p.until(`document.querySelector('.cm-content[aria-label="Custom input schema"]')?.getAttribute("aria-readonly") ` +
		`=== "true" || document.querySelector(".editor.fixed")`)
	p.until(`[...document.querySelectorAll("button")].find((b) => ` +
		`b.textContent.startsWith("Save."))?.getAttribute("aria-disabled") === "true"`)
}

// TestCopy copies an agent from a file into an agent of the API.
func TestCopy(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents/data-extractor?tab=output")
	p.click("More actions")
	p.click("Copy")
	p.fill("Name", "extractor-two")
	p.click("Create")
	p.until(`location.pathname === "/ui/agents/extractor-two"`)
	of := func(name string) string {
		return compact(member(t, s.call(t, "GET", "/agents/"+name, "", 200), "output_schema"))
	}
	if got, want := of("extractor-two"), of("data-extractor"); got != want {
		t.Errorf("the copy has\n%s\nwant\n%s", got, want)
	}
}

// TestTabLeavesTheEditor: Tab leaves the editor after Esc; before, it indents.
func TestTabLeavesTheEditor(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents/summarizer?tab=servers")
	p.edit("MCP servers", "{}")
	p.press(kb.Tab)
	p.until(`document.activeElement.classList.contains("cm-content")`)
	p.press(kb.Escape)
	p.press(kb.Tab)
	p.until(`!document.activeElement.closest(".cm-editor")`)
}

// TestMarkdown: entities are decoded without HTML, and HTML is text.
func TestMarkdown(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents")
	made, err := filepath.Glob("../../coordinator/dashboard/ui/vendor/markdown-*.js")
	if err != nil || len(made) != 1 {
		t.Fatalf("%q, %v", made, err)
	}
	tree := eval[string](p, `import(new URL("../vendor/`+filepath.Base(made[0])+
		`", document.querySelector("script[type=module]").src)).then((m) => JSON.stringify(m.parse("&amp; &copy; `+
		`<b>x</b>\n\n|a|\n|-|\n|b|")))`)
	for _, want := range []string{`"value":"& © "`, `"type":"html"`, `"type":"tableCell"`} {
		if !strings.Contains(tree, want) {
			t.Errorf("the tree lacks %s: %s", want, tree)
		}
	}
}

func compact(doc string) string {
	var b strings.Builder
	text := false
	for i := range len(doc) {
		c := doc[i]
		if c == '"' && (i == 0 || doc[i-1] != '\\') {
			text = !text
		}
		if text || !strings.ContainsRune(" \n\t", rune(c)) {
			b.WriteByte(c)
		}
	}
	if !json.Valid([]byte(b.String())) && doc != "" {
		return doc
	}
	return b.String()
}

// TestDrafts: the coordinator keeps drafts, even of invalid or disabled schemas, over a reload and for other
// browsers; a second editor is asked.
func TestDrafts(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"drafted","type":"autonomous"}`, 201)
	const label, path = "Custom input schema", "/ui/agents/drafted?tab=input"
	const badge = `document.querySelector("header.top .actions .badge")?.textContent `
	p := open(t, s, path)
	p.click(label)
	p.edit(label, `{"type": "object", "prop`)
	p.has("Kept as a draft")
	p.until(badge + `=== "kept as a draft"`) // and nothing says that it is unsaved
	p.click(label)
	p.has("The text is kept as a draft")
	if doc := s.call(t, "GET", "/agents/drafted", "", 200); member(t, doc, "drafts") != `["input"]` ||
		strings.Contains(doc, "parameters_schema") {
		t.Errorf("the agent is %s", doc)
	}
	other := open(t, s, path)
	other.has("The text is kept as a draft")
	other.click(label)
	other.until(`document.querySelector(".cm-content")`)
	if got, want := other.text(label), `{"type": "object", "prop`; got != want {
		t.Errorf("another browser shows %q, want %q", got, want)
	}
	other.edit(label, `{"type": "object"}`)
	other.has("Kept as a draft")
	other.click("General")
	other.fill("Description", "changed")
	other.until(badge + `=== "unsaved"`)
	other.click("Discard")
	other.click("Input")
	p.click(label)
	p.edit(label, `{"type": "array"}`)
	p.has("This draft was changed elsewhere")
	p.click("Take theirs")
	p.until(`document.querySelector(".cm-content").innerText.includes('"object"')`)
	list := open(t, s, "/ui/agents?q=drafted")
	list.until(`[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.includes("drafted") && ` +
		`r.innerText.includes("draft\n") || r.querySelector(".badge.warn"))`)
	p.click("Save")
	p.has("drafted is saved")
	eventually(t, "the draft goes where its text is active", func() bool {
		doc := s.call(t, "GET", "/agents/drafted", "", 200)
		return compact(member(t, doc, "parameters_schema")) == `{"type":"object"}` &&
			member(t, doc, "drafts") != `["input"]`
	})
}

// TestPreview shows the real prompts and the matching runners, as the coordinator reports them.
func TestPreview(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/agents/pr-reviewer?tab=prompt")
	p.has("## Required Output Format")
	p.fill("$.diff", "+one\n</inputs>")
	p.until(`document.querySelector('pre[aria-label="Prompt"]')?.innerText.startsWith("<inputs>")`)
	who := open(t, s, "/ui/agents/pr-reviewer?tab=runners")
	who.has("1 of 2 runners would take it now")
	who.has("Why the others do not")
}
