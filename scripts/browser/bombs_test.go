package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestDeepAnswer: a result that is nested too deeply to be laid out is shown as it came, and said to be.
func TestDeepAnswer(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "deep")
	const depth = 3000
	nested := strings.Repeat("[", depth) + `"needle"` + strings.Repeat("]", depth)
	id, session := s.run(t, text(t, map[string]any{"agent_name": "deep", "prompt": "@json " + nested}))
	s.ended(t, id)
	for _, path := range []string{"/ui/runs/" + id, "/ui/sessions/" + session} {
		p := open(t, s, path)
		p.has("It is nested too deeply to be laid out")
		p.until(`[...document.querySelectorAll("main pre.json")].some((e) => ` +
			`e.textContent.includes("[[[\"needle\"]]]"))`)
		if eval[bool](p, `document.body.innerText.includes("No result")`) {
			t.Errorf("%s says that there is no result", path)
		}
	}
}

// TestAnswersThatWouldKeepThePageBusy: an answer that is slow to parse or deeply nested is still shown.
func TestAnswersThatWouldKeepThePageBusy(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "bombs")
	for name, tt := range map[string]struct {
		text  string
		plain bool // shown as text
	}{
		"quotes in quotes":      {strings.Repeat("> ", 5000) + "needle", true},
		"lists in lists":        {strings.Repeat("- ", 20000) + "needle", true},
		"emphasis that is open": {strings.Repeat("*a_ ", 12000) + "needle", true},
		"emphasis in emphasis":  {strings.Repeat("**a *b ", 300) + "needle" + strings.Repeat(" b* a**", 300), false},
		"a table as wide as can": {strings.Repeat("|a", 8000) + "\n" + strings.Repeat("|-", 8000) + "\n" +
			strings.Repeat("|\n", 9000) + "needle", true},
		"lines":                  {strings.Repeat("- a\n", 12000) + "needle", true},
		"characters nobody sees": {strings.Repeat("\u202e", 5000) + "needle", false},
	} {
		t.Run(name, func(t *testing.T) {
			id, _ := s.run(t, runPrompt(t, "bombs", tt.text))
			s.ended(t, id)
			p := open(t, s, "/ui/runs/"+id)
			p.until(fmt.Sprintf(`document.querySelector(".step.assistant .md%s")?.textContent.includes("needle")`,
				map[bool]string{true: ".plain", false: ":not(.plain)"}[tt.plain]))
			n := eval[int](p, `(() => {
				let most = 0;
				for (let e of document.querySelectorAll(".step.assistant *")) {
					let n = 0;
					for (; e; e = e.parentElement) n++;
					most = Math.max(most, n);
				}
				return most;
			})()`)
			if n > 80 {
				t.Errorf("elements are %d deep, want 80 at most", n)
			}
			if eval[bool](p, `document.querySelector("main").innerText.includes("\u202e")`) {
				t.Error("a bidi character is shown")
			}
		})
	}
}

// runPrompt returns a request for a run whose agent answers with a text.
func runPrompt(t *testing.T, agent, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"agent_name": agent, "prompt": "@say " + text})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestLargeParameters: parameters of megabytes are shown truncated and copied completely.
func TestLargeParameters(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "heavy")
	for name, params := range map[string]string{
		"a prompt": `{"prompt":"` + strings.Repeat("x ", 3<<20) + `"}`,
		"a value": `{"prompt":"@say done","others":[` +
			strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 100_000)+`",`, 20), ",") + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(params, "others") {
				s.call(t, "PATCH", "/agents/heavy", `{"parameters_schema":{"type":"object"}}`, 200)
			}
			id, _ := s.run(t, `{"agent_name":"heavy","parameters":`+params+`}`)
			s.ended(t, id)
			p := open(t, s, "/ui/runs/"+id)
			p.has("characters more")
			if n := eval[int](p, `document.querySelector("main").textContent.length`); n > 500_000 {
				t.Errorf("the page has %d characters", n)
			}
			button := "Copy parameters"
			if name == "a prompt" {
				button = "Copy the prompt"
			}
			p.click(button)
		})
	}
}

// TestSchemasWithoutEnd: the form of a recursive schema, or one with very many fields, is shown at once.
func TestSchemasWithoutEnd(t *testing.T) {
	s := sharedStack(t)
	fields := func(n int, schema string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"f%d":%s`, i, schema))
		}
		return strings.Join(all, ",")
	}
	words := `"w"`
	for i := range 3000 {
		words += fmt.Sprintf(`,"w%d"`, i)
	}
	for _, tt := range []struct{ agent, schema, shown string }{
		{"endless", `{"type":"object","properties":{"name":{"type":"string"},` + fields(20, `{"$ref":"#"}`) +
			`}}`, `[data-path="$.f19"]`},
		{"endlesslist", `{"type":"object","properties":{"name":{"type":"string"},` +
			fields(20, `{"type":"array","items":{"$ref":"#"}}`) + `}}`, `[data-path="$.f19"]`},
		{"endlessneed", `{"type":"object","required":["f0","f1","f2","f3","f4","f5","f6","f7"],"properties":{` +
			fields(8, `{"$ref":"#"}`) + `}}`, `.cm-content[aria-label="Parameters"]`},
		{"widest", `{"type":"object","properties":{` + fields(3000, `{"type":"string"}`) +
			`}}`, `.cm-content[aria-label="Parameters"]`},
		{"words", `{"type":"object","properties":{"one":{"enum":[` + words + `]}}}`, `input[data-path="$.one"]`},
	} {
		t.Run(tt.agent, func(t *testing.T) {
			s.call(t, "POST", "/agents", `{"name":"`+tt.agent+
				`","type":"autonomous","executor_profile":"test","parameters_schema":`+tt.schema+`}`, 201)
			p := open(t, s, "/ui/new?agent="+tt.agent)
			p.until(`document.querySelector('` + tt.shown + `')`)
			if n := eval[int](p, `document.querySelectorAll("*").length`); n > 3000 {
				t.Errorf("the page has %d elements", n)
			}
		})
	}
}

// TestAddressesThatCannotBeDecoded: a fragment with invalid escapes breaks no page.
func TestAddressesThatCannotBeDecoded(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "fragments")
	id, session := s.run(t, `{"agent_name":"fragments","prompt":"@say here I am"}`)
	s.ended(t, id)
	for _, at := range []string{"/ui/runs/" + id, "/ui/sessions/" + session} {
		p := open(t, s, at+"#%E0%A4%A")
		p.has("here I am")
	}
}
