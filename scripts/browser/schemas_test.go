package browser

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestSchemas creates a named schema, tests an answer, and cannot delete a schema that an agent uses.
func TestSchemas(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/schemas")
	p.click("New schema")
	p.fill("Name", "verdict")
	p.edit("Schema", `{"type":"object","required":["ok"],"properties":{"ok":{"type":"boolean"},`+
		`"n":{"maximum":9223372036854775807}}}`)
	p.click("Create")
	p.until(`location.pathname === "/ui/schemas/verdict"`)
	if got := compact(member(t, s.call(t, "GET", "/schemas/verdict", "", 200),
		"schema")); got != `{"type":"object","required":["ok"],"properties":{"ok":{"type":"boolean"},`+
		`"n":{"maximum":9223372036854775807}}}` {
		t.Errorf("stored is %s", got)
	}
	p.fill("An answer, as a model might write it", "Here:\n```json\n{\"ok\": 1}\n```\nor {\"ok\": true}")
	p.has("It matches.")
	p.has("2 candidates were found")
	p.has("this one is used")
	p.has("1 is not of type 'boolean'")

	s.call(t, "POST", "/agents", `{"name":"judge","type":"autonomous","output_schema_name":"verdict"}`, 201)
	list := open(t, s, "/ui/schemas")
	list.has("judge")
	const refused = `?.title === "1 agent uses it: judge"`
	list.click("Actions for verdict")
	list.until(`[...document.querySelectorAll("details.menu[open] .sheet button")].find((b) => ` +
		`b.textContent.startsWith("Delete") && b.getAttribute("aria-disabled") === "true")` + refused)
	one := open(t, s, "/ui/schemas/verdict")
	one.until(`[...document.querySelectorAll("header.top button")].find((b) => b.textContent.startsWith("Delete") && ` +
		`b.getAttribute("aria-disabled") === "true")` + refused)
	s.call(t, "PATCH", "/agents/judge", `{"output_schema_name":null}`, 200)
	again := open(t, s, "/ui/schemas/verdict")
	again.click("Delete")
	again.click("Delete verdict")
	again.shows("/ui/schemas")
	s.call(t, "GET", "/schemas/verdict", "", 404)
}

// TestSchemasInUse: what refers to a schema, and what names it, are told apart. What is a file is not deleted here, and
// what is wrong with one is shown.
func TestSchemasInUse(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	for name, text := range map[string]string{"filed": `{"$ref":"schema:level"}`, "broken": `{"type":`} {
		if err := os.WriteFile(filepath.Join(files, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := ownStack(t, "AO_SCHEMAS_DIR="+files)
	s.call(t, "POST", "/schemas", `{"name":"level","schema":{"enum":[1,2]}}`, 201)
	s.call(t, "POST", "/schemas", `{"name":"report","schema":{"items":{"$ref":"schema:level"}}}`, 201)
	s.call(t, "POST", "/agents", `{"name":"judge","type":"autonomous","output_schema_name":"level"}`, 201)
	const file = "It is defined by a file in AO_SCHEMAS_DIR: remove the file"
	const users = "1 agent uses it: judge. 2 schemas refer to it: filed, report"
	p := open(t, s, "/ui/schemas")
	for name, why := range map[string]string{"level": users, "report": "", "filed": file, "broken": file} {
		p.until(`[...document.querySelector('summary[aria-label="Actions for ` + name + `"]')?.parentElement` +
			`.querySelectorAll(".sheet button") ?? []].find((b) => b.textContent.startsWith("Delete"))?.title === ` +
			strconv.Quote(why))
	}
	p.until(`[...document.querySelectorAll('td a[href="/ui/schemas/report"]')].length === 2`) // its row, and level's
	p.until(`document.querySelector('td a[href^="/ui/agents/judge"]')`)
	p.has("it ends too early")
	picker := open(t, s, "/ui/agents/judge?tab=output")
	picker.until(`[...document.querySelectorAll("select option")].some((o) => o.value === "filed")`)
	picker.until(`![...document.querySelectorAll("select option")].some((o) => o.value === "broken")`)
	one := open(t, s, "/ui/schemas/level")
	one.has("Referred to by")
	one.click("report")
	one.shows("/ui/schemas/report")
	one.has("no agent")
	one.goTo("/ui/schemas/filed")
	one.until(`[...document.querySelectorAll("header.top button")].find((b) => b.textContent.startsWith("Delete"))` +
		`?.title === ` + strconv.Quote(file))
}
