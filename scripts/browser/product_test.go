package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// product is what the pictures of the documents show: a deployment after an hour's work.
type product struct {
	*stack
	t *testing.T
}

// text is a JSON text.
func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// asked is a body of POST /runs: a prompt, and what the profile test does with it.
func (p product) asked(agent, prompt string, script ...string) map[string]any {
	return map[string]any{"agent_name": agent, "prompt": prompt + "\n" + strings.Join(script, "\n")}
}

func (p product) begins(body map[string]any) (run, session string) {
	p.t.Helper()
	return p.stack.run(p.t, text(p.t, body))
}

func (p product) finishes(body map[string]any) (run, session string) {
	p.t.Helper()
	return p.stack.finished(p.t, text(p.t, body))
}

const reportInput = `{"type":"object","required":["prompt","audience"],"properties":{` +
	`"prompt":{"type":"string","title":"What to look for","description":"One or two sentences"},` +
	`"audience":{"enum":["team","board","public"],"description":"Who reads the summary"},` +
	`"pages":{"type":"integer","minimum":1,"maximum":400,"default":20,"description":"At most so many are read"},` +
	`"urgent":{"type":"boolean"},"topics":{"type":"array","items":{"type":"string"}}}}`

const reportOutput = `{"type":"object","required":["title","severity","changes"],"properties":{` +
	`"title":{"type":"string","maxLength":80},"severity":{"enum":["low","medium","high"]},` +
	`"changes":{"type":"array","items":{"type":"string"}}}}`

func (p product) agents() {
	p.t.Helper()
	for _, a := range [][2]string{
		{"support-triage", "Sorts incoming tickets by product and urgency"},
		{"release-notes", "Writes release notes from merged pull requests"},
		{"contract-reviewer", "Finds clauses that differ from the standard contract"},
		{"market-researcher", "Collects figures about a market, with their sources"},
		{"translator", "Translates documents and keeps their layout"},
		{"fact-checker", "Checks claims against their sources"},
	} {
		p.call(p.t, "POST", "/agents", text(p.t, map[string]any{
			"name": a[0], "description": a[1], "type": "autonomous", "executor_profile": "test",
		}), 201)
	}
	p.call(p.t, "POST", "/agents", text(p.t, map[string]any{
		"name": "report-writer", "type": "autonomous", "executor_profile": "test",
		"description":       "Reads reports and says what has changed and what to decide",
		"system_prompt":     "You read reports. Say what has changed, and what somebody has to decide.",
		"parameters_schema": json.RawMessage(reportInput), "output_schema": json.RawMessage(reportOutput),
	}), 201)
}

// history is an hour of work, some of which failed.
func (p product) history() {
	tickets := []string{
		"login fails after a password reset", "invoice shows the wrong VAT number", "CSV export stops at 10,000 rows",
		"mobile app crashes at start", "webhook arrives twice", "please add a second administrator",
	}
	languages := []string{"German", "French", "Japanese", "Spanish"}
	for n := range 48 {
		var body map[string]any
		switch n % 8 {
		case 0, 3, 6:
			body = p.asked("support-triage", fmt.Sprintf("Ticket %d: %s", 48211+n, tickets[n%len(tickets)]),
				fmt.Sprintf("@sleep %dms", 60+n%5*40), `@json {"product":"billing","urgency":"high"}`)
		case 1:
			body = p.asked("release-notes", fmt.Sprintf("Release notes for version 4.%d", 2+n/8),
				fmt.Sprintf("@sleep %dms", 150+n*3), "@say Three fixes and one new setting.")
		case 2:
			body = p.asked("fact-checker", fmt.Sprintf("Check the figures on page %d of the annual report", 3+n),
				"@sleep 90ms", "@say All figures match their sources.")
			if n%16 == 10 {
				body = p.asked("fact-checker", fmt.Sprintf("Check the quotes on page %d of the annual report", 3+n),
					"@sleep 200ms", "@fail source_unreachable The statistics office does not answer: 503 after 3 tries")
			}
		case 4:
			body = p.asked("translator",
				fmt.Sprintf("Translate chapter %d of the onboarding guide into %s", 1+n/8, languages[n%4]),
				fmt.Sprintf("@sleep %dms", 300+n*4), "@say Done.")
		case 5:
			body = map[string]any{"agent_name": "text-stats",
				"parameters": map[string]any{"file": "doc.go", "top": 3 + n%4}}
		case 7:
			body = p.asked("contract-reviewer",
				fmt.Sprintf("Review section %d of the supplier contract of Northwind Ltd.", 1+n/4),
				fmt.Sprintf("@sleep %dms", 250+n*2), "@say One clause differs: payment is due after 60 days, not 30.")
		}
		p.finishes(body)
	}
}

