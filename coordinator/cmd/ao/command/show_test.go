package command

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ao/shared/run"
)

// api answers each path with a document; any other path fails the test.
func api(t *testing.T, docs map[string]string) string {
	return serve(t, func(w http.ResponseWriter, req *http.Request) {
		at := req.Method + " " + req.URL.Path
		if req.URL.RawQuery != "" {
			at += "?" + req.URL.RawQuery
		}
		doc, ok := docs[at]
		if !ok {
			t.Errorf("unexpected %s", at)
		}
		_, _ = io.WriteString(w, doc)
	})
}

func TestLists(t *testing.T) {
	then := time.Now().Add(-2*time.Minute - 10*time.Second).UTC().Format(time.RFC3339Nano)
	const runs = `{"run_id":"run_2","session_id":"ses_1","agent_name":"slow","status":"pending","created_at":"THEN",` +
		`"waiting_for":"a free slot"},` +
		`{"run_id":"run_1","session_id":"ses_1","agent_name":"text-stats","status":"failed","created_at":"THEN",` +
		`"claimed_at":"2026-01-31T12:00:00Z","completed_at":"2026-01-31T12:00:01.25Z","error":{"error":"x",` +
		`"message":"\u001b[31mno such file"}}`
	docs := map[string]string{
		"GET /runs?limit=20":             `{"runs":[` + runs + `],"next_cursor":"c2"}`,
		"GET /runs?limit=1000":           `{"runs":[{"run_id":"run_2","digits":1.50}],"next_cursor":"c2"}`,
		"GET /runs?cursor=c2&limit=1000": `{"runs":[{"run_id":"run_1"}]}`,
		"GET /runs?agent_name=a&cursor=c&limit=5&parent_session_id=ses_2&session_id=ses_1&status=failed": `{"runs":[]}`,

		"GET /runs/count?agent_name=a&q=x&roots=true&status=failed": `{"count":1234,"exact":true}`,
		"GET /runs/count?q=lost":                                    `{"count":7,"exact":false}`,
		"GET /runs?agent_name=a&format=csv":                         "run_id,message\r\nrun_1,\"'=1\x1b[31m\"\r\n",
		"GET /runs?format=csv&limit=5":                              "run_id\r\n",
		"GET /callbacks?limit=20&status=dead": `{"callbacks":[{"run_id":"run_3","parent_session_id":"ses_1",` +
			`"completed_at":"THEN","callback":{"status":"delivered","callback_run_id":"run_9"},` +
			`"callback_url":"https://x.example/y","http_callback":{"status":"dead","tries":10,"http_status":503,` +
			`"reason":"Service Unavailable"}}]}`,
		"GET /sessions?limit=20": `{"sessions":[{"session_id":"ses_1","status":"finished","agent_name":"a",` +
			`"runs":3,"created_at":"THEN","modified_at":"THEN"}]}`,
		"GET /agents": `{"agents":[{"name":"crawl","type":"procedural","status":"active",` +
			`"description":"Gets pages","parameters_schema":{"required":["url"],` +
			`"properties":{"url":{"type":"string"},` +
			`"depth":{"type":"integer"}}}},{"name":"think","type":"autonomous","status":"inactive","description":""}]}`,
		"GET /agents?status=active": `{"agents":[{"name":"crawl","type":"procedural","status":"active",` +
			`"description":"Gets pages","parameters_schema":{"required":["url"],` +
			`"properties":{"url":{"type":"string"},"depth":{"type":"integer"}}}}]}`,
		"GET /agents?status=broken": `{"agents":[{"name":"crawl","path":"/a/bad.json","status":"broken","error":"not ` +
			`JSON"},{"name":"worse","path":"/w/worse.json","status":"broken","error":"no command",` +
			`"runner_id":"rnr_1"}]}`,
		"GET /runners": `{"runners":[{"runner_id":"rnr_1","hostname":"h","project_dir":"/p",` +
			`"executor_profile":"procedural","executor_type":"procedural","tags":[],"max_concurrent_runs":4,` +
			`"agents":["crawl"],"status":"online","running":1,"last_heartbeat":"THEN"}]}`,
	}
	for at, doc := range docs {
		docs[at] = strings.ReplaceAll(doc, "THEN", then)
	}
	for _, tt := range []struct{ args, want string }{
		{"runs", `
RUN    AGENT       STATUS   CREATED  TOOK  NOTE
run_2  slow        pending  2m ago   -     a free slot
run_1  text-stats  failed   2m ago   1.2s  \x1b[31mno such file
`},
		{"runs --all --json", "\n" + `{"run_id":"run_2","digits":1.50}` + "\n" + `{"run_id":"run_1"}` + "\n"},
		{"runs --status failed --agent a --session ses_1 --parent ses_2 --limit 5 --cursor c", "\n"},
		{"runs --count --status failed --agent a --q x --roots --limit 3 --cursor c", "\n1234\n"},
		{"runs --count --q lost", "\n7\n"},
		{"runs --count --q lost --json", "\n" + `{"count":7,"exact":false}` + "\n"},
		{"runs --csv --agent a", "\nrun_id,message\r\nrun_1,\"'=1\x1b[31m\"\r\n"},
		{"runs --csv --limit 5", "\nrun_id\r\n"},
		{"callbacks --status dead", `
RUN    ENDED   TO                   CALLBACK  TRIES  NOTE
run_3  2m ago  https://x.example/y  dead      10     503 Service Unavailable
`},
		{"sessions", `
SESSION  AGENT  STATUS    RUNS  CREATED  CHANGED
ses_1    a      finished  3     2m ago   2m ago
`},
		{"agents", `
AGENT  TYPE        STATUS          PARAMETERS   DESCRIPTION
crawl  procedural  active, broken  url [depth]  Gets pages
think  autonomous  inactive        prompt       -
`},
		{"agents --status active", `
AGENT  TYPE        STATUS  PARAMETERS   DESCRIPTION
crawl  procedural  active  url [depth]  Gets pages
`},
		{"agents --broken", `
agent  crawl
file   /a/bad.json
error  not JSON

agent   worse
runner  rnr_1
file    /w/worse.json
error   no command
`},
		{"runners", `
RUNNER  STATUS  TYPE        PROFILE     HOST  SLOTS  AGENTS  HEARTBEAT  FOLDER
rnr_1   online  procedural  procedural  h     1/4    1       2m ago     /p
`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errs, code := ao(t, api(t, docs), "", strings.Fields(tt.args)...)
			if "\n"+out != tt.want || code != 0 {
				t.Errorf("got %d, %s%s\nwant %s", code, out, errs, tt.want)
			}
		})
	}
	if _, errs, _ := ao(t, api(t, docs), "",
		"runs"); errs != "more: repeat the command with --cursor c2 or --all\n" {
		t.Errorf("paging: got %q", errs)
	}
	if _, errs, _ := ao(t, api(t, docs), "", "agents"); errs !=
		"broken definitions: 2; 'ao agents --broken' says why\n" {
		t.Errorf("broken definitions: got %q", errs)
	}
}

