package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/shared/run"
)

// TestMCPUnknownMethods: an unknown method gets JSON-RPC's error -32601, with the HTTP status that the protocol's
// version asks for. Up to 2025-11-25 that is 200, for a 404 tells a client that its session is over. What wants no
// answer gets none.
func TestMCPUnknownMethods(t *testing.T) {
	t.Parallel()
	s := start(t)
	const fly = `{"jsonrpc":"2.0","id":7,"method":"agents/fly","params":{}}`
	const noFly = `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method \"agents/fly\" not found; there ` +
		`are initialize, ping, server/discover, tools/list, tools/call"}}`
	const listen = `{"jsonrpc":"2.0","id":"x","method":"subscriptions/listen",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	const newest, today = "Mcp-Protocol-Version: 2026-07-28", "Mcp-Protocol-Version: 2025-11-25"
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     int
		answer     string // as a whole
	}{
		{"before a version is known", fly, nil, 200, noFly},
		{"a client of today", fly, []string{today, "Mcp-Session-Id: mine"}, 200, noFly},
		{"the newest protocol", fly, []string{newest}, 404, noFly},
		{"a capability that is not offered", `{"jsonrpc":"2.0","id":"a","method":"resources/list"}`, []string{today},
			200, `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"Method \"resources/list\" not found; ` +
				`there are initialize, ping, server/discover, tools/list, tools/call"}}`},
		{"a stream outside of calls", listen, []string{newest, "Mcp-Method: subscriptions/listen"}, 404, ``},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/of_tomorrow"}`, []string{today}, 202, ``},
		{"several at once", `[{"jsonrpc":"2.0","id":1,"method":"ping"},` + fly + `]`, nil, 200, noFly},
		{"one that is known", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{today}, 200, ``},
	} {
		g := s.rpc(tt.body, tt.headers...)
		if g.status != tt.status || tt.answer != "" && g.body != tt.answer {
			t.Errorf("%s: %d %s\nwant %d %s", tt.name, g.status, g.body, tt.status, tt.answer)
		}
		if tt.answer != "" && g.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: Content-Type %s", tt.name, g.header.Get("Content-Type"))
		}
		if g.status == 404 && !strings.Contains(g.body, `"code":-32601`) || g.status == 202 && g.body != "" {
			t.Errorf("%s: %s", tt.name, g.body)
		}
	}
}

