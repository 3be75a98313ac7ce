package browser

import (
	"strings"
	"testing"
)

// TestActivateAndDelete: the actions of an agent's menu work in the list and on its page, after confirmation.
func TestActivateAndDelete(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "acted")
	status := func() string { return member(t, s.call(t, "GET", "/agents/acted", "", 200), "status") }
	list := open(t, s, "/ui/agents?q=acted")
	list.menu("Actions for acted", "Deactivate")
	list.has("New runs of it are refused")
	if got := status(); got != `"active"` {
		t.Errorf("before it is confirmed the agent is %s", got)
	}
	list.click("Deactivate acted")
	list.has("acted is inactive")
	if got := status(); got != `"inactive"` {
		t.Errorf("deactivated, the agent is %s", got)
	}
	s.call(t, "POST", "/runs", `{"agent_name":"acted","prompt":"x"}`, 409)
	list.until(`document.querySelector('tbody [aria-label="Run acted"]')?.getAttribute("aria-disabled") === "true"`)

	p := open(t, s, "/ui/agents/acted")
	p.until(`document.querySelector("h1").innerText.includes("inactive")`)
	p.menu("More actions", "Activate")
	p.click("Activate acted")
	p.until(`document.querySelector("h1").innerText.includes("active") && ` +
		`!document.querySelector("h1").innerText.includes("inactive")`)
	if got := status(); got != `"active"` {
		t.Errorf("activated, the agent is %s", got)
	}
	p.menu("More actions", "Delete")
	p.has("its drafts are deleted")
	p.click("Cancel")
	s.call(t, "GET", "/agents/acted", "", 200)
	p.menu("More actions", "Delete")
	p.click("Delete acted")
	p.shows("/ui/agents")
	s.call(t, "GET", "/agents/acted", "", 404)
}

// radio selects an option by the bold part of its label.
func (p *page) radio(label string) {
	p.t.Helper()
	p.until(`(() => {
		const found = [...document.querySelectorAll("label.choice")].find((l) => ` +
		`l.querySelector("strong").textContent === "` + label + `");
		found?.control.click();
		return found?.control.checked;
	})()`)
}

// menu opens a menu and clicks an item.
func (p *page) menu(label, item string) {
	p.t.Helper()
	p.click(label)
	p.until(`(() => {
		const found = [...document.querySelectorAll("details.menu[open] .sheet button, details.menu[open] .sheet ` +
		`a")].find((b) => b.textContent.trim() === "` + item + `");
		found?.click();
		return found;
	})()`)
}

// TestOutputByName switches an agent's output to a named schema and back.
func TestOutputByName(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/schemas", `{"name":"byname","schema":{"type":"object","required":["ok"]}}`, 201)
	s.call(t, "POST", "/agents", `{"name":"switched","type":"autonomous","executor_profile":"test",`+
		`"output_schema":{"type":"object","required":["own"]}}`, 201)
	p := open(t, s, "/ui/agents/switched?tab=output")
	p.radio("By name")
	p.choose("Schema", "byname")
	p.until(`document.querySelector('[aria-label="Schema byname"]')`)
	p.fill("Retries", "0")
	p.click("Save")
	p.has("switched is saved")
	doc := s.call(t, "GET", "/agents/switched", "", 200)
	if got := member(t, doc, "output_schema_name") + member(t, doc, "output_schema") +
		compact(member(t, doc, "output_schema_options")); got != `"byname"{"max_retries":0}` {
		t.Errorf("stored is %s", got)
	}
	id, _ := s.run(t, `{"agent_name":"switched","prompt":"@json {\"own\":1}"}`)
	if end := s.ended(t, id); !strings.Contains(end, "OutputSchemaValidationError") {
		t.Errorf("an answer that does not match the named schema ended as %s", end)
	}
	p.until(`[...document.querySelectorAll("[role=tab]")].some((e) => e.textContent === "Output by name")`)
	p.radio("None")
	p.click("Save")
	p.until(`!document.body.innerText.includes("unsaved") && ` +
		`[...document.querySelectorAll("[role=tab]")].some((e) => ` +
		`e.textContent.trim() === "Output")`)
	doc = s.call(t, "GET", "/agents/switched", "", 200)
	if got := member(t, doc, "output_schema_name") + member(t, doc, "output_schema_options"); strings.ReplaceAll(got,
		"null", "") != "" {
		t.Errorf("without an output schema stored is %s", got)
	}
}

