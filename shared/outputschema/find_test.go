package outputschema

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/shared/schema"
	"ao/shared/strictjson"
)

// summary wants an object with a summary.
const summary = `{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"}}}`

// fits compares with a schema.
func fits(t testing.TB, raw string) func(json.RawMessage) bool {
	s, err := schema.Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return func(v json.RawMessage) bool { return s.Check(v) == nil }
}

// find is the value that Find chooses, and how many there were.
func find(text string, strict bool, fits func(json.RawMessage) bool) (json.RawMessage, int) {
	f := Find(text, strict, json.RawMessage(summary), fits)
	return f.Value(), len(f.Candidates)
}

func TestFind(t *testing.T) {
	const good = `{"summary":"x"}`
	for _, tt := range []struct{ name, text, want string }{
		// The whole text.
		{"an object", good, good},
		{"as it was written", "{ \"z\" : 1.50,\n\"summary\":\"\\u0041\", \"n\":12345678901234567890 }",
			"{ \"z\" : 1.50,\n\"summary\":\"\\u0041\", \"n\":12345678901234567890 }"},
		{"space around", " \r\n\t" + good + "\n\n", good},
		{"a byte order mark", "\ufeff" + good + "\r\n", good},
		{"CRLF within", "{\r\n\"summary\":\"x\"\r\n}\r\n", "{\r\n\"summary\":\"x\"\r\n}"},
		{"an array", `[1,2]`, `[1,2]`},
		{"a number", `42`, `42`},
		{"a string", `"x"`, `"x"`},
		{"a string with a fence in it", `"` + "```{}```" + `"`, `"` + "```{}```" + `"`},
		{"true", ` true `, `true`},
		{"null", `null`, `null`},
		{"the whole text counts though a part would fit", `{"a":` + good + `}`, `{"a":` + good + `}`},
		{"nothing", ``, ``},
		{"no JSON", `I could not do it.`, ``},
		{"only space", " \n", ``},
		// Fenced blocks.
		{"a fence", "```json\n" + good + "\n```", good},
		{"prose around a fence", "Here is it:\n\n```json\n" + good + "\n```\n\nLet me know { if } you [need] more.",
			good},
		{"a fence that ends on the value's line",
			"Here's the analysis:\n```json\n{\"summary\": \"...\"}```\n\nLet me know", `{"summary": "..."}`},
		{"a fence on one line", "It is ```json " + good + "``` and that's it", good},
		{"a fence on one line without info", "It is ```" + good + "```.", good},
		{"a fence after text on its line", "Answer: ```json\n" + good + "\n```", good},
		{"a value that begins on the fence's line", "```json {\n\"summary\":\"x\"}\n```", "{\n\"summary\":\"x\"}"},
		{"no info", "```\n" + good + "\n```", good},
		{"json5", "```json5\n" + good + "\n```", good},
		{"JSON with a title", "```JSON title=\"x {1}\"\n" + good + "\n```", good},
		{"tildes", "~~~json\n" + good + "\n~~~", good},
		{"tildes within a line are none", "x ~~~\n42\n~~~", ``},
		{"longer fences", "`````\n" + good + "\n`````", good},
		{"CRLF", "ok\r\n```json\r\n" + good + "\r\n```\r\n", good},
		{"indented", "1. it:\n    ```json\n    {\"summary\":\n      \"x\"}\n    ```", "{\"summary\":\n      \"x\"}"},
		{"quoted", "> ```json\n" + good + "\n> ```", good},
		{"not closed", "```json\n" + good + "\n", good},
		{"not closed and broken", "```json\n{\"summary\":\"x\",\n", ``},
		{"not closed, and prose after it", "```json\n" + good + "\nThat's it", good},
		{"a fence within a string", "```json\n{\"summary\":\"use ```go\\nx\\n``` here\"}\n```",
			"{\"summary\":\"use ```go\\nx\\n``` here\"}"},
		{"a fence within a string, all on one line", "```{\"summary\":\"```\"}```", "{\"summary\":\"```\"}"},
		{"a fence within a fence", "````markdown\n```json\n" + good + "\n```\n````\n", good},
		{"a byte order mark within", "```json\n\ufeff" + good + "\n```", good},
		{"a scalar", "The answer:\n```\n42\n```", `42`},
		{"a scalar on one line", "The answer: ```\"x\"```", `"x"`},
		{"of several the last that fits", "```json\n{\"a\":1}\n```\n```json\n{\"summary\":\"sooner\"}\n```\n```json\n" +
			good + "\n```\n```json\n{\"a\":2}\n```", good},
		{"of several the last where none fits", "```json\n{\"a\":1}\n```\n```json\n{\"a\":2}\n```\n```json\nno\n```",
			`{"a":2}`},
		{"text that fits comes before a fence that does not", good + "\n```json\n{\"a\":1}\n```", good},
		{"a fence that fits comes before text that does, too", "```json\n" + good +
			"\n```\n{\"summary\":\"in the text\"}", good},
		{"a fence that does not fit comes before text that does not", "{\"a\":1}\n```json\n{\"a\":2}\n```\n{\"a\":3}",
			`{"a":2}`},
		{"what stands between fences is in none", "```sh\nls\n```\n42\n```sh\nls\n```", ``},
		{"a block that is not JSON, then one that is", "```go\nx := `a`\n```\n\n```json\n" + good + "\n```", good},
		{"a block that is not closed, then one that is", "```sh\nls\n\n```json\n" + good + "\n```\n", good},
		{"a stray fence", "Use ``` for code.\n\n```json\n{\"a\":1}\n```", `{"a":1}`},
		{"spans of code", "Not ```x``` and not ```y```, but ```{\"a\":1}```", `{"a":1}`},
		{"two values in a fence are looked at one by one", "```\n{\"a\":1}\n" + good + "\n```", good},
		{"a comment in a fence", "```json\n" + good + " // done\n```", good},
		// Objects and arrays in text.
		{"prose around", `The result is ` + good + `, as you wanted.`, good},
		{"nested", `So: {"summary":"x","a":{"b":[{"c":{}}]}} .`, `{"summary":"x","a":{"b":[{"c":{}}]}}`},
		{"braces in strings", `So: {"summary":"} ] { [ \" \\"} ok}`, `{"summary":"} ] { [ \" \\"}`},
		{"the last that fits", `{"a":1} then {"summary":"y"} then ` + good + ` then [2]`, good},
		{"first and better", `First {"summary":"a"}. Better: {"summary":"b"}`, `{"summary":"b"}`},
		{"the last where none fits", `{"a":1} then [2] then {"a":3} done`, `{"a":3}`},
		{"marks of sources", `As [1] and [2] say: ` + good + ` [3]`, good},
		{"braces of prose", `In {this case} it is [not easy]: ` + good, good},
		{"scalars in text are none", `The answer is 42, "x" and true.`, ``},
		{"a quotation mark before", `The list ["x, then {"summary":"y"} "`, `{"summary":"y"}`},
		{"a brace before", `{ {"summary":"y"}`, `{"summary":"y"}`},
		// Pieces of what is broken or cut.
		{"within what is broken", `{"a":{"summary":"y"},}`, ``},
		{"within what is broken, in a fence", "```json\n{\"a\":{\"summary\":\"y\"},}\n```", ``},
		{"a list that was cut", `[{"summary":"1"},{"summary":"2"},{"summary":"3`, ``},
		{"a list that was cut in its envelope, in a fence", "```json\n{\"a\":[{\"summary\":\"1\"},{\"summary", ``},
		{"a missing comma", `[{"summary":"1"} {"summary":"2"}]`, ``},
		{"a comment before the key", "{ // list\n/* of */ \"a\":{\"summary\":\"y\"}\n}", ``},
		{"a line end in a string before a piece", "{\"x\":\"1\n2\",\"a\":{\"summary\":\"y\"}}", ``},
		{"NaN before a piece", `{"x":NaN,"a":{"summary":"y"}}`, ``},
		{"keys of Python", `{'b':{"summary":"z"}}`, ``},
		{"keys of JavaScript", `{b: 1, c: {"summary":"z"}}`, ``},
		{"keys of JavaScript in a list", `[{b: "1"}, {"summary":"z"}, …]`, ``},
		{"keys in typographic marks", `{“b”: 1, "c": {"summary":"z"}}`, ``},
		{"a spread", `{...b, "c": {"summary":"z"}}`, ``},
		{"a list that begins with a spread", `[...b, {"summary":"z"}]`, ``},
		{"an address in braces", `See {http://x/ and ` + good, good},
		{"an ellipsis", `[...] ` + good, good},
		{"a rule of CSS", `{ color: red } ` + good, good},
		{"a scalar and a piece", `[1, {"summary":"y"},]`, ``},
		{"a fence within a broken string", "{\"x\":\"\n```json\n" + good + "\n```\n\",\"y\":1,}", ``},
		{"an answer after what is broken", `{"a":{"summary":"y"},} or rather ` + good, good},
		{"an answer in a fence after what was cut", "{\"a\":{\"summary\":\"y\"},\n```json\n" + good + "\n```", good},
		{"an answer before what was cut", good + ` and {"a":{"summary":"y"},`, good},
		{"an answer between fences of what is broken", "```json\n{\"a\":{\"summary\":\"y\"},}\n```\n" + good, good},
		{"braces in a command of LaTeX", `\boxed{` + good + `}`, good},
		// What follows an answer in prose.
		{"a list of sources", `Yes: ` + good + " (see [2], {} and [ ])", good},
		{"a mark is an answer where nothing else is", `The list is [ ].`, `[ ]`},
		{"an escaped object", `{\"summary\":\"y\"}`, ``},
		{"an end that is missing", `{"summary":"y"`, ``},
		{"JSON lines", "{\"a\":1}\n{\"a\":2}\n", `{"a":2}`},
		// Reasoning.
		{"reasoning", `<think>{"summary":"9"}?</think>` + good, good},
		{"reasoning after the answer", good + `<think>or {"summary":"9"}</think>`, good},
		{"reasoning only", `<think>` + good + `</think> I cannot.`, ``},
		{"reasoning that is not closed", good + "\n<think>\nor rather {\"summary\":\"9\"}", good},
		{"reasoning that is not closed, and nothing before", `<think>` + good, ``},
		{"reasoning whose beginning the prompt had", `so {"summary":"9"}</think>` + "\n" + good, good},
		{"a scalar behind reasoning", "<think>x</think>\n42", `42`},
		{"a fence within reasoning", "<think>\n```json\n{\"summary\":\"9\"}\n```\n</think>\nIt is " + good, good},
		{"other names, case and attributes", `<Thinking level="high">{"summary":"9"}</thinking ` +
			`><x:reasoning>{"summary":"8"}</x:reasoning>[THINK]{"summary":"7"}[/THINK]◁think▷{"summary":"6"}◁/think▷` +
			`<|begin_of_thought|>{"summary":"5"}<|end_of_thought|>The result: ` + good, good},
		{"a tag in a string", `So: {"summary":"use <think> and </think>"} ok`,
			`{"summary":"use <think> and </think>"}`},
		{"a tag in a string of a fence", "```json\n{\"summary\":\"<think>\"}\n```\nok", `{"summary":"<think>"}`},
		{"a closing tag in a string of reasoning", `<think>{"summary":"</think>"} or {"summary":"9"}</think>` +
			good, good},
		{"a tag that is spoken of", "Without `<think>` it is " + good, good},
		{"an end without a beginning in the text, twice", `{"summary":"9"}</think>{"summary":"8"}</think>` +
			good, good},
		{"words that are no tags", `<thinker>{"a":1}</thinker> [think] ` + good, good},
		{"Cohere's marks", `<|START_THINKING|>` + good + `<|END_THINKING|><|START_RESPONSE|>{"b":1}<|END_RESPONSE|>`,
			`{"b":1}`},
		{"a response behind hidden thinking", good + `<|START_RESPONSE|>{"b":1}`, `{"b":1}`},
		{"harmony's channels", `<|channel|>analysis<|message|>` + good +
			`<|end|><|start|>assistant<|channel|>final<|message|>{"b":1}<|return|>`, `{"b":1}`},
		{"harmony's analysis alone", `<|channel|>analysis<|message|>` + good + `<|end|>`, ``},
		{"harmony's commentary",
			`<|channel|>commentary to=functions.x <|constrain|>json<|message|>` + good + `<|call|>`, ``},
		{"an end of a message hides nothing", good + `<|end|>`, good},
		{"Gemma's thought", "<|channel>thought\n" + good + `<channel|>{"b":1}`, `{"b":1}`},
		{"marks with a prefix", `<seed:think>` + good + `</seed:think><longcat_think>` + good +
			`</longcat_think>{"b":1}`, `{"b":1}`},
		{"marks between bars", `<|think|>` + good + `<|/think|><|thinking_start|>` + good +
			`<|thinking_end|><|begin_of_reasoning|>` + good + `<|end_of_reasoning|>{"b":1}`, `{"b":1}`},
		// What is no JSON.
		{"a key twice", `{"summary":"x","summary":"y"}`, ``},
		{"a key twice in a fence", "```\n{\"summary\":\"x\",\"summary\":\"y\"}\n```", ``},
		{"a trailing comma", `{"summary":"x",}`, ``},
		{"a trailing comma in a list", `[1,]`, ``},
		{"NaN", `{"summary":NaN}`, ``},
		{"single quotes", `{'summary':'x'}`, ``},
		{"a comment", `{/* x */"summary":"x"}`, ``},
		{"a line end in a string", "{\"summary\":\"a\nb\"}", ``},
		{"a bad escape", `{"summary":"\x41"}`, ``},
		{"a leading zero", `x [01]`, ``},
		{"half a number", `x [1.] [.5] [1e] [-] [+1]`, ``},
		{"bytes that are no UTF-8", "x {\"summary\":\"\xff\"}", ``},
		{"nested too deep", strings.Repeat("[", 66) + strings.Repeat("]", 66), ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := find(tt.text, false, fits(t, summary)); string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFindStrictly(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"a":1}`, `{"a":1}`}, {"\ufeff [1] \n", `[1]`}, {`42`, `42`},
		{"```json\n{\"a\":1}\n```", ``}, {`It is {"summary":"x"}`, ``}, {`{"summary":"x"} {"summary":"x"}`, ``},
		{``, ``},
	} {
		if got, _ := find(tt.text, true, fits(t, summary)); string(got) != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

var deep = strings.Repeat("[", 60) + strings.Repeat("]", 60)

// hostile are texts that make a simple reader read them again and again where they are repeated.
var hostile = []string{
	"{{{{[[[[", "[", "{", "[[", "{}", "[]", `{"a":`, `{"a":[`, `["`, `["a[`, `["a["`, `[1,`, `[1,{"a":`, `["[`, `"[`,
	`\"[`, `["\"[`, `{"`, `{"a`, `{"{"`, deep, deep + `,`, `[{"summary":"x"`, "`",
	"```", "```\n", "```json\n", "```[", "```[\n", "```\n[\n", "``` ", "```\"", "```[\"", "```[\"```\",", "```[\"\n",
	"~~~\n", "~~~ ", "~~~\n{\"a\":\n", "```a", "````a ```", "a```json {\"", "\n", " ", "x", "```\n{}\n```\n", "字[",
	`{"a":1,"a":2}`, `[1] `, "```{\"a\":\"```", "`` ``[", "> ",
}

// spent is the processor time of this thread: what else the machine does is not counted.
func spent(t *testing.T) time.Duration {
	const thread = 1 // RUSAGE_THREAD of Linux
	var r syscall.Rusage
	if err := syscall.Getrusage(thread, &r); err != nil {
		t.Skip("this system has no processor time of a thread: ", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestTimeIsProportional: text that is made to be read again and again takes no longer than any other. 128 KiB of it
// would take a minute if each character were read from each other one.
func TestTimeIsProportional(t *testing.T) {
	check := fits(t, summary)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	checkSame := func(text string) {
		t.Helper()
		began := spent(t)
		find(text, false, check)
		if took := spent(t) - began; took > 3*time.Second {
			t.Errorf("%.40q, %d bytes: got %s of CPU time, want at most 3s", text, len(text), took)
		}
	}
	const size = 128 << 10 / slow
	for _, unit := range hostile {
		for _, before := range []string{"", `["`, "```[", "````\n"} {
			checkSame(before + strings.Repeat(unit, size/len(unit)))
		}
	}
	for _, text := range []string{
		strings.Repeat("```a", size/8) + "\n" + strings.Repeat(" ", size/2), strings.Repeat(" ", size/2) +
			strings.Repeat("```", size/6), strings.Repeat("```json ", size/16) + strings.Repeat("[", size/2),
		"[" + strings.Repeat(`"[",`, size/4), strings.Repeat(`["[`, size/6) + strings.Repeat(`"`, size/2),
		strings.Repeat("```[", size/8) + "\"" + strings.Repeat("x", size/2),
	} {
		checkSame(text)
	}
	for _, unit := range []string{"{{{{[[[[", "[1] ", "```[\n", "```a"} {
		checkSame(strings.Repeat(unit, 1<<20/slow/len(unit)))
	}
	checkSame(strings.Repeat("```a", 1<<18/slow) + "\n" + strings.Repeat(" ", 1<<20/slow))
}

// TestAnAnswerBehindNonsenseIsFound: the search reaches the end of any text like these. Behind JSON that was cut only a
// fenced block is an answer.
func TestAnAnswerBehindNonsenseIsFound(t *testing.T) {
	cut := []string{`{"a":`, `{"a":[`, `[1,`, `[1,{"a":`, `[{"summary":"x"`, "~~~\n{\"a\":\n", "```[\"```\","}
	for _, unit := range hostile {
		if unit == "```{\"a\":\"```" {
			continue // a string of cut JSON is open: what follows may be in it
		}
		answer := "\nAnswer:\n{\"summary\":\"x\"}\nThat's it"
		if slices.Contains(cut, unit) {
			answer = "\nAnswer:\n```\n{\"summary\":\"x\"}\n```\nThat's it"
		}
		text := strings.Repeat(unit, 64<<10/slow/len(unit)) + answer
		if got, _ := find(text, false, fits(t, summary)); string(got) != `{"summary":"x"}` {
			t.Errorf("%q: got %.60q", unit, got)
		}
	}
}

// What looks like a mark counts where the schema wants a list, and nothing better is there. The schema itself comes
// last.
func TestWhatFollowsAnAnswer(t *testing.T) {
	for _, tt := range []struct{ schema, text, want string }{
		{`{"type":"array"}`, "[1,2]\nAn empty list [] would mean none.", `[1,2]`},
		{`{"type":"array"}`, "[\"x\",\"y\"]\n\nSources: [1] [2]", `["x","y"]`},
		{`{"type":"array"}`, "[{\"t\":1}]\n- [ ] todo\n- [x] done", `[{"t":1}]`},
		{`{"type":"array"}`, "The list:\n[]\n", `[]`},
		{`{"type":"array"}`, `It is [7].`, `[7]`},
		{`{"type":"object"}`, "{\"a\":1}\n\nSchema used:\n{ \"type\": \"object\" }", `{"a":1}`},
		{`{"type":"object"}`, "{\"a\":1}\n\n```json\n{\"type\":\"object\"}\n```", `{"a":1}`},
		{`{"type":"object"}`, `It is {"type":"object"}.`, `{"type":"object"}`},
		{`{"type":"object"}`, "{\"summary\":\"x\",\"items\":[{\"n\":1}],}", ``},
	} {
		if got := Find(tt.text, false, json.RawMessage(tt.schema), fits(t, tt.schema)).Value(); string(got) != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// The last values of very many are examined.
func TestLastOfVeryManyValues(t *testing.T) {
	many := strings.Repeat(`{"a":1} `, 5*maxCandidates)
	if got, n := find(many+`{"summary":"y"} {"a":2,"a":3} end`, false, fits(t, summary)); string(
		got) != `{"summary":"y"}` || n != maxCandidates-1 {
		t.Errorf("got %.100q of %d", got, n)
	}
	if got, _ := find(`{"summary":"y"} `+many+`end`, false, fits(t, summary)); string(got) != `{"a":1}` {
		t.Errorf("got %.100q", got)
	}
}

func TestCandidatesAreCounted(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int
	}{
		{`{"a":1}`, 1}, {`no`, 0}, {`First {"a":1}. Better: {"a":2}`, 2}, {"```json\n{\"a\":1}\n```", 1},
		{"```json\n{\"a\":1}\n```\n{\"a\":2} [", 2},
		{`<think>{"a":9}?</think>{"a":1}`, 1}, {`<think>{"a":9}?</think>`, 0}, {`{"a":1,"a":2} {"a":3}`, 1},
	} {
		if _, got := find(tt.text, false, fits(t, summary)); got != tt.want {
			t.Errorf("%q: got %d, want %d", tt.text, got, tt.want)
		}
	}
}

// The candidates come in the order of preference, each with its position, and with the one that counts.
func TestCandidatesHavePositions(t *testing.T) {
	const text = "First {\"a\":1}.\n```json\n{\"b\":2}\n```\nThen {\"summary\":\"x\"} and [3]."
	got := Find(text, false, nil, fits(t, summary))
	want := []Candidate{{Value: json.RawMessage(`{"b":2}`), Source: Fenced},
		{Value: json.RawMessage(`{"summary":"x"}`), Source: Embedded},
		{Value: json.RawMessage(`{"a":1}`), Source: Embedded}, {Value: json.RawMessage(`[3]`), Source: Embedded}}
	same := func(a, b Candidate) bool { return string(a.Value) == string(b.Value) && a.Source == b.Source }
	if !slices.EqualFunc(got.Candidates, want, same) || got.Chosen != 1 {
		t.Errorf("got %+v, want 1 of %+v", got, want)
	}
	whole := Find(` 42 `, false, nil, fits(t, summary))
	if whole.Chosen != 0 || whole.Candidates[0].Source != WholeText {
		t.Errorf("got %+v", whole)
	}
	if none := Find("nothing", false, nil, fits(t, summary)); none.Chosen != -1 || none.Value() != nil {
		t.Errorf("got %+v", none)
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "```json\n[1]\n```", `x {"a":"}"} y`, `["x {"summary":1}`, "```\n1",
		`[[1],{"a":[]},`, `{"a":1e5,"b":-0.1,"c":"\u00e9\n"}`, "~~~\n{}\n~~~", `[tru`, `{"a":1,"a":2} [3]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, strict := range []bool{false, true} {
			got, _ := find(text, strict, fits(t, summary))
			if got == nil {
				if whole := strings.TrimSpace(text); strictjson.Check([]byte(whole)) == nil {
					t.Errorf("%q: nothing found", text)
				}
				continue
			}
			if strictjson.Check(got) != nil || !strings.Contains(strings.ReplaceAll(visible(trim(text)), "\n", ""),
				strings.ReplaceAll(string(got), "\n", "")) {
				t.Errorf("%q: found %q", text, got)
			}
		}
		// The reader agrees with encoding/json on what a value is.
		r := reader{text: []byte(text)}
		start := space(text, 0)
		end, ok := r.value(start)
		d := json.NewDecoder(strings.NewReader(text))
		var raw json.RawMessage
		err := d.Decode(&raw)
		// 1x is a number to us, and whoever asks sees the x
		if ok != (err == nil) && !(ok && text[start] != '{' && text[start] != '[' && text[start] != '"') {
			t.Errorf("%q: %v, but %v", text, ok, err)
		}
		if ok && err == nil && string(raw) != text[start:end] {
			t.Errorf("%q: %q, but %q", text, text[start:end], raw)
		}
		for _, s := range r.closed {
			if !json.Valid([]byte(text[s.begin:s.end])) {
				t.Errorf("%q: %q is no JSON", text, text[s.begin:s.end])
			}
		}
	})
}
