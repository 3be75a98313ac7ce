package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// run starts a run and returns its id and its session's.
func (s *stack) run(t *testing.T, body string) (run, session string) {
	t.Helper()
	var made struct {
		Run     string `json:"run_id"`
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(s.call(t, "POST", "/runs", body, 201)), &made); err != nil {
		t.Fatal(err)
	}
	return made.Run, made.Session
}

// ended waits until a run has ended, and returns it with its result.
func (s *stack) ended(t *testing.T, run string) string {
	t.Helper()
	return s.call(t, "GET", "/runs/"+run+"/wait?timeout_seconds=30", "", 200)
}

// finished starts a run and waits until it has ended.
func (s *stack) finished(t *testing.T, body string) (run, session string) {
	t.Helper()
	run, session = s.run(t, body)
	s.ended(t, run)
	return run, session
}

// agent creates an agent with this name, so that a test has its own runs.
func (s *stack) agent(t *testing.T, name string) {
	t.Helper()
	s.call(t, "POST", "/agents", `{"name":"`+name+`","type":"autonomous","executor_profile":"test"}`, 201)
}

// prompted creates an agent with this name and runs it with a prompt, given as the text of a JSON string.
func (s *stack) prompted(t *testing.T, agent, prompt string) (run, session string) {
	t.Helper()
	s.agent(t, agent)
	return s.finished(t, `{"agent_name":"`+agent+`","prompt":"`+prompt+`"}`)
}

// row returns a selector for the row with a text.
func row(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((r) => r.innerText.includes(%q))`, text)
}

// TestRunsLive: new runs appear, changed ones change in place, and nothing moves under the pointer.
func TestRunsLive(t *testing.T) {
	s := sharedStack(t)
	s.prompted(t, "livelist", `@say the first`)
	p := open(t, s, "/ui/runs?agent_name=livelist")
	p.has("@say the first")
	p.has("Live")
	slow, _ := s.run(t, `{"agent_name":"livelist","prompt":"@sleep 600s"}`)
	p.until(row("@sleep 600s") + `?.innerText.includes("running")`)
	s.call(t, "POST", "/runs/"+slow+"/stop", "", 200)
	p.until(row("@sleep 600s") + ` === undefined && ` + row("Stopped while it ran") + `?.innerText.includes("stopped")`)

	eval[bool](p, `(`+row("@say the first")+`.querySelector("a").focus(), true)`)
	s.run(t, `{"agent_name":"livelist","prompt":"@say the third"}`)
	p.has("1 new run")
	if eval[bool](p, row("@say the third")+" !== undefined") {
		t.Error("a new row came while a row had the focus")
	}
	p.click("1 new run")
	p.has("@say the third")
}

// TestOldRunsStayBelow: a run that another page has, and one that matches only now, are not put on top as new.
func TestOldRunsStayBelow(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "ordered")
	oldest, _ := s.run(t, `{"agent_name":"ordered","prompt":"@sleep 600s"}`)
	second, _ := s.run(t, `{"agent_name":"ordered","prompt":"@sleep 600s\n@say second"}`)
	for range 205 { // more than a page of the list has
		s.run(t, `{"agent_name":"ordered","prompt":"x","additional_demands":{"tags":["nowhere"]}}`)
	}
	first := `document.querySelector("tbody tr:not(.spacer)")?.innerText`
	p := open(t, s, "/ui/runs?agent_name=ordered")
	p.has("207 runs")
	s.call(t, "POST", "/runs/"+oldest+"/stop", "", 200)
	s.ended(t, oldest)
	s.run(t, `{"agent_name":"ordered","prompt":"the newest","additional_demands":{"tags":["nowhere"]}}`)
	p.until(first + `?.includes("the newest") || document.querySelector(".listbar").innerText.includes("1 new run")`)
	if eval[bool](p, row(`@sleep 600s`)+` !== undefined`) {
		t.Error("the oldest run is on top")
	}

	stopped := open(t, s, "/ui/runs?agent_name=ordered&status=stopped")
	stopped.has("1 run")
	newer, _ := s.run(t, `{"agent_name":"ordered","prompt":"stopped first","additional_demands":{"tags":["nowhere"]}}`)
	s.call(t, "POST", "/runs/"+newer+"/stop", "", 200)
	stopped.until(first + `?.includes("` + newer[len(newer)-8:] + `")`)
	s.call(t, "POST", "/runs/"+second+"/stop", "", 200)
	stopped.until(row(second[len(second)-8:]))
	order := eval[[]string](stopped, `[...document.querySelectorAll("tbody tr a.name")].map((a) => `+
		`a.getAttribute("href").split("/").at(-1))`)
	if want := []string{newer, second, oldest}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}

// TestRunsAddress: filters are in the address, so reload, back and links show the same list.
func TestRunsAddress(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "addressed")
	good, _ := s.run(t, `{"agent_name":"addressed","prompt":"@say well done"}`)
	bad, _ := s.run(t, `{"agent_name":"addressed","prompt":"@fail broken It broke"}`)
	s.ended(t, good)
	s.ended(t, bad)
	p := open(t, s, "/ui/runs?agent_name=addressed")
	p.has("@say well done")
	p.click("failed")
	p.until(`location.search.includes("status=failed") && ` + row("It broke") + ` && !` + row("@say well done"))
	eval[bool](p, "(history.back(), true)")
	p.until(`!location.search.includes("status") && ` + row("@say well done"))
	again := open(t, s, "/ui/runs?agent_name=addressed&status=failed")
	again.has("It broke")
	if eval[bool](again, row("@say well done")+" !== undefined") {
		t.Error("the filter of the address does not hold")
	}
}

// TestRunsReduced: descendants are folded below their root, and a failure shows when it is unfolded.
func TestRunsReduced(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "foldedroot")
	s.agent(t, "foldedchild")
	_, session := s.finished(t, `{"agent_name":"foldedroot","prompt":"@say root"}`)
	s.finished(t, `{"agent_name":"foldedchild","mode":"async_callback","parent_session_id":"`+session+
		`","prompt":"@fail broken The child broke"}`)
	p := open(t, s, "/ui/runs")
	p.until(row("foldedroot"))
	if eval[bool](p, row("foldedchild")+" !== undefined") {
		t.Error("a child is listed beside the roots")
	}
	p.click("Show 1 run below foldedroot")
	p.until(row("foldedchild") + `?.innerText.includes("The child broke")`)
}