// family is a session with children: one failed, and one has a child itself. It continues when they have ended.
func (p product) family() (session string) {
	p.t.Helper()
	child := func(agent, prompt string, script ...string) string {
		all := prompt + "\n" + strings.Join(script, "\n")
		return "@child " + agent + " async_callback " + text(p.t, map[string]any{"prompt": all})
	}
	_, session = p.finishes(map[string]any{"agent_name": "report-writer", "parameters": map[string]any{
		"audience": "board",
		"prompt": strings.Join([]string{
			"Compare the third quarter with the second. What does the board have to decide?",
			"@say I will read the three reports first.",
			`@tool list_files {"path":"/reports/2026"} => ["q1.md","q2.md","q3.md"]`,
			`@tool read_file {"path":"/reports/2026/q3.md"} => {"lines":412,"title":"Third quarter 2026"}`,
			"@say I am asking three other agents and will continue when they have answered.",
			child("market-researcher", "What have heat pumps cost in Europe since April?", "@sleep 700ms",
				child("fact-checker", "Is the average price of 11,400 EUR right?",
					"@sleep 900ms", "@say Yes, within 2 %."),
				"@sleep 600ms", "@say Prices rose by 4 %, from 10,960 to 11,400 EUR."),
			child("fact-checker", "Check the head count on page 7", "@sleep 1100ms",
				"@fail source_unreachable The HR system does not answer: 503 after 3 tries"),
			child("translator", "Translate the summary of the second quarter into English",
				"@sleep 2300ms", "@say Costs were stable."),
			`@json {"title":"Costs rose by 4 %","severity":"low","changes":["costs","table 4"]}`,
		}, "\n"),
	}})
	p.until(session, 1)
	p.finishes(map[string]any{"type": "resume_session", "session_id": session, "prompt": strings.Join([]string{
		"Write the summary for the board.", "@sleep 400ms", "@say " + summary,
		`@json {"title":"Third quarter: costs up by 4 %","severity":"medium","changes":["costs","head count"]}`,
	}, "\n")})
	return session
}

const summary = "## Third quarter\n\nThe report is **sound**, but the head count could not be checked.\n\n" +
	"| chapter | change |\n|---|---|\n| 3 | costs rose by 4 % |\n| 7 | a new table of staff |\n\n" +
	"1. Decide on the budget of the fourth quarter.\n2. Ask HR for the figures again.\n"

// until waits until a session has ended runs, more than so many, and none under way.
func (p product) until(session string, more int) {
	p.t.Helper()
	eventually(p.t, "the parent has heard of its children", func() bool {
		ended := p.call(p.t, "GET", "/runs?status=completed,failed&session_id="+session, "", 200)
		open := p.call(p.t, "GET", "/runs?status=pending,claimed,running&session_id="+session, "", 200)
		return strings.Count(ended, `"run_id"`) > more && strings.Contains(open, `"runs":[]`)
	})
}

// rejected is a run whose first answer did not match its output schema.
func (p product) rejected() (run string) {
	p.t.Helper()
	body := p.asked("contract-reviewer", "Review section 12, liability, of the supplier contract of Northwind Ltd.",
		"@say I will compare section 12 with the standard contract.",
		`@tool read_file {"path":"/contracts/northwind.md","section":12} => {"lines":38,"sha256":"9f2c…"}`,
		`@tool search {"query":"limitation of liability","in":"standard"} => [{"section":9,"score":0.93}]`,
		`@metadata {"model":"example-model","usage":{"input_tokens":18234,"output_tokens":912},`+
			`"total_cost_usd":0.0712}`,
		"@sleep 350ms", `@json {"title":"Liability","severity":"critical"}`, "@next",
		`@json {"title":"Liability is not limited","severity":"high"}`)
	body["output_schema"] = json.RawMessage(`{"type":"object","required":["title","severity"],"properties":{` +
		`"title":{"type":"string"},"severity":{"enum":["low","medium","high"]}}}`)
	run, _ = p.finishes(body)
	return run
}

// underway are runs that run, wait, or were stopped.
func (p product) underway() {
	p.t.Helper()
	for n, one := range [][2]string{
		{"market-researcher", "List the five largest vendors of heat pumps in Poland"},
		{"report-writer", "What has changed in the safety report since May?"},
		{"translator", "Translate the tender documents into Czech"},
	} {
		body := p.asked(one[0], one[1], "@say I begin with the table of contents.", "@sleep 900s")
		if one[0] == "report-writer" {
			body = map[string]any{"agent_name": one[0],
				"parameters": map[string]any{"audience": "team", "prompt": body["prompt"]}}
		}
		id, _ := p.begins(body)
		if n == 2 {
			p.call(p.t, "POST", "/runs/"+id+"/stop", "", 200)
			p.ended(p.t, id)
		}
	}
	waits := p.asked("translator", "Translate the video of the product launch")
	waits["additional_demands"] = map[string]any{"tags": []string{"gpu"}}
	p.begins(waits)
}

// works starts runs until it is stopped, now more and now less.
func (p product) works() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case <-time.After(time.Duration(300+n%7*150) * time.Millisecond):
			}
			for range 1 + n%3 {
				p.begins(p.asked("support-triage", fmt.Sprintf("Ticket %d: webhook arrives twice", 48300+n),
					"@sleep 200ms",
					`@json {"product":"api","urgency":"low"}`))
			}
		}
	}()
	return func() { close(quit); <-ended }
}
