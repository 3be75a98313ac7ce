package browser

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const hard = `{"type":"object","required":["n","nested"],"properties":{
 "10":{"type":"integer","title":"Ten"},"2":{"type":"number","default":0.50},"a":{"type":"string","format":"uri"},
 "n":{"type":"integer","maximum":9223372036854775807},"kind":{"oneOf":[{"const":1.0,"title":"One"},{"const":"two"}]},
 "flag":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string","minLength":2}},
 "nested":{"type":"object","required":["host"],"properties":{"host":{"type":"string"},"odd key":{"type":"string",` +
	`"maxLength":3}}},
 "any":{"description":"whatever"},"x":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string","enum":["p",` +
	`"q"]}}}`

// TestNewRun fills in a form generated from a schema. The stored parameters have the form's digits and order.
func TestNewRun(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"hard","type":"autonomous","parameters_schema":`+hard+`}`, 201)
	p := open(t, s, "/ui/new?agent=hard")
	p.fill("$.n", "9223372036854775807")
	p.fill("$['2']", "0.10")
	p.fill("$['10']", "12345678901234567890")
	p.choose("$.kind", "One")
	p.choose("$.flag", "false")
	p.choose("$.x", "q")
	p.fill("$.nested.host", `a "b" </inputs>`)
	p.has("It would be accepted")
	p.click("Start run")
	p.until(`location.pathname.startsWith("/ui/runs/run_")`)
	run := s.call(t, "GET", strings.TrimPrefix(p.path(), "/ui"), "", 200)
	want := `{"10":12345678901234567890,"2":0.10,"n":9223372036854775807,"kind":1.0,"flag":false,"nested":{"host":"a ` +
		`\"b\" </inputs>"},"x":"q"}`
	if got := member(t, run, "parameters"); got != want {
		t.Errorf("stored are\n%s\nwant\n%s", got, want)
	}
}

// TestNewRunRefused: each validation error is shown at its field, and the first one gets the focus.
func TestNewRunRefused(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"refusing","type":"autonomous","parameters_schema":`+hard+`}`, 201)
	p := open(t, s, "/ui/new?agent=refusing")
	p.fill("$['10']", "1.5")
	p.fill("$.a", "no uri")
	p.fill("$.n", "1")
	p.fill("$.nested['odd key']", "four")
	p.click("Start run")
	for path, want := range map[string]string{
		"$['10']":             "1.5 is not of type 'integer'",
		"$.a":                 "'no uri' is not a valid URI",
		"$.nested.host":       "'host' is a required property",
		"$.nested['odd key']": "'four' is too long",
	} {
		p.until(`(() => { const e = ` + at(path) + `; return e?.getAttribute("aria-invalid") === "true" && ` +
			`document.getElementById(e.getAttribute("aria-describedby").split(" ").at(-1))?.textContent === ` +
			strconv.Quote(want) + `; })()`)
	}
	if got := eval[string](p, "document.activeElement.dataset.path ?? ''"); got != "$['10']" {
		t.Errorf("the focus is at %q, want the first field that is wrong", got)
	}
}

// TestNothingIsRefusedWhileTyping: what is only checked is answered 200, so the browser's console stays empty.
func TestNothingIsRefusedWhileTyping(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"checked","type":"autonomous","parameters_schema":`+hard+`}`, 201)
	refused := func(p *page) {
		t.Helper()
		if all := eval[[]string](p, `performance.getEntriesByType("resource").filter((e) => e.responseStatus >= `+
			`400).map((e) => e.responseStatus + " " + e.name)`); len(all) > 0 {
			t.Errorf("refused were %q", all)
		}
	}
	p := open(t, s, "/ui/new?agent=checked")
	p.fill("$['10']", "1.5")
	p.has("It would be refused")
	refused(p)
	p = open(t, s, "/ui/agents/checked?tab=prompt")
	p.has("What is sent")
	p.click("General")
	p.fill("Attempts", "1000")
	p.click("Prompt")
	p.has("max_attempts must be from 1 to 100")
	refused(p)
}

// TestOneVerdict: who may not start a run is told that, and not that it would be accepted.
func TestOneVerdict(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	p := tab(t, s.stack, "/ui/new?agent=show-me")
	p.logIn(s.tokens["read"])
	p.fill("$.prompt", "@say one")
	p.has("You cannot start it. “the-read” has scope read")
	if eval[bool](p, `document.body.innerText.includes("It would be accepted")`) {
		t.Error("a run is called acceptable that the caller cannot start")
	}
}