func TestShow(t *testing.T) {
	long := strings.Repeat("How far it follows links; ", 20) + "the end"
	url := api(t, map[string]string{
		"GET /runs/run_1": `{"run_id":"run_1","type":"start_session","session_id":"ses_1","agent_name":"a",` +
			`"parameters":{"z":1.50,"a":"x"},"status":"failed","demands":{"executor_profile":"p","tags":["t"]},
			"runner_id":"rnr_1","attempt":1,"error":{"error":"code","message":"It broke","why":"so"},` +
			`"created_at":"0001-01-01T00:00:00Z"}`,
		"GET /agents/crawl": `{"name":"crawl","type":"procedural","status":"active","description":"Gets pages",` +
			`"command":"./crawl","parameters_schema":{"required":["url"],
			"properties":{"url":{"type":"string","description":"Where to begin"},"mode":{"enum":["fast","full"],` +
			`"default":"fast"},"depth":{"type":"integer","minimum":1,"maximum":9,"description":"` + long + `"}}}}`,
		"GET /runs/run_1/result": `{"result_type":"procedural","result_text":null,"result_data":[1,` +
			`{}],"exit_code":3}`,
		"GET /runs/run_1/result?max_bytes=90": `{"result_type":"procedural","result_text":null,` +
			`"result_data":{"a":"beg"},"exit_code":0,"truncated":true,"bytes":4096}`,
		"GET /sessions/ses_1/result?max_bytes=5": `{"result_type":"autonomous","result_text":null,"result_data":null,` +
			`"truncated":true,"bytes":9000,"head":"[1,2"}`,
		"GET /sessions/ses_1/result": `{"result_type":"autonomous","result_text":"as \u001b is","result_data":null}`,
		"POST /runs/run_1/stop":      `{"run_id":"run_1","status":"stopping"}`,
		"GET /ready":                 `{"status":"ready"}`,
		"GET /agents/edited": `{"name":"edited","type":"autonomous","status":"active","description":"",` +
			`"unused_file":{"path":"/etc/ao/edited/agent.json","changed":true}}`,
		"POST /agents/edited/reset": `{"name":"edited"}`,
		"GET /agents?status=broken": `{"agents":[{"name":"other","error":"no"},{"name":"edited","path":"/x.json",` +
			`"status":"broken","error":"Output schema 'gone' not found"}]}`,
	})
	for _, tt := range []struct{ args, out, errs string }{
		{"show run_1", `run         run_1
session     ses_1
agent       a
type        start_session
status      failed
error       It broke (code)
              why: so
runner      rnr_1
demands     profile=p tags=t
parameters  {
              "z": 1.50,
              "a": "x"
            }
`, ""},
		{"agents show crawl", `agent        crawl
type         procedural
status       active
description  Gets pages
command      ./crawl

PARAMETER  TYPE       REQUIRED  DEFAULT  LIMITS                DESCRIPTION
url        string     yes       -        -                     Where to begin
mode       fast|full  -         "fast"   -                     -
depth      integer    -         -        minimum 1; maximum 9  ` + long + `

ao run crawl --param url=text
`, ""},
		{"agents show edited", `agent        edited
type         autonomous
status       active, broken
error        Output schema 'gone' not found (/x.json)
unused file  /etc/ao/edited/agent.json, changed since it was copied; 'ao agents reset edited' takes it

PARAMETER  TYPE    REQUIRED  LIMITS
prompt     string  yes       minLength 1

ao run edited --param prompt=text
`, ""},
		{"agents reset edited", "", "edited reset\n"},
		{"result run_1", "[\n  1,\n  {}\n]\n", "the program exited with code 3\n"},
		{"result ses_1", "as \x1b is\n", ""}, // not a terminal: as it is, and its line ends
		{"result run_1 --json", `{"result_type":"procedural","result_text":null,"result_data":[1,{}],"exit_code":3}` +
			"\n", ""},
		{"result run_1 --max-bytes 90", "{\n  \"a\": \"beg\"\n}\n", "truncated; the whole result has 4096 bytes\n"},
		{"result ses_1 --max-bytes 5", "[1,2\n", "truncated; the whole result has 9000 bytes\n"},
		{"stop run_1", "run_1\tstopping\n", ""},
		{"health", "ready\n", ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errs, code := ao(t, url, "", strings.Fields(tt.args)...)
			if out != tt.out || errs != tt.errs || code != 0 {
				t.Errorf("got %d, %s%s\nwant %s", code, out, errs, tt.out)
			}
		})
	}
}