// TestMCPIdsAreAnsweredAsTheyCame: the protocol's library reads numbers as floats, and unescapes strings. A client
// looks for its id byte for byte.
func TestMCPIdsAreAnsweredAsTheyCame(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, id := range []string{`1`, `-7`, `12345678901234567890`, `9007199254740993`, `1.0`, `1.5`, `1e2`, `-0`,
		`"a"`, `"ÿ  \u0041\/\ud800"`, `"1"`} {
		for _, method := range []string{"ping", "tools/list", "initialize", "agents/fly"} {
			body := `{"id":` + id + `,"jsonrpc":"2.0","method":"` + method + `","params":{` +
				`"protocolVersion":"2025-06-18",` +
				`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
			if g := s.rpc(body); g.status != 200 || !strings.Contains(g.body, `"id":`+id+`,`) {
				t.Errorf("id %s of %s: %d %.200s", id, method, g.status, g.body)
			}
		}
	}
	g := s.rpc(`[{"jsonrpc":"2.0","id":1.0,"method":"ping"},{"jsonrpc":"2.0","id":"\u0041","method":"ping"},` +
		`{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	for _, id := range []string{`1.0`, `"\u0041"`, `2`} {
		if !strings.Contains(g.body, `"id":`+id+`,`) {
			t.Errorf("id %s among several: %d %s", id, g.status, g.body)
		}
	}
}

// TestMCPProgressTokensAreSentAsTheyCame: a client knows its call by the token.
func TestMCPProgressTokensAreSentAsTheyCame(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	for _, token := range []string{`12345678901234567890`, `1.0`, `"\u0041"`} {
		g := s.rpc(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_session","arguments":` +
			`{"agent_name":"mind","prompt":"tell"},"_meta":{"progressToken":` + token + `}}}`)
		if !strings.Contains(g.body, `"progressToken":`+token) {
			t.Errorf("token %s: %d %.300s", token, g.status, g.body)
		}
	}
}

// TestMCPObjectsAsStrings: models send an object as its JSON text. It is taken where the schema of the tool or the
// agent wants an object or a list and takes no string. What is sent as text to a schema that takes texts stays text.
func TestMCPObjectsAsStrings(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	form := echo("form")
	form.ParametersSchema = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` +
		`"o":{"type":"object"},"l":{"$ref":"#/definitions/list"},"maybe":{"anyOf":[{"type":"object"},{` +
		`"type":"null"}]},` +
		`"text":{"type":"string"},"long":{"type":"string","minLength":9},"both":{"type":["string","object"]},` +
		`"any":{}},` +
		`"definitions":{"list":{"type":"array"}}}`)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, form)
	c := s.speak(versions[0])
	for _, tt := range []struct{ sent, want string }{
		{`"{\"o\":{\"z\":1.10,\"a\":1}}"`, `{"o":{"z":1.10,"a":1}}`},
		{`{"o":"{\"a\":1}","l":" [1.0] ","maybe":"{}"}`, `{"o":{"a":1},"l":[1.0],"maybe":{}}`},
		{`"{\"o\":\"{}\"}"`, `{"o":{}}`},
		{`{"text":"{}","both":"{}","any":"[1]"}`, `{"text":"{}","both":"{}","any":"[1]"}`},
		{`{"o":"{"}`, ``}, {`{"o":"[]"}`, ``}, {`{"o":"1"}`, ``}, {`{"l":"{}"}`, ``}, {`{"long":"{}"}`, ``},
		{`{"o":"{\"a\":\"\ud800\"}"}`, ``}, {`{"o":"{\"a\":1,\"a\":2}"}`, ``},
		{`"[]"`, ``}, {`"null"`, ``}, {`"{}{}"`, ``},
	} {
		doc, isError := c.call("start_agent_session", `{"agent_name":"form","parameters":`+tt.sent+`}`)
		if isError != (tt.want == "") {
			t.Errorf("%s: %s", tt.sent, doc)
			continue
		}
		if tt.want == "" {
			continue
		}
		if g := s.get("/runs/" + into[child](got{body: doc, t: t, status: 200}, 200).RunID); !strings.Contains(g.body,
			`"parameters":`+tt.want+`,`) {
			t.Errorf("%s: the run has %s", tt.sent, g.body)
		}
	}
	for _, tt := range []struct{ tool, args string }{
		{"start_agent_session", `{"agent_name":"mind","prompt":"x","additional_demands":"{\"tags\":[]}"}`},
		{"start_agent_session", `{"agent_name":"mind","prompt":"json","output_schema":"{\"type\":\"object\"}",` +
			`"output_schema_options":"{\"max_retries\":2.0}","mode":"async_poll"}`},
		{"register_output_schema", `{"name":"texted","schema":"{\"type\":\"object\"}"}`},
	} {
		if doc, isError := c.call(tt.tool, tt.args); isError {
			t.Errorf("%s %s: %s", tt.tool, tt.args, doc)
		}
	}
	if g := s.get("/schemas/texted"); !strings.Contains(g.body, `"schema":{"type":"object"}`) {
		t.Errorf("the schema is %s", g.body)
	}
}

// TestMCPUnreadable: a body that the protocol's library cannot read is refused in words for people, not in its own,
// and with the protocol's error code.
func TestMCPUnreadable(t *testing.T) {
	t.Parallel()
	s := start(t)
	const no2 = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"jsonrpc must be \"2.0\""}}`
	const noID = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"id must be a string or a number"}}`
	for body, want := range map[string]string{
		`{`: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"The body is not JSON: it ends too early"}}`,
		`{a:1}`: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"The body is not JSON: unexpected 'a' ` +
			`at byte 1"}}`,
		`[]`: `"code":-32600,"message":"The body must be a JSON-RPC message such as {`,
		`5`:  `"message":"The body must be a JSON-RPC message such as {`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}`: `{"jsonrpc":"2.0","id":1,` +
			`"error":{"code":-32602,"message":"params must be an object"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`: `"message":"params: name ` +
			`must be a string, and _meta an object"`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":[]}}`: `"message":"params: name ` +
			`must be a string, and _meta an object"`,
		`{"jsonrpc":"2.0","id":1,"method":5}`: `"message":"The body must ` +
			`be a JSON-RPC message such as {`,
		`{"jsonrpc":5,"id":1,"method":"ping"}`: `"message":"The body must ` +
			`be a JSON-RPC message such as {`,
		`null`:   `"id":null,"error":{"code":-32600,"message":"The body must be a JSON-RPC message such as {`,
		`[null]`: `"id":null,"error":{"code":-32600,"message":"The body must be a JSON-RPC message such as {`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:       noID,
		`{"jsonrpc":"2.0","id":[],"method":"tools/list"}`: noID,
		`{"jsonrpc":"2.0","id":true,"method":"none"}`:     noID,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:     noID,
		`[{"jsonrpc":"2.0","id":{},"method":"ping"}]`:     noID,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:        no2,
		`{"id":1,"method":"ping"}`:                        no2,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`: `"code":-32600,"message":"id appears twice`,
		`{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}`: `"code":-32600,"message":"ID appears twice`,
	} {
		g := s.rpc(body)
		if !strings.Contains(g.body, want) || strings.Contains(g.body, "unmarshal") ||
			strings.Contains(g.body, "Go value") {
			t.Errorf("%s: %d %s\nwant %s", body, g.status, g.body, want)
		}
	}
}

// TestMCPListsAllowedToolsOnly: a tool that a token cannot call is not shown to it, in no version of the protocol.
func TestMCPListsAllowedToolsOnly(t *testing.T) {
	t.Parallel()
	s := secure(t)
	m := think(s.stack, s.admin)
	top := s.submit(`{"agent_name":"mind","prompt":"hold"}`, s.run)
	const readTools = "get_agent_session_result get_agent_session_status list_agent_blueprints list_agent_sessions " +
		"list_output_schemas"
	const runs = readTools + " resume_agent_session start_agent_session stop_agent_session"
	for _, tt := range []struct{ who, token, want string }{
		{"read", s.read, readTools},
		{"run", s.run, runs},
		{"a session", bearer(m.token(top.RunID)), runs},
		{"admin", s.admin, runs + " register_output_schema"},
	} {
		for _, version := range versions {
			got, err := s.speak(version, tt.token).mcp.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range got.Tools {
				names = append(names, tool.Name)
			}
			want := strings.Fields(tt.want)
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("%s, %s:\n got %v\nwant %v", tt.who, version, names, want)
			}
		}
	}
}