// TestStopMany: the dialog shows the number of runs, and exactly those are stopped.
func TestStopMany(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "manystops")
	var ids []string
	for range 3 {
		id, _ := s.run(t, `{"agent_name":"manystops","prompt":"@sleep 600s"}`)
		ids = append(ids, id)
	}
	p := open(t, s, "/ui/runs?agent_name=manystops")
	p.until(`document.querySelectorAll("tbody .pick input").length === 3`)
	p.until(`document.querySelectorAll("tbody .look-running").length > 0`)
	eval[bool](p, `(document.querySelector("thead .pick input").click(), true)`)
	p.has("3 runs selected")
	p.click("Stop")
	p.has("Stop: 3 runs")
	p.click("Stop 3 runs")
	p.has("3 runs stopped")
	for _, id := range ids {
		if end := s.ended(t, id); member(t, end, "status") != `"stopped"` {
			t.Errorf("%s is %s", id, end)
		}
	}
}

// TestRunAgainFromItsPage: a double click in the dialog starts one run with the same digits.
func TestRunAgainFromItsPage(t *testing.T) {
	s := sharedStack(t)
	const parameters = `{"10":9223372036854775807,"2":0.10,"prompt":"@say once"}`
	s.call(t, "POST", "/agents",
		`{"name":"again-page","type":"autonomous","executor_profile":"test","parameters_schema":{"type":"object"}}`,
		201)
	id, _ := s.finished(t, `{"agent_name":"again-page","parameters":`+parameters+`}`)
	p := open(t, s, "/ui/runs/"+id)
	p.has("9223372036854775807")
	p.has("0.10")
	p.click("Run again")
	p.has("It costs again")
	eval[bool](p, `(() => { const b = document.querySelector("[data-confirm]"); b.click(); b.click(); `+
		`return true; })()`)
	p.until(`location.pathname.startsWith("/ui/runs/run_") && !location.pathname.endsWith("` + id + `")`)
	p.has("Retry of")
	made := s.call(t, "GET", strings.TrimPrefix(p.path(), "/ui"), "", 200)
	if got := member(t, made, "parameters"); got != parameters {
		t.Errorf("parameters are %s, want %s", got, parameters)
	}
	var list struct{ Runs []any }
	if err := json.Unmarshal([]byte(s.call(t, "GET", "/runs?agent_name=again-page", "", 200)), &list); err != nil ||
		len(list.Runs) != 2 {
		t.Errorf("there are %d runs, want 2 (%v)", len(list.Runs), err)
	}
}

// TestWhy: the page shows why a run is waiting, runner by runner.
func TestWhy(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "waits")
	id, _ := s.run(t, `{"agent_name":"waits","prompt":"x","additional_demands":{"tags":["gpu"]}}`)
	p := open(t, s, "/ui/runs/"+id)
	p.has(unquoted(t, member(t, s.call(t, "GET", "/runs/"+id+"/explain", "", 200), "summary"))[:40])
	p.has("Why no runner matches")
	p.until(`[...document.querySelectorAll("table.plain td")].some((c) => c.innerText.includes("gpu"))`)
	p.click("Stop")
	p.click("Stop it")
	p.until(`document.querySelector("h1").innerText.includes("stopped")`)
}

