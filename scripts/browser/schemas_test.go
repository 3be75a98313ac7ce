package browser

import "testing"

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