// progressed is a message to the caller of a tool: progress, or at last its result.
type progressed struct {
	Params struct {
		Token    string  `json:"progressToken"`
		Progress float64 `json:"progress"`
		Message  string  `json:"message"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

// follow calls a tool, and may cancel the call; next reads its messages, one after the other.
func (s *stack) follow(ctx context.Context, tool, args string) (next func() (progressed, bool)) {
	s.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,`+
		`"_meta":{"progressToken":"p"}}}`, tool, args)
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	return func() (p progressed, ok bool) {
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				return p, json.Unmarshal([]byte(data), &p) == nil
			}
		}
		return p, false
	}
}

// TestMCPCancelledEarly: a caller that cancels long before its wait is over knows from the first progress which session
// continues.
func TestMCPCancelledEarly(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	ctx, giveUp := context.WithTimeout(t.Context(), 30*time.Second)
	first, ok := s.follow(ctx, "start_agent_session", `{"agent_name":"mind","prompt":"hold","wait_seconds":600}`)()
	giveUp()
	if !ok {
		t.Fatal("no progress is sent")
	}
	list := into[struct{ Runs []run.Run }](s.get("/runs"), 200).Runs
	if len(list) != 1 {
		t.Fatalf("%d runs", len(list))
	}
	if want := fmt.Sprintf("waiting for run %s of session %s", list[0].ID,
		list[0].SessionID); first.Params.Message != want || first.Params.Progress != 1 {
		t.Errorf("got %v %q, want %q", first.Params.Progress, first.Params.Message, want)
	}
	ctx, giveUp = context.WithTimeout(t.Context(), 30*time.Second)
	again, _ := s.follow(ctx, "get_agent_session_result", `{"session_id":"`+list[0].SessionID+`","wait_seconds":600}`)()
	giveUp()
	if !strings.Contains(again.Params.Message, "run "+list[0].ID+" of session "+list[0].SessionID) {
		t.Errorf("the result is waited for: got %q", again.Params.Message)
	}
}