// TestWhyNamesTheRunsAgent: of the agents that another runner does not have, the run's own is named and the others are
// counted.
func TestWhyNamesTheRunsAgent(t *testing.T) {
	s := sharedStack(t)
	id, _ := s.run(t, `{"agent_name":"text-stats","parameters":{"file":"doc.go"},`+
		`"additional_demands":{"tags":["no-runner-has-it"]}}`)
	p := open(t, s, "/ui/runs/"+id)
	p.has("agent text-stats is not registered")
	p.until(`[...document.querySelectorAll("table.plain td")].filter((c) => c.innerText.includes("is not ` +
		`registered")).length === 1`)
	p.until(`[...document.querySelectorAll("table.plain td")].some((c) => /, and \d+ other ` +
		`agents?$/.test(c.innerText))`)
	s.call(t, "POST", "/runs/"+id+"/stop", "", 200)
}

func unquoted(t *testing.T, text string) (s string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRejected: a rejected answer is shown with its error.
func TestRejected(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "rejected")
	id, _ := s.finished(t, `{"agent_name":"rejected","prompt":"@json {\"summary\":5}",`+
		`"output_schema":{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"}}}}`)
	p := open(t, s, "/ui/runs/"+id)
	p.has("1 answer was rejected")
	p.until(`[...document.querySelectorAll(".rejected .refused")].some((r) => ` +
		`r.innerText.includes('"summary": 5') && ` +
		`r.innerText.includes("5 is not of type 'string'"))`)
	p.has("asked again once")
}

// TestEventLink: each event has its own address.
func TestEventLink(t *testing.T) {
	s := sharedStack(t)
	id, _ := s.prompted(t, "linked", `@say one\n@tool look {\"n\":1.50} => [1e400]\n@say two`)
	p := open(t, s, "/ui/runs/"+id+"#"+id+"-3")
	p.until(`document.querySelector(".step.target")?.innerText.includes("look")`)
	p.until(`(document.querySelector(".step.target summary").click(), ` +
		`document.querySelector(".step.target").innerText.includes("1.50"))`)
	p.has("1e400")
}

// TestManyEvents: a page keeps the newest events of a run with very many, and says what it omits.
func TestManyEvents(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "talkative")
	var prompt strings.Builder
	for n := range 5600 {
		fmt.Fprintf(&prompt, `@say step %d.\n`, n)
	}
	id, _ := s.run(t, `{"agent_name":"talkative","prompt":"`+prompt.String()+`"}`)
	p := open(t, s, "/ui/runs/"+id)
	p.has("step 5599.")
	p.has("Show earlier")
	if n := eval[int](p, `document.querySelectorAll("*").length`); n > 3000 {
		t.Errorf("%d nodes are in the document, 3000 are the most", n)
	}
	p = open(t, s, "/ui/runs/"+id+"?events=message&find=step+1234.")
	p.until(`/Events 1 of [45],\d{3}/.test(document.body.innerText.replace(/\s+/g, " "))`)
	p = open(t, s, "/ui/runs/"+id+"?events=message&find=step+12.")
	p.has("No event matches")
	p.until(`/leaves out [\d,]+ older ones/.test(document.body.innerText)`)
}

// TestReconnect: a page without its coordinator says so, and misses no events.
func TestReconnect(t *testing.T) {
	s := ownStack(t)
	s.agent(t, "speaker")
	p := open(t, s, "/ui/runs")
	p.has("No runs yet")
	s.finished(t, `{"agent_name":"speaker","prompt":"@say before"}`)
	p.until(row("@say before"))
	s.restart(t, func() { p.has("Reconnecting") })
	s.finished(t, `{"agent_name":"speaker","prompt":"@say after"}`)
	p.until(row("@say after") + `?.innerText.includes("completed")`)
	p.has("Live")
	p.until(`document.querySelectorAll("tbody tr").length === 2`)
}

// restart stops the stack's process, calls meanwhile, and restarts it with the same data and address.
func (s *stack) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	s.end()
	meanwhile()
	s.launch(t)
}

// TestScroll: only the visible part of a long list is in the document, and scrolling loads the rest.
func TestScroll(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "longlist")
	var last string
	for n := range 450 {
		last, _ = s.run(t, fmt.Sprintf(`{"agent_name":"longlist","prompt":"@say number %d."}`, n))
	}
	s.ended(t, last)
	p := open(t, s, "/ui/runs?agent_name=longlist")
	p.has("450 runs")
	for end := time.Now().Add(40 * time.Second); !eval[bool](p, `document.body.innerText.includes("number 0.")`); {
		if time.Now().After(end) {
			t.Fatal("the first run never came into sight")
		}
		eval[bool](p, `new Promise((done) => { document.querySelector("[data-scroller]").scrollBy(0, 4000); `+
			`setTimeout(() => done(true), 50); })`)
	}
	if n := eval[int](p, `document.querySelectorAll("*").length`); n > 3000 {
		t.Errorf("%d nodes are in the document, 3000 are the most", n)
	}
	p.do(chromedp.EmulateViewport(360, 800))
	// rows that are not in the document take no width
	p.until(`[...document.querySelectorAll("th")].find((h) => h.textContent === "Run").offsetWidth > 100`)
}