// TestTerminalOutputIsEscaped: what is shown on a terminal is escaped, and JSON stays JSON.
func TestTerminalOutputIsEscaped(t *testing.T) {
	var out strings.Builder
	a := &app{out: &out, terminal: true}
	text := "one\x1b[2J"
	if err := showResult(a, run.Result{Text: &text}); err != nil {
		t.Fatal(err)
	}
	if err := showResult(a, run.Result{Data: json.RawMessage("\"\u009b2J\x7f\"")}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `one\x1b[2J`+"\n"+`"\u009b2J\u007f"`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestATableOnATerminal: lines that come in pieces are escaped whole, and their ends stay ends.
func TestATableOnATerminal(t *testing.T) {
	var out strings.Builder
	f := &safeWriter{w: &out}
	for _, piece := range []string{"a,\x1b", "[2J\r", "\nb\r\nc", "\n"} {
		if n, err := f.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := out.String(), "a,\\x1b[2J\nb\nc\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTheLastColumn runs on for programs, and is cut for people late.
func TestTheLastColumn(t *testing.T) {
	text := strings.Repeat("x", 199) + "\n"
	for _, tt := range []struct {
		terminal bool
		want     int
	}{{false, 199}, {true, lastCellWidth}} {
		a := &app{terminal: tt.terminal}
		if got := len([]rune(a.lastCell(text))); got != tt.want {
			t.Errorf("terminal %v: got %d characters, want %d", tt.terminal, got, tt.want)
		}
	}
}

func TestEventsInWords(t *testing.T) {
	for _, tt := range []struct{ event, want string }{
		{`{"event_type":"run_start","runner_id":"rnr_1"}`, "started on rnr_1"},
		{`{"event_type":"run_start"}`, "started"},
		{`{"event_type":"message","role":"assistant","content":[{"type":"text","text":"a\nb\n"},{"type":"text",` +
			`"text":"c\u001b"}]}`, `assistant: a` + "\nb\n" + `c\x1b`},
		{`{"event_type":"pre_tool","tool_name":"Bash","tool_input":{"command":"ls"}}`, `tool Bash {"command":"ls"}`},
		{`{"event_type":"post_tool","tool_name":"Bash","tool_output":"a\nb"}`, `tool Bash done: a\nb`},
		{`{"event_type":"post_tool","tool_name":"Bash","tool_output":null,"error":"denied"}`,
			`tool Bash failed: denied`},
		{`{"event_type":"result","result_text":null,"result_data":{"a":1.50}}`, `result: {"a":1.50}`},
		{`{"event_type":"result","result_text":"hi","result_data":null}`, `result: hi`},
		{`{"event_type":"run_failed","error":{"error":"x","message":"It broke"}}`, `failed: It broke`},
		{`{"event_type":"run_failed","error":"x","message":"It broke"}`, `failed: It broke`},
		{`{"event_type":"run_failed","error":"x"}`, `failed: x`},
		{`{"event_type":"run_stopped"}`, `stopped`},
		{`{"event_type":"new_kind","a":1}`, `new_kind {"a":1}`},
		{`{"event_type":"message","role":5}`, `message {"role":5}`},
	} {
		e, ok := readEvent([]byte(tt.event))
		if got := describeEvent(e); !ok || got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.event, got, tt.want)
		}
	}
}

func TestEvents(t *testing.T) {
	url := api(t, map[string]string{
		"GET /sessions/ses_1/events?limit=500": `{"events":[{"event_type":"run_start","session_id":"ses_1",` +
			`"run_id":"run_1","timestamp":"2026-01-31T12:00:00Z","n":1.50},` +
			`{"event_type":"run_completed","session_id":"ses_1","run_id":"run_1","timestamp":"2026-01-31T12:00:01Z"},` +
			`{"event_type":"run_start","session_id":"ses_1","run_id":"run_2",` +
			`"timestamp":"2026-01-31T12:00:02Z"}],"next":"9-0"}`,
		"GET /sessions/ses_1/events?after=9-0&limit=500": `{"events":[],"next":"9-0"}`,
		"GET /runs/run_2": `{"run_id":"run_2","session_id":"ses_1"}`,
	})
	at := func(s int) string { return time.Date(2026, 1, 31, 12, 0, s, 0, time.UTC).Local().Format("15:04:05") }
	if out, errs, code := ao(t, url, "", "events", "ses_1"); out != "run_1\n"+at(0)+"  started\n"+at(1)+
		"  completed\nrun_2\n"+at(2)+"  started\n" || code != 0 {
		t.Errorf("got %d, %s%s", code, out, errs)
	}
	if out, errs, code := ao(t, url, "", "events", "run_2",
		"--json"); out != `{"event_type":"run_start","session_id":"ses_1","run_id":"run_2",`+
		`"timestamp":"2026-01-31T12:00:02Z"}`+"\n" || code != 0 {
		t.Errorf("got %d, %s%s", code, out, errs)
	}
}

func TestCompletion(t *testing.T) {
	url := api(t, map[string]string{
		"GET /agents": `{"agents":[{"name":"crawl","description":"Gets\npages"}]}`,
		"GET /agents/crawl": `{"name":"crawl","type":"procedural",` +
			`"parameters_schema":{"properties":{"depth":{"type":"integer","description":"How far"}}}}`,
		"GET /runs?limit=100":     `{"runs":[{"run_id":"run_1","agent_name":"crawl","status":"failed"}]}`,
		"GET /sessions?limit=100": `{"sessions":[{"session_id":"ses_1","agent_name":"crawl","status":"finished"}]}`,
		"GET /runners": `{"runners":[{"runner_id":"rnr_1","executor_profile":"p","hostname":"h",` +
			`"status":"online"}]}`,
	})
	for _, tt := range []struct{ words, want string }{
		{"run |", "crawl\tGets\\npages"},
		{"run crawl --param |", "depth=\tinteger How far"},
		{"result |", "run_1\tcrawl, failed"},
		{"result s|", "ses_1\tcrawl, finished"},
		{"runners delete |", "rnr_1\tp, h, online"},
		{"runs --status |", "pending"},
	} {
		words := strings.Split(strings.TrimSuffix(tt.words, "|"), " ")
		out, _, code := ao(t, url, "", append([]string{"__complete"}, words...)...)
		if first, _, _ := strings.Cut(out, "\n"); first != tt.want || code != 0 {
			t.Errorf("%s: got %d, %q, want %q", tt.words, code, out, tt.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, _, code := ao(t, "", "", "completion", shell); !strings.Contains(out, "__complete") || code != 0 {
			t.Errorf("%s: got %d, %.80q", shell, code, out)
		}
	}
	if out, _, _ := ao(t, "ftp://x", "", "__complete", "run", ""); !strings.HasPrefix(out, ":") {
		t.Errorf("without a coordinator: got %q", out)
	}
}

func TestVerify(t *testing.T) {
	const good = `{"sequence":9,"truncated_before":1,"records":9,"runs":{"accepted":3,"waiting":1,"running":0,` +
		`"ended":2,"completed":2},` +
		`"attempts":{"begun":2,"ended":2},"callbacks":{"owed":1,"delivered":1},"webhooks":{},"sessions":2,"ok":true,` +
		`"wrong_count":0,"wrong":[]}`
	bad := strings.NewReplacer(`"ok":true,"wrong_count":0,"wrong":[]`,
		`"ok":false,"wrong_count":2,"wrong":[{"kind":"begun_twice","run_id":"run_1","sequence":7,"message":"Attempt 1 `+
			`was claimed twice"},{"kind":"sum","message":"3 are not 4"}]`).Replace(good)
	const counts = `runs       3 accepted = 1 waiting + 0 running + 2 ended
ended      2 = 2 completed + 0 failed + 0 stopped
attempts   2 claimed, 2 ended, 0 retried
callbacks  1 due = 1 delivered + 0 waiting + 0 undeliverable + 0 suppressed
webhooks   0 due = 0 delivered + 0 waiting + 0 dead
sessions   2
read       9 records, from 1 to 9

`
	stray := strings.NewReplacer(`"records":9,`, `"records":9,"foreign_records":2,"foreign_sequences":[4,6],`).Replace(
		good)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	const damages = `"damages":[{"message":"4 records are missing","found_at":"2026-01-31T12:00:00Z",` +
		`"resolved_at":"2026-01-31T12:00:02Z","failed":1,"lost":1,` +
		`"runs":[{"run_id":"run_1","was":"running","evidence":"it has events"}]}]`
	damaged := strings.NewReplacer(`"ok":true`, damages+`,"ok":false`, `"wrong_count":0`,
		`"wrong_count":1`, `"wrong":[]`,
		`"wrong":[{"kind":"history_damaged","sequence":9,"message":"4 records are missing"}]`).Replace(good)
	for _, tt := range []struct {
		args, doc, out, errs string
		code                 int
	}{
		{"verify", stray, strings.TrimSuffix(counts, "\n") +
			"foreign    2 of these belong to no attempt and are ignored; the first is record 4\n\n" +
			"ok: the log is complete and consistent\n", "", exitDone},
		{"verify", good, counts + "ok: the log is complete and consistent\n", "", exitDone},
		{"verify", bad, counts + `VIOLATION    RUN    RECORD  MESSAGE
begun_twice  run_1  7       Attempt 1 was claimed twice
sum          -      -       3 are not 4
`, "ao: 2 violations. Keep the evidence", exitFailed},
		{"verify", damaged, counts[:len(counts)-1] + "\ndamage of " + at.Local().Format(time.DateTime) +
			": 4 records are missing (not accepted)\n1 runs failed with history_damaged, 1 are lost\n" +
			"RUN    WAS      HOW IT IS KNOWN\nrun_1  running  it has events\n\n" +
			"VIOLATION        RECORD  MESSAGE\nhistory_damaged  9       4 records are missing\n",
			"ao: 1 violation. Keep the evidence", exitFailed},
		{"verify --json", good, good + "\n", "", exitDone},
		{"verify --json", bad, bad + "\n", "", exitFailed},
		{"verify", `{"hello":1}`, "", "ao: the answer cannot be read", exitFailed},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errs, code := ao(t, api(t, map[string]string{"GET /ledger": tt.doc}), "", strings.Fields(tt.args)...)
			if out != tt.out || !strings.HasPrefix(errs, tt.errs) || (tt.errs == "") != (errs == "") ||
				code != tt.code {
				t.Errorf("got %d, %s%s\nwant %d, %s", code, out, errs, tt.code, tt.out)
			}
		})
	}
}
