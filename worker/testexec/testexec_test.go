package testexec

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
)

// testSession is a session that remembers, with its events.
type testSession struct {
	state  []byte
	events []string
	url    string
}

func (s *testSession) host() executor.Host {
	return executor.Host{
		URL:       s.url,
		Emit:      func(kind string, body json.RawMessage) { s.events = append(s.events, kind+" "+string(body)) },
		LoadState: func(context.Context) ([]byte, error) { return s.state, nil },
		SaveState: func(_ context.Context, state []byte) error { s.state = state; return nil },
	}
}

// turn returns the outcome of a prompt, in short.
func (s *testSession) turn(ctx context.Context, mode, prompt string) string {
	o := Run(ctx, executor.Invocation{Mode: mode, SessionID: "ses_1", RunID: "run_1", Prompt: prompt,
		Blueprint: json.RawMessage(`{}`)}, s.host())
	raw, err := strictjson.Encode(o)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestDirectives(t *testing.T) {
	for _, tt := range []struct{ name, prompt, want string }{
		{"says", "Please:\n@say one\n@say two\nand a half",
			`{"status":"completed","result":{"result_type":"autonomous","result_text":"two\nand a half",` +
				`"result_data":null}}`},
		{"in an inputs block", "<inputs>\nscript: @say one\nother:\n  @say two\n</inputs>",
			`{"status":"completed","result":{"result_type":"autonomous","result_text":"two","result_data":null}}`},
		{"an answer that looks like JSON", `@json {"a": 1.0}`,
			`{"status":"completed","result":{"result_type":"autonomous","result_text":"{\"a\": 1.0}",` +
				`"result_data":null}}`},
		{"data",
			`@data [1]`,
			`{"status":"completed","result":{"result_type":"autonomous","result_text":null,"result_data":[1]}}`},
		{"fails", "@say first\n@fail my_code It is so\n@say never",
			`{"status":"failed","error":{"error":"my_code","message":"It is so"},` +
				`"result":{"result_type":"autonomous","result_text":"first","result_data":null}}`},
		{"exit",
			"@stderr bad thing\n@exit 3",
			`{"status":"failed","error":{"error":"executor_failed","message":"bad thing","exit_code":3},` +
				`"result":{"result_type":"autonomous","result_text":null,"result_data":null}}`},
		{"exit without a word",
			"@exit 4",
			`{"status":"failed","error":{"error":"executor_failed","message":"Process exited with code 4",` +
				`"exit_code":4},"result":{"result_type":"autonomous","result_text":null,"result_data":null}}`},
		{"no such directive",
			"@sing la",
			`{"status":"failed","error":{"error":"unknown_directive","message":"unknown directive @sing; known ` +
				`are @child, @data, @exit, @fail, @json, @metadata, @recall, @say, @sleep, @stderr, @tool"}}`},
		{"no duration",
			"@sleep long",
			`{"status":"failed","error":{"error":"bad_directive","message":"@sleep needs a duration such as ` +
				`200ms, got \"long\""},"result":{"result_type":"autonomous","result_text":null,"result_data":null}}`},
		{"no API",
			"@child a sync b",
			`{"status":"failed","error":{"error":"no_api","message":"@child needs the orchestrator's API, which ` +
				`this run does not have; set AO_API_URL for the worker"},"result":{"result_type":"autonomous",` +
				`"result_text":null,"result_data":null}}`},
		{"nothing",
			"Write to me@example.com",
			`{"status":"completed","result":{"result_type":"autonomous","result_text":"There is no model here ` +
				`(ao-test-exec). The prompt was: Write to me@example.com","result_data":null,` +
				`"note":"this answer is invented: the executor test has no model"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s testSession
			if got := s.turn(t.Context(), executor.Start, tt.prompt); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestToolsAreShown(t *testing.T) {
	var s testSession
	s.turn(t.Context(), executor.Start, "@tool Read {\"file\":\"a\"} => \"text\"\n@metadata {\"cost\":0.10}")
	want := []string{
		`pre_tool {"tool_input":{"file":"a"},"tool_name":"Read"}`,
		`post_tool {"error":null,"tool_input":{"file":"a"},"tool_name":"Read","tool_output":"text"}`,
		`metadata {"metadata":{"cost":0.10}}`,
	}
	if fmt.Sprint(s.events) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", s.events, want)
	}
}

// TestNextTurns: what follows @next answers the next turn, and texts of others have no effect in it.
func TestNextTurns(t *testing.T) {
	var s testSession
	for i, tt := range []struct{ mode, prompt, want string }{
		{executor.Start, "@json {bad\n@next\n@json {}\n@next\n@say done", `{bad`},
		{executor.Resume, "Your previous response did not match the required JSON schema.\n@say injected", `{}`},
		{executor.Resume, "<agent-callback session=\"ses_2\" status=\"completed\">\n@say injected\n</agent-callback>",
			`done`},
		{executor.Resume, "@recall", "@json {bad\n@next\n@json {}\n@next\n@say done\nYour previous"},
	} {
		var o struct{ Result run.Result }
		if err := json.Unmarshal([]byte(s.turn(t.Context(), tt.mode, tt.prompt)), &o); err != nil ||
			o.Result.Text == nil || !strings.HasPrefix(*o.Result.Text, tt.want) {
			t.Errorf("turn %d: got %+v %v, want %q", i+1, o.Result, err, tt.want)
		}
	}
}

func TestSleepEndsWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var s testSession
		began := time.Now()
		if got := s.turn(ctx, executor.Start, "@say one\n@sleep 1h\n@say two"); !strings.Contains(got, `"stopped"`) ||
			!strings.Contains(got, `"one"`) || time.Since(began) != time.Second {
			t.Errorf("after %s: %s", time.Since(began), got)
		}
	})
}

func TestChildren(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		if strings.Contains(string(body), "nobody") {
			w.WriteHeader(404)
			fmt.Fprint(w, `{"error":"not_found"}`)
			return
		}
		fmt.Fprint(w,
			`{"run_id":"run_2","result":{"result_type":"autonomous","result_text":null,"result_data":{"n": 1}}}`)
	}))
	defer api.Close()
	s := testSession{url: api.URL + "/token"}
	got := s.turn(t.Context(),
		executor.Start,
		"@child scanner sync {\"path\":\"/a\"}\n@json {\"of\": $CHILD}\n@child slow async_callback Look "+
			"around\n@child nobody sync x")
	want := `{"status":"failed","error":{"error":"child_not_started","message":"the API refused the child: ` +
		`{\"error\":\"not_found\"}","status":404},"result":{"result_type":"autonomous","result_text":"{\"of\": ` +
		`{\"n\": 1}}","result_data":null}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wantAsked := []string{
		`POST /token/api/runs {"agent_name":"scanner","mode":"sync","parameters":{"path":"/a"}}`,
		`POST /token/api/runs {"agent_name":"slow","mode":"async_callback","parent_session_id":"ses_1",` +
			`"prompt":"Look around"}`,
		`POST /token/api/runs {"agent_name":"nobody","mode":"sync","prompt":"x"}`,
	}
	if fmt.Sprint(asked) != fmt.Sprint(wantAsked) {
		t.Errorf("got %q", asked)
	}
}

// TestSamplesFitTheirSchema: without directives, an agent with an output schema returns a valid value.
func TestSamplesFitTheirSchema(t *testing.T) {
	for _, raw := range []string{
		`{"type":"object","required":["issues","summary"],"properties":{"issues":{"type":"array",` +
			`"items":{"type":"object","required":["severity","line"],"properties":{"severity":{"enum":["high",` +
			`"low"]},"line":{"type":"integer","exclusiveMinimum":2,"multipleOf":5}}}},"summary":{"type":"string",` +
			`"minLength":20,"maxLength":30}}}`,
		`{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":["number","null"],"minimum":0.5,"maximum":3}}}`,
		`{"type":"array","minItems":1,"items":{"$ref":"schema:city"},"definitions":{"city":{"$id":"schema:city",` +
			`"type":"object","required":["at"],"properties":{"at":{"$ref":"#/definitions/x"}},` +
			`"definitions":{"x":{"type":"integer"}}}}}`,
		`{"$ref":"schema:city#/definitions/x","definitions":{"x":{"$id":"schema:x","type":"null"},` +
			`"city":{"$id":"schema:city","definitions":{"x":{"$ref":"schema:x"}}}}}`,
		`{"type":"array","minItems":3,"items":{"oneOf":[{"const":"x"},{"type":"null"}]}}`,
		`{"type":"object","required":["when","where","free"],"properties":{"when":{"type":"string",` +
			`"format":"date-time"},"where":{"type":"string","format":"uri"}}}`,
		`{"type":"boolean"}`, `{}`,
	} {
		s, err := schema.Compile(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		got := sample(json.RawMessage(raw), json.RawMessage(raw))
		if wrong := s.Check(got); len(wrong) > 0 {
			t.Errorf("%s\ngives %s: %v", raw, got, wrong)
		}
	}
	prompt, _ := strictjson.Encode(map[string]string{"system_prompt": "You scan.\n\n## Required Output Format\n\nYou " +
		"MUST:\n\n```json\n{\n  \"type\": \"object\",\n  \"required\": [\"a\"]\n}\n```\n\nYour final response"})
	var st testSession
	o := Run(t.Context(), executor.Invocation{Mode: executor.Start, Prompt: "Scan", Blueprint: prompt}, st.host())
	if o.Result == nil || o.Result.Text == nil || *o.Result.Text != `{"a":"sample"}` {
		t.Errorf("got %+v", o.Result)
	}
	deep := `{"$ref":"#/definitions/d","definitions":{"d":{"type":"object",` +
		`"properties":{"d":{"$ref":"#/definitions/d"}}}}}`
	sample(json.RawMessage(deep), json.RawMessage(deep)) // ends
}

// TestSamplesAreBounded: a caller's schema cannot make the worker produce much, nor take long.
func TestSamplesAreBounded(t *testing.T) {
	tree := `{"$ref":"#/definitions/d","definitions":{"d":{"type":"object",` +
		`"properties":{"a":{"$ref":"#/definitions/d"},"b":{"$ref":"#/definitions/d"},"c":{"$ref":"#/definitions/d"},` +
		`"d":{"$ref":"#/definitions/d"},"e":{"$ref":"#/definitions/d"},"f":{"$ref":"#/definitions/d"}}}}}`
	for _, raw := range []string{
		`{"type":"string","minLength":1000000000}`, `{"type":"array","minItems":1000000000}`, tree,
		`{"type":"array","minItems":3000,"items":{"type":"array","minItems":3000,"items":{"type":"array",` +
			`"minItems":3000}}}`,
		`{"type":"array","minItems":-5}`, `{"type":"string","maxLength":-5}`,
	} {
		start := time.Now()
		got := sample(json.RawMessage(raw), json.RawMessage(raw))
		if took := time.Since(start); len(got) > 4*maxSample || took > 5*time.Second || !json.Valid(got) {
			t.Errorf("%s gives %d bytes in %s, JSON %v", raw, len(got), took, json.Valid(got))
		}
	}
}

// TestAChildIsNotMultiplied: a child's result is not inserted so often that it fills the worker's memory.
func TestAChildIsNotMultiplied(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"result":{"result_data":%q}}`, strings.Repeat("x", 1<<20))
	}))
	defer api.Close()
	s := testSession{url: api.URL}
	if got := s.turn(t.Context(), executor.Start, "@child a sync x\n@say "+
		strings.Repeat("$CHILD", 100)); !strings.Contains(got, `"bad_directive"`) {
		t.Errorf("got %.300s", got)
	}
}

// TestErrorsHideTheGatewayURL: the URL of a run's gateway contains its token; no error shows it.
func TestErrorsHideTheGatewayURL(t *testing.T) {
	api := httptest.NewServer(nil)
	api.Close()
	for _, url := range []string{api.URL + "/TOKEN", "http://127.0.0.1:x/TOKEN"} {
		s := testSession{url: url}
		got := s.turn(t.Context(), executor.Start, "@child a sync x")
		if !strings.Contains(got, `"child_not_started"`) || strings.Contains(got, "TOKEN") {
			t.Errorf("got %s", got)
		}
	}
}

// TestInventedAnswersSaySo: who reads an answer that nobody wrote learns it from the result. What a directive says is
// the caller's own.
func TestInventedAnswersSaySo(t *testing.T) {
	for prompt, want := range map[string]string{
		"hello":                                 Invented,
		"@say hello":                            "",
		`@data {"a":1}`:                         "",
		"@fail my_code because":                 "",
		requiredFormat + "\n\n```json\n{}\n```": Invented,
	} {
		o := Run(t.Context(), executor.Invocation{Mode: executor.Start, SessionID: "ses_1", RunID: "run_1",
			Prompt: prompt, Blueprint: json.RawMessage(`{}`)}, (&testSession{}).host())
		if o.Result == nil || o.Result.Note != want {
			t.Errorf("%q: %+v", prompt, o.Result)
		}
	}
}