// TestJSONKeepsWhatWasTyped: parameters edited as JSON are sent byte for byte.
func TestJSONKeepsWhatWasTyped(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"asjson","type":"autonomous","parameters_schema":{"type":"object",`+
		`"properties":{"b":{"type":"number"},"a":{}}}}`, 201)
	p := open(t, s, "/ui/new?agent=asjson")
	p.until(at("$.b")) // before the form there is one tab JSON only, of the command line
	p.click("JSON")
	const typed = `{"b":1.50,"10":[1E5,  0.10],"2":{"y":1,"x":9223372036854775807}}`
	p.edit("Parameters", typed)
	p.has("It would be accepted")
	p.click("Start run")
	p.until(`location.pathname.startsWith("/ui/runs/run_")`)
	run := s.call(t, "GET", strings.TrimPrefix(p.path(), "/ui"), "", 200)
	if got, want := member(t, run, "parameters"), strings.ReplaceAll(typed, "  ", ""); got != want && got != typed {
		t.Errorf("stored are\n%s\nwant\n%s", got, want)
	}
}

// TestLines: the command lines for ao and curl do what the button does, with any parameters.
func TestLines(t *testing.T) {
	s := sharedStack(t)
	p := open(t, s, "/ui/new?agent=data-extractor")
	const hostile = "it's $(touch /nonexistent) `id` \\ \"q\" -x\n--detach; exit 3 \u202e %s !"
	p.fill("$.prompt", hostile)
	p.has("It would be accepted")
	for _, tab := range []string{"ao", "curl"} {
		p.click(tab)
		line := p.copied("Copy the line")
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(cmd.Environ(), "PATH="+bin+":/usr/bin:/bin")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		var started struct {
			Run string `json:"run_id"`
		}
		if tab == "ao" {
			started.Run = strings.Fields(string(out))[0]
		} else if err := json.Unmarshal(out, &started); err != nil {
			t.Fatal(err)
		}
		run := s.call(t, "GET", "/runs/"+started.Run, "", 200)
		var got struct{ Prompt string }
		if err := json.Unmarshal([]byte(member(t, run, "parameters")), &got); err != nil || got.Prompt != hostile {
			t.Errorf("%s: the prompt is %q, want %q (%v)", tab, got.Prompt, hostile, err)
		}
	}
}

// TestRunAgain retries a run with one parameter changed. The others stay as sent, digit by digit.
func TestRunAgain(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"retried","type":"autonomous","parameters_schema":{"type":"object",`+
		`"properties":{"word":{"type":"string"},"n":{"type":"number"},"deep":{}}}}`, 201)
	first := s.call(t, "POST", "/runs",
		`{"agent_name":"retried","parameters":{"n":1.50,"deep":{"10":1,"2":9223372036854775807},"word":"one"}}`, 201)
	id := strings.Trim(member(t, first, "run_id"), `"`)
	p := open(t, s, "/ui/new?retry="+id)
	p.until(at("$.word") + `?.value === "one"`)
	p.fill("$.word", "two")
	p.has("It would be accepted")
	p.click("Run again")
	p.until(`location.pathname.startsWith("/ui/runs/run_")`)
	run := s.call(t, "GET", strings.TrimPrefix(p.path(), "/ui"), "", 200)
	if got, want := member(t, run, "parameters"),
		`{"n":1.50,"deep":{"10":1,"2":9223372036854775807},"word":"two"}`; got != want {
		t.Errorf("stored are\n%s\nwant\n%s", got, want)
	}
	if got := strings.Trim(member(t, run, "retry_of"), `"`); got != id {
		t.Errorf("it repeats %q, want %s", got, id)
	}
}

// TestResume sends a prompt and nothing else.
func TestResume(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"talker","type":"autonomous","parameters_schema":{"type":"object",`+
		`"required":["topic"],"properties":{"topic":{"type":"string"}}}}`, 201)
	first := s.call(t, "POST", "/runs", `{"agent_name":"talker","parameters":{"topic":"x"}}`, 201)
	session := strings.Trim(member(t, first, "session_id"), `"`)
	s.call(t, "GET", "/runs/"+strings.Trim(member(t, first, "run_id"), `"`)+"/wait?timeout_seconds=30", "", 200)
	p := open(t, s, "/ui/new?session="+session)
	p.fill("Prompt", "and now?")
	p.click("Send")
	p.until(`location.pathname.startsWith("/ui/runs/run_")`)
	run := s.call(t, "GET", strings.TrimPrefix(p.path(), "/ui"), "", 200)
	if got := member(t, run, "parameters") + member(t, run, "session_id"); got != `{"prompt":"and now?"}"`+session+`"` {
		t.Errorf("the turn is %s", got)
	}
}

// TestTurnAgain retries a turn of a session with a prompt in the same session.
func TestTurnAgain(t *testing.T) {
	s := sharedStack(t)
	s.call(t, "POST", "/agents", `{"name":"turner","type":"autonomous","parameters_schema":{"type":"object",`+
		`"properties":{"topic":{"type":"string"}}}}`, 201)
	first := s.call(t, "POST", "/runs", `{"agent_name":"turner","parameters":{"topic":"x"},"mode":"sync"}`, 200)
	session := strings.Trim(member(t, first, "session_id"), `"`)
	turn := s.call(t, "POST", "/runs", `{"type":"resume_session","session_id":"`+session+
		`","prompt":"once more","mode":"sync"}`, 200)
	p := open(t, s, "/ui/new?retry="+strings.Trim(member(t, turn, "run_id"), `"`))
	p.until(at("Prompt") + `?.value === "once more"`)
	p.has("It would be accepted")
	p.click("Run again")
	p.until(`location.pathname.startsWith("/ui/runs/run_")`)
	run := s.call(t, "GET", strings.TrimPrefix(p.path(), "/ui"), "", 200)
	if got := member(t, run, "parameters") + member(t, run, "session_id"); got != `{"prompt":"once more"}"`+session+
		`"` {
		t.Errorf("the turn is %s", got)
	}
}
