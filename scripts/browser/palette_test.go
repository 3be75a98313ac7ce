package browser

import "testing"

// TestActionsOfAPage: the palette has the actions of the current page, with the same confirmations.
func TestActionsOfAPage(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "palette")
	id, _ := s.run(t, `{"agent_name":"palette","prompt":"@sleep 600s"}`)
	p := open(t, s, "/ui/runs/"+id)
	p.has("running")
	const options = `[...document.querySelectorAll("dialog.palette [role=option]")].map((o) => o.textContent)`
	p.palette()
	p.enter("here: stop")
	p.until(options + `[0] === "Here: Stop"`)
	p.press("\r")
	p.until(`document.querySelector("dialog[open]:not(.palette)")?.innerText.includes("` + id[len(id)-6:] +
		`") || document.querySelector("dialog[open]:not(.palette)")?.innerText.includes("Stop")`)
	p.press("\x1b")
	p.until(`!document.querySelector("dialog[open]")`)
	s.call(t, "POST", "/runs/"+id+"/stop", "", 200)
	p.has("stopped")
	p.palette()
	p.enter("here: stop")
	p.until(options + `.every((o) => o !== "Here: Stop")`)
	p.press("\x1b")
}

// TestAuditSince: the audit log can be filtered by time, and the filter is in the address.
func TestAuditSince(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "audited")
	p := open(t, s, "/ui/settings?tab=audit&action=agent.create")
	p.has("audited")
	p.until(`[...document.querySelectorAll("tbody tr")].some((r) => /agent audited · via the HTTP ` +
		`API/.test(r.innerText))`)
	p.choose("Since", "Last hour")
	p.until(`new URLSearchParams(location.search).get("hours") === "1"`)
	p.has("audited")
}

// TestEscClosesThePalette at the first press, whatever is typed into it.
func TestEscClosesThePalette(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/runs")
	p.settled()
	p.palette()
	p.enter("settings")
	p.until(`document.querySelector("dialog.palette input").value === "settings"`)
	p.press("\x1b")
	p.until(`!document.querySelector("dialog.palette")`)
}