// TestMCPNoProgressTwice: each event is reported once, and the progress increases.
func TestMCPNoProgressTwice(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.HTTP.KeepAlive = 20 * time.Millisecond })
	think(s)
	for _, prompt := range []string{"tell", "fail and tell", "hold and tell"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		next := s.follow(ctx, "start_agent_session", `{"agent_name":"mind","prompt":"`+prompt+`","wait_seconds":1}`)
		var messages []string
		last := 0.0
		for {
			p, ok := next()
			if !ok {
				t.Fatalf("%s: no answer after %q", prompt, messages)
			}
			if p.Result != nil {
				break
			}
			if p.Params.Token != "p" || p.Params.Progress <= last {
				t.Errorf("%s: progress %v of %q after %v", prompt, p.Params.Progress, p.Params.Token, last)
			}
			last = p.Params.Progress
			messages = append(messages, p.Params.Message)
		}
		cancel()
		sorted := slices.Sorted(slices.Values(messages))
		if once := slices.Compact(slices.Clone(sorted)); len(once) != len(sorted) {
			t.Errorf("%s: sent twice:\n%s", prompt, strings.Join(messages, "\n"))
		}
		if len(messages) == 0 || !strings.HasPrefix(messages[0], "waiting for run ") {
			t.Errorf("%s: got\n%s", prompt, strings.Join(messages, "\n"))
		}
	}
}

// TestMCPManyAtOnce: a body with more messages than a client needs is refused as a whole, before any of them is
// examined. Each answer may be a thousand times as long as its message.
func TestMCPManyAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	several := func(n int, one string) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	for _, one := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"agents/fly"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{}`} {
		g := s.rpc(several(33, one))
		want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The body has more than 32 messages; ` +
			`send fewer at once"}}`
		if g.status != 400 || strings.TrimSpace(g.body) != want {
			t.Errorf("33 of %s: got %d %.300s, want 400 %s", one, g.status, g.body, want)
		}
		g = s.rpc(several(32, one))
		if strings.Contains(g.body, "fewer at once") {
			t.Errorf("32 of %s: %d %.300s", one, g.status, g.body)
		}
	}
}

// TestMCPOtherMembersAreLimited: arguments may be large, and are kept as they came. Of all else the protocol's library
// makes values, which take thirty times as much memory.
func TestMCPOtherMembersAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t)
	var many strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&many, `"a%d":0,`, i)
	}
	large := "{" + many.String() + `"z":0}`
	const refused = "What is not arguments of a tool may have 262144 bytes"
	for _, tt := range []struct {
		body    string
		refused bool
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + large + `}}`, true},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":` + large + `}}]`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"experimental":` + large + `}}}`,
			true},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_session","arguments":` +
			large + `,"arguments":{}}}`, true},
		{`{"jsonrpc":"2.0","id":1,"result":` + large + `}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_session",` +
			`"arguments":{"agent_name":"none","parameters":` + large + `}}}`, false},
	} {
		if g := s.rpc(tt.body); strings.Contains(g.body, refused) != tt.refused || tt.refused && g.status != 400 ||
			!tt.refused && !strings.Contains(g.body, "There is no agent") {
			t.Errorf("%.120s: %d %.300s", tt.body, g.status, g.body)
		}
	}
}