// TestJSONOfAnAgent: changes in the JSON tab show in the other tabs and are saved byte for byte; invalid JSON is
// refused.
func TestJSONOfAnAgent(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents",
		`{"name":"whole","type":"autonomous","description":"before","tags":["a"],"timeout_seconds":60}`, 201)
	p := open(t, s, "/ui/agents/whole?tab=json")
	p.until(`document.querySelector('.cm-content[aria-label="Definition"]')?.innerText.includes('"before"')`)
	p.edit("Definition", `{"name":"whole",`)
	p.has("This is not valid JSON: the changes are not applied yet")
	p.edit("Definition", `{"name":"whole","type":"autonomous","description":"after",`+
		`"parameters_schema":{"type":"object","properties":{"10":{"maximum":9223372036854775807},`+
		`"2":{"multipleOf":0.10}}},"mcp_servers":{"files":{"command":"x","args":["1.50"]}}}`)
	p.click("General")
	p.until(at("Description") + `?.value === "after"`)
	p.click("Input on")
	p.until(`document.querySelector('.cm-content[aria-label="Custom input ` +
		`schema"]')?.innerText.includes("9223372036854775807")`)
	p.click("Save")
	p.has("whole is saved")
	doc := s.call(t, "GET", "/agents/whole", "", 200)
	if got, want := compact(member(t, doc, "parameters_schema")),
		`{"type":"object","properties":{"10":{"maximum":9223372036854775807},"2":{"multipleOf":0.10}}}`; got != want {
		t.Errorf("stored is\n%s\nwant\n%s", got, want)
	}
	if got := member(t, doc, "tags") + member(t, doc, "timeout_seconds"); strings.NewReplacer("null", "", "[]",
		"").Replace(got) != "" {
		t.Errorf("what was taken out is still there: %s", doc)
	}
	if got := compact(member(t, doc, "mcp_servers")); got != `{"files":{"command":"x","args":["1.50"]}}` {
		t.Errorf("the servers are %s", got)
	}
}

// TestMaskedServers: a user without scope admin never sees an agent's secrets and cannot change them.
func TestMaskedServers(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	const secret = "hunter-two-12345"
	s.as("admin").call(t, "POST", "/agents",
		`{"name":"secretive","type":"autonomous","mcp_servers":{"files":{"command":"x","env":{"TOKEN":"`+secret+
			`"}},"web":{"type":"http","url":"https://a.example/","headers":{"Authorization":"`+secret+`"}}}}`, 201)
	for _, scope := range []string{"read", "run", "admin"} {
		p := tab(t, s.stack, "/ui/agents/secretive?tab=servers")
		p.logIn(s.tokens[scope])
		for _, part := range []string{"servers", "json"} {
			label := map[string]string{"servers": "MCP servers", "json": "Definition"}[part]
			p.click(map[string]string{"servers": "MCP servers", "json": "JSON"}[part])
			p.until(`document.querySelector('.cm-content[aria-label="` + label + `"]')?.innerText.includes("TOKEN")`)
			shown := p.text(label)
			if seen := strings.Count(shown, secret); scope == "admin" && seen != 2 || scope != "admin" &&
				(seen != 0 || strings.Count(shown, "••••") != 2) {
				t.Errorf("in %s a token with scope %s is shown\n%s", part, scope, shown)
			}
			fixed := eval[bool](p, `document.querySelector('.cm-content[aria-label="`+label+
				`"]').getAttribute("aria-readonly") === "true"`)
			if fixed != (scope != "admin") {
				t.Errorf("the editor of %s is read-only for scope %s: %v", part, scope, fixed)
			}
		}
		if scope != "admin" {
			p.click("MCP servers")
			p.has("your token may not see them")
			p.until(`[...document.querySelectorAll("button")].find((b) => ` +
				`b.textContent.startsWith("Save."))?.title.includes("This needs PATCH /agents/:name")`)
		}
	}
}
