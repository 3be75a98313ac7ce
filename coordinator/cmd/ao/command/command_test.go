package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	client "ao/shared/clients/go"
	"ao/shared/run"
)

// ao does what args say, against a server, and gives all that is to be seen of it.
func ao(t *testing.T, url, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	t.Setenv("AO_URL", url)
	var o, e strings.Builder
	code = Main(t.Context(), args, strings.NewReader(in), &o, &e, nil)
	return o.String(), e.String(), code
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// answering gives one answer to everything.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

const runID, sessionID = "run_1", "ses_1"

func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, []byte(`[1]`), 0o600); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(text, []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"fly", `ao: unknown command "fly" for "ao"`},
		{"runs --color", "ao: unknown flag --color\nhint: 'ao runs --help' shows its arguments"},
		{"runs -z", "ao: unknown flag -z\n"},
		{"runs --limit", "ao: flag --limit needs a value\n"},
		{"runs --=5", "ao: \"--=5\" is not a flag\n"},
		{"run a --params /nowhere/x", "ao: /nowhere/x: no such file or directory; give a file"},
		{"run a --ca /nowhere/x", "AO_CA \"/nowhere/x\" cannot be read: no such file or directory; name a file"},
		{"init", "ao: missing --dir\n"},
		{"tokens create", "ao: missing --name and --scope\n"},
		{"runs 5", `unknown command "5" for "ao runs"`},
		{"runs --limit many", "ao: --limit: \"many\" is not a whole number\n"},
		{"help fly", `no help for "fly"`},
		{"help agents fly", `no help for "agents fly"`},
		{"completion tcsh", `unknown shell "tcsh"; use one of bash, fish, powershell, zsh`},
		{"stop", "name a run or a session, or several"},
		{"stop run_1 --agent a", "give ids or filters such as --agent and --status, not both"},
		{"stop --agent a --limit 1001", "limit must be from 1 to 1000, got 1001"},
		{"stop --agent a --since lately", `since "lately"`},
		{"retry", "ao: name a run\n"},
		{"retry run_1 run_2", "name a run, only one; these are 2"},
		{"agents nwe", `unknown command "nwe" for "ao agents"; did you mean new?`},
		{"retry ses_1", "run_id"},
		{"retry --agent a -p x=1", "need one run"},
		{"stop run_1 nine", `"nine" is not the id of a run`},
		{"runs --limit 0", "limit must be from 1 to 1000, got 0"},
		{"runs --since lately", `since "lately": write a duration such as 2h`},
		{"run", "name an agent; 'ao agents' lists them"},
		{"run a b", "name one agent, got 2 arguments"},
		{"run a --param =5", `parameter "=5" has no name`},
		{"run a --param x:=y", "for plain text write x=…"},
		{"run a --params [1]", "give a file"},
		{"run a --params " + file, "params from " + file + ": must be a JSON object"},
		{"run a --params " + text, "params from " + text + ": not JSON: unexpected '#'"},
		{"run a --params -", "params from standard input: not JSON: it ends too early"},
		{"run a --params {x", "params: not JSON: unexpected 'x'"},
		{"run a -p files:=[", "parameter files: not JSON: it ends too early; for plain text write files=…"},
		{"validate a -p files:=[", "parameter files: not JSON"},
		{"agents create " + text, "definition from " + text + ": not JSON"},
		{"run a --timeout soon", "write whole seconds, such as 90, 90s or 2m"},
		{"run a --timeout 1500ms", "whole seconds"},
		{"run a --session ses_1 --resume ses_2", "ao: use only one of --resume and --session\n"},
		{"run a --output-schema {} --output-schema-name n",
			"ao: use only one of --output-schema and --output-schema-name\n"},
		{"run a --output-schema [1]", "give a file"},
		{"run a --output-schema " + text, "output-schema from " + text + ": not JSON"},
		{"run a --output-retries 11", "write a whole number from 0 to 10"},
		{"schemas show a/b", `name "a/b": use 1 to 60 letters`},
		{"schemas create a", "give the schema with --file"},
		{"schemas create a --file " + file, "schema from " + file + ": must be a JSON object"},
		{"schemas delete", "output schema"},
		{"run ../b --param x=1", `agent "../b": use 1 to 60 letters`},
		{"show", "ao: name a run or a session\n"},
		{"show nine", `"nine" is not the id of a run (run_…) or session (ses_…)`},
		{"wait ses_1", "run_id"},
		{"stop ../runs", "is not the id of a run"},
		{"stop --agent= --status running --yes", "ao: --agent is empty: give a value, or leave it out\n"},
		{"run a --idempotency-key=", "--idempotency-key is empty"},
		{"agents show a/b", "agent \"a/b\""},
		{"agents update a", "nothing to change"},
		{"runners delete x", "is not the id of a runner (rnr_…)"},
		{"runs --url ftp://x", "write it like http://127.0.0.1:8765"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errs, code := ao(t, "", "", strings.Fields(tt.args)...)
			if code != exitUsage || !strings.Contains(errs, tt.want) || out != "" {
				t.Errorf("got %d, %q, %q; want 2 and %q", code, out, errs, tt.want)
			}
		})
	}
}

// Usage errors are reported to a program as JSON, too.
func TestUsageAsJSON(t *testing.T) {
	for _, args := range []string{"--json fly", "runs --json --color", "runs --limit many --json",
		"run a --json --params [1]", "completion tcsh --json"} {
		out, errs, code := ao(t, "", "", strings.Fields(args)...)
		var e struct{ Error, Message string }
		if err := json.Unmarshal([]byte(errs), &e); err != nil || e.Error != "usage" || e.Message == "" || out != "" ||
			code != exitUsage {
			t.Errorf("%s: got %d, %q, %q", args, code, out, errs)
		}
	}
	if _, errs, _ := ao(t, "", "", "fly", "--", "--json"); strings.HasPrefix(errs, "{") {
		t.Errorf("got %q", errs)
	}
}

func TestVersion(t *testing.T) {
	if out, _, code := ao(t, "", "", "version"); !strings.HasPrefix(out, "ao ") || code != exitDone {
		t.Errorf("version: %d %q", code, out)
	}
	if out, _, code := ao(t, "", "", "--version"); !strings.HasPrefix(out, "ao ") || !strings.Contains(out, "(go1.") ||
		code != exitDone {
		t.Errorf("got %d, %q", code, out)
	}
	if out, _, code := ao(t, "", "", "help", "agents", "create"); !strings.Contains(out, "ao agents create") ||
		code != exitDone {
		t.Errorf("got %d, %q", code, out)
	}
}

// Several are stopped one after the other, also where one of them cannot be.
func TestStopSeveral(t *testing.T) {
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/runs/run_2/stop" {
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"error":"conflict","message":"run_2 has ended"}`)
			return
		}
		io.WriteString(w, `{"status":"stopping"}`)
	})
	out, errs, code := ao(t, url, "", "stop", "run_1", "run_2", "ses_3")
	if got := strings.Join(asked, " "); got != "/runs/run_1/stop /runs/run_2/stop /sessions/ses_3/stop" {
		t.Errorf("asked %s", got)
	}
	if out != "run_1\tstopping\nses_3\tstopping\n" || !strings.Contains(errs, "run_2 has ended") || code != exitFailed {
		t.Errorf("got %d, %q, %q", code, out, errs)
	}
}

// With --tree what is below is stopped too; without it, it is named.
func TestStopATree(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"stopping","open_below":{"count":2,"run_ids":["run_2","run_3"],"stopping":%t}}`,
			string(body) == `{"tree":true}`)
	})
	for _, tt := range []struct{ args, want string }{
		{"stop run_1", "run_1: 2 open runs below it continue: run_2 run_3\nhint: 'ao stop --tree run_1' " +
			"stops them too\n"},
		{"stop --tree run_1", "run_1: 2 open runs below it are stopped too\n"},
	} {
		if out, errs, code := ao(t, url, "", strings.Fields(tt.args)...); out != "run_1\tstopping\n" ||
			errs != tt.want || code != exitDone {
			t.Errorf("%s: got %d, %q, %q", tt.args, code, out, errs)
		}
	}
}

// TestErrors are the coordinator's refusals, and what is no coordinator, as a person and a program read them.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		code   int
		want   string
	}{
		{"every violation, and where to look", 400,
			`{"error":"parameter_validation_failed","message":"Parameters do not match agent's parameters_schema",` +
				`"agent_name":"web-crawler",
			"validation_errors":[{"path":"$.url","message":"'x' is not a valid URI",` +
				`"schema_path":"properties.url.format"},{"path":"$.depth","message":"'depth' is a required property"}],
			"parameters_schema":{"type":"object"}}`, exitFailed,
			`ao: Parameters do not match agent's parameters_schema (parameter_validation_failed)
  $.url: 'x' is not a valid URI
  $.depth: 'depth' is a required property
hint: 'ao agents show web-crawler' lists its parameters
`},
		{"an unknown agent", 404, `{"error":"not_found","message":"There is no agent \"x\"","agent_name":"x",` +
			`"near":["xy"],"folders":["/a"]}`,
			exitFailed,
			"ao: There is no agent \"x\" (not_found)\n  folders: [\"/a\"]\nhint: 'ao agents' lists them\n"},
		{"an unknown output schema", 404, `{"error":"SchemaNotFound","message":"Output schema 'x' not found",` +
			`"output_schema_name":"x","agent_name":"a"}`, exitFailed,
			"hint: 'ao schemas' lists them\n"},
		{"a field that the message does not name", 400,
			`{"error":"invalid_request","message":"This is wrong","field":"mode"}`, exitFailed,
			"ao: This is wrong (invalid_request)\n  field: mode\n"},
		{"details", 400,
			`{"error":"InvalidSchema","message":"no schema","details":"Schema validation error at $.properties: x"}`,
			exitFailed,
			"ao: no schema (InvalidSchema)\n  details: Schema validation error at $.properties: x\n"},
		{"an own hint", 409, `{"error":"conflict","message":"no","hint":"stop it first"}`, exitFailed,
			"ao: no (conflict)\nhint: stop it first\n"},
		{"what a terminal would obey", 409, `{"error":"conflict","message":"\u001b[2Jgone\u202e","x\r":"\u0007"}`,
			exitFailed, `ao: \x1b[2Jgone\u202e (conflict)` + "\n" + `  x\r: \x07` + "\n"},
		{"garbage", 200, `<html>hello</html>`, exitUnreachable, "but not as a coordinator does"},
		{"an unknown document", 200, `{"things":[]}`, exitUnreachable, "but not as a coordinator does"},
		{"an empty error", 500, ``, exitUnreachable, "answered 500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := answering(t, tt.status, tt.body)
			out, errs, code := ao(t, url, "", "runs")
			if code != tt.code || !strings.Contains(errs, tt.want) || out != "" {
				t.Errorf("got %d, %q, %q\nwant %d, %q", code, out, errs, tt.code, tt.want)
			}
			if _, errs, _ := ao(t, url, "", "runs", "--json"); !json.Valid([]byte(errs)) ||
				strings.Contains(errs, "\x1b") {
				t.Errorf("for programs: got %q", errs)
			}
		})
	}
}

func TestNoCoordinatorAnswers(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	for _, tt := range []struct {
		args string
		code int
	}{{"runs", exitUnreachable}, {"run a", exitUnreachable}, {"health", exitFailed}} {
		_, errs, code := ao(t, s.URL, "", strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errs, "no coordinator answers at "+s.URL) ||
			!strings.Contains(errs, "scripts/up") {
			t.Errorf("%s: got %d, %q", tt.args, code, errs)
		}
	}
}

// rough is a connection that breaks wherever it can: a run is followed over it all the same, once and completely.
type rough struct {
	t      *testing.T
	mu     sync.Mutex
	n      map[string]int
	orders []string
	end    string // what the wait answers at last
}

func (r *rough) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int{}
	}
	r.n[req.URL.Path]++
	n := r.n[req.URL.Path]
	const event = `{"event_type":"message","session_id":"ses_1","run_id":"%s","timestamp":"2026-01-31T12:00:00Z",` +
		`"role":"stderr","content":[{"type":"text","text":"%s"}]}`
	switch req.URL.Path {
	case "/runs":
		body, _ := io.ReadAll(req.Body)
		r.orders = append(r.orders, req.Header.Get("Idempotency-Key")+string(body))
		switch n {
		case 1:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"error":"unavailable","message":"NATS is away"}`)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"pending"}`)
		}
	case "/sse/sessions":
		w.Header().Set("Content-Type", "text/event-stream")
		switch req.Header.Get("Last-Event-ID") {
		case "":
			_, _ = fmt.Fprint(w, "id: 1-0\nevent: init\ndata: {}\n\nid: 1-1\nevent: event\ndata: "+
				fmt.Sprintf(event, "run_1", `half\u001b[2J way`)+"\n\n")
		default:
			_, _ = fmt.Fprint(w, "id: 1-2\nevent: event\ndata: "+fmt.Sprintf(event, "run_2", "of another run")+
				"\n\nid: 1-3\nevent: even")
		}
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "/sessions/ses_1/events":
		switch req.URL.Query().Get("after") {
		case "":
			_, _ = io.WriteString(w, `{"events":[],"next":"0-0"}`)
		case "1-9":
			_, _ = io.WriteString(w, `{"events":[],"next":"1-9"}`)
		default:
			if r.n["/runs/run_1/wait"] < 3 {
				r.t.Error("the list is asked before the end")
			}
			_, _ = fmt.Fprintf(w, `{"events":[%s,{"event_type":"run_completed","session_id":"ses_1","run_id":"run_1",`+
				`"timestamp":"2026-01-31T12:00:00Z"}],"next":"1-9"}`, fmt.Sprintf(event, "run_1", "the rest"))
		}
	case "/runs/run_1/wait":
		switch {
		case n == 1:
			w.WriteHeader(202)
			_, _ = io.WriteString(w,
				`{"run_id":"run_1","session_id":"ses_1","status":"pending","waiting_for":"a free slot"}`)
		case n < 3 || r.n["/sse/sessions"] < 3:
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, r.end)
		}
	case "/agents/text-stats":
		if n == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"error":"unavailable","message":"Starting"}`)
			return
		}
		_, _ = io.WriteString(w, `{"name":"text-stats","type":"procedural",`+
			`"parameters_schema":{"properties":{"depth":{"type":"integer"},"tags":{"type":"array",`+
			`"items":{"type":"string"}}}}}`)
	default:
		r.t.Errorf("unexpected %s %s", req.Method, req.URL)
	}
}

func ending(status run.Status, more string) string {
	return fmt.Sprintf(`{"run_id":"run_1","session_id":"ses_1","status":%q,"started_at":"2026-01-31T12:00:00Z",`+
		`"completed_at":"2026-01-31T12:00:03.1Z",%s}`, status, more)
}

func TestRunOverAnUnreliableConnection(t *testing.T) {
	r := &rough{t: t, end: ending(run.Completed, `"error":null,"result":{"result_type":"procedural",`+
		`"result_text":null,"result_data":{"z":1.50,"a":12345678901234567890},"exit_code":0}`)}
	out, errs, code := ao(t, serve(t, r.ServeHTTP), "", "run", "text-stats", "-p", "tags=b,a", "-p",
		"depth=12345678901234567890", "-p", "extra:=1.50")
	if code != exitDone || out != "{\n  \"z\": 1.50,\n  \"a\": 12345678901234567890\n}\n" {
		t.Errorf("got %d, %s", code, out)
	}
	for _, want := range []string{"Starting; retrying for up to 5m0s", "NATS is away; retrying", "run_1 in ses_1",
		"waits for a free slot", `stderr: half\x1b[2J way`, "stderr: the rest", "completed in 3.1s"} {
		if strings.Count(errs, want) != 1 {
			t.Errorf("want %q once in\n%s", want, errs)
		}
	}
	if strings.Contains(errs, "of another run") {
		t.Errorf("another run's events in\n%s", errs)
	}
	if len(r.orders) != 3 || r.orders[0] != r.orders[1] || r.orders[1] != r.orders[2] ||
		!strings.Contains(r.orders[0], `"parameters":{"tags":["b","a"],"depth":12345678901234567890,"extra":1.50}`) {
		t.Errorf("orders: %q", r.orders)
	}
}

// TestExitCodes: how a run ended, as a shell learns it and as it is shown.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name, end, out, errs string
		code                 int
	}{
		{"completed, text",
			ending(run.Completed, `"result":{"result_type":"autonomous","result_text":"hello","result_data":null}`),
			"hello\n", "completed in 3.1s", exitDone},
		{"completed, invented", ending(run.Completed, `"result":{"result_type":"autonomous","result_text":"hello",`+
			`"result_data":null,"note":"this is invented"}`), "hello\n", "this is invented\n", exitDone},
		{"completed, false",
			ending(run.Completed, `"result":{"result_type":"procedural","result_text":null,"result_data":false}`),
			"false\n", "completed", exitDone},
		{"failed with a result", ending(run.Failed, `"error":{"error":"executor_failed","message":"no such file"},`+
			`"result":{"result_type":"procedural","result_text":null,"result_data":{"a":1},"exit_code":3}`),
			"{\n  \"a\": 1\n}\n", "failed in 3.1s, exit code 3: no such file (executor_failed)", exitFailed},
		{"failed after an agent's words", ending(run.Failed, `"error":{"error":"my_code","message":"it broke"},`+
			`"result":{"result_type":"autonomous","result_text":"half an answer","result_data":null}`), "",
			"failed in 3.1s: it broke (my_code)", exitFailed},
		{"failed without",
			ending(run.Failed, `"error":{"error":"runner_disconnected","message":"Runner disconnected during `+
				`execution"},"result":null`), "", "failed in 3.1s: Runner disconnected during execution", exitFailed},
		{"output that does not match", ending(run.Failed, `"error":{"error":"OutputSchemaValidationError",`+
			`"message":"Output validation failed","errors":[{"path":"$.summary","message":"'summary' is a required `+
			`property"}]},"result":null`),
			"", "  $.summary: 'summary' is a required property", exitFailed},
		{"stopped", ending(run.Stopped, `"error":null,"result":null`), "", "stopped in 3.1s", exitStopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/runs" {
					w.WriteHeader(201)
				}
				_, _ = io.WriteString(w, tt.end)
			})
			for _, args := range [][]string{{"run", "a", "-q"}, {"wait", runID, "-q"}} {
				out, errs, code := ao(t, url, "", args...)
				if out != tt.out || !strings.Contains(errs, tt.errs) || code != tt.code {
					t.Errorf("%v: got %d, %q, %q\nwant %d, %q, %q", args, code, out, errs, tt.code, tt.out, tt.errs)
				}
			}
			out, errs, code := ao(t, url, "", "run", "a", "--json")
			if out != tt.end+"\n" || errs != "" || code != tt.code {
				t.Errorf("--json: got %d, %q, %q", code, out, errs)
			}
		})
	}
}

// TestResultWithoutJSON: users get what the program printed, and programs the whole document.
func TestResultWithoutJSON(t *testing.T) {
	const printed = `"result":{"result_type":"procedural","result_text":null,"result_data":{"return_code":%d,` +
		`"stdout":"two\nlines\u001b[2J","stderr":%q},"exit_code":%[1]d}`
	for _, tt := range []struct{ name, end, out string }{
		{"completed", ending(run.Completed, fmt.Sprintf(printed, 0, "careful\n")), "two\nlines\x1b[2J"},
		{"another exit code", ending(run.Completed, `"result":{"result_type":"procedural",`+
			`"result_data":{"return_code":1,"stdout":"","stderr":""},"exit_code":0}`),
			"{\n  \"return_code\": 1,\n  \"stdout\": \"\",\n  \"stderr\": \"\"\n}\n"},
		{"a member more", ending(run.Completed, `"result":{"result_type":"procedural","result_data":{"return_code":0,`+
			`"stdout":"","stderr":"","x":1},"exit_code":0}`),
			"{\n  \"return_code\": 0,\n  \"stdout\": \"\",\n  \"stderr\": \"\",\n  \"x\": 1\n}\n"},
		{"of a model", ending(run.Completed,
			`"result":{"result_type":"autonomous","result_data":{"return_code":0,"stdout":"","stderr":""}}`),
			"{\n  \"return_code\": 0,\n  \"stdout\": \"\",\n  \"stderr\": \"\"\n}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := answering(t, 200, tt.end)
			if out, errs, _ := ao(t, url, "", "wait", runID, "-q"); out != tt.out {
				t.Errorf("got %q, %q, want %q", out, errs, tt.out)
			}
			if out, _, _ := ao(t, url, "", "wait", runID, "--json"); out != tt.end+"\n" {
				t.Errorf("--json: got %q", out)
			}
		})
	}
}

// TestAFailureIsReportedOnce: what came as progress does not come again with the result.
func TestAFailureIsReportedOnce(t *testing.T) {
	const event = `{"event_type":"message","session_id":"ses_1","run_id":"run_1","timestamp":"2026-01-31T12:00:00Z",` +
		`"role":"system","content":[{"type":"text","text":%q}]}`
	for _, tt := range []struct {
		name, message string
		want          int // how often the last line is to be read
		end           string
	}{
		{"all of stderr", "reading\nno such file", 1, "failed in 3.1s, exit code 3: command_failed"},
		{"its end", "…\nno such file", 1, "failed in 3.1s, exit code 3: command_failed"},
		{"something else", "the disk is full", 1, "failed in 3.1s, exit code 3: the disk is full (command_failed)"},
		{"half a line", "such file", 2, "failed in 3.1s, exit code 3: such file (command_failed)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := ending(run.Failed, fmt.Sprintf(`"error":{"error":"command_failed","message":%q,"exit_code":3},`+
				`"result":{"result_type":"procedural","result_text":null,"result_data":{"return_code":3,`+
				`"stdout":"half of it\n","stderr":"reading\nno such file\n"},"exit_code":3}`, tt.message))
			url := serve(t, func(w http.ResponseWriter, req *http.Request) {
				switch req.URL.Path {
				case "/sse/sessions":
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, `{"error":"not_found","message":"gone"}`)
				case "/sessions/ses_1/events":
					if req.FormValue("after") != "" {
						_, _ = io.WriteString(w, `{"events":[],"next":"0-2"}`)
						return
					}
					_, _ = fmt.Fprintf(w, `{"events":[%s,%s],"next":"0-2"}`, fmt.Sprintf(event, "reading"),
						fmt.Sprintf(event, "no such file"))
				case "/runs":
					w.WriteHeader(201)
					_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"pending"}`)
				default:
					_, _ = io.WriteString(w, failed)
				}
			})
			out, errs, code := ao(t, url, "", "run", "a")
			if out != "half of it\n" || code != exitFailed || strings.Count(errs, "such file") != tt.want ||
				!strings.HasSuffix(errs, tt.end+"\n") {
				t.Errorf("got %d, %q\n%s", code, out, errs)
			}
			if _, errs, _ := ao(t, url, "", "run", "a", "-q"); !strings.Contains(errs, tt.message[len(tt.message)-9:]) {
				t.Errorf("-q says nothing of why: %s", errs)
			}
		})
	}
}

// TestValidateReportsInvalidParameters: a parameter of the wrong type is a result, not a usage error.
func TestValidateReportsInvalidParameters(t *testing.T) {
	url := api(t, map[string]string{
		"GET /agents/a": `{"name":"a","type":"procedural",` +
			`"parameters_schema":{"properties":{"n":{"type":"integer"}}}}`})
	for _, tt := range []struct {
		args string
		code int
	}{{"validate a -p n=x", exitFailed}, {"run a -p n=x", exitFailed}, {"validate a -p n", exitFailed}} {
		_, errs, code := ao(t, url, "", strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errs, "parameter n") {
			t.Errorf("%s: got %d, %s; want %d", tt.args, code, errs, tt.code)
		}
	}
}

// TestHelpShowsTheRequestTimeout that the client has.
func TestHelpShowsTheRequestTimeout(t *testing.T) {
	out, _, _ := ao(t, "", "", "run", "--help")
	if want := fmt.Sprintf("for up to %g minutes", client.DefaultRetryFor.Minutes()); !strings.Contains(out, want) {
		t.Errorf("want %q in %s", want, out)
	}
}

func TestWaitTimeout(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/wait") {
			<-req.Context().Done()
		}
		_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"running"}`)
	})
	_, errs, code := ao(t, url, "", "wait", runID, "--timeout", "1", "-q")
	if code != exitWaitTimeout || !strings.Contains(errs, "run_1 continues; 'ao wait run_1' waits for it again") {
		t.Errorf("got %d, %q", code, errs)
	}
}

// TestInterrupted: Ctrl-C ends the waiting, and says what becomes of the run.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case strings.HasSuffix(req.URL.Path, "/wait"):
			interrupt()
			<-req.Context().Done()
		case req.URL.Path == "/runs":
			w.WriteHeader(201)
		}
		_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"pending"}`)
	})
	t.Setenv("AO_URL", url)
	var out, errs strings.Builder
	code := Main(ctx, []string{"run", "a", "-q"}, strings.NewReader(""), &out, &errs, nil)
	if code != exitInterrupted || !strings.Contains(errs.String(), "ao stop run_1") ||
		!strings.Contains(errs.String(), "continues") {
		t.Errorf("got %d, %q", code, errs.String())
	}

	errs.Reset()
	ctx, interrupt = context.WithCancel(t.Context())
	defer interrupt()
	code = Main(ctx, []string{"run", "a", "--json"}, strings.NewReader(""), &out, &errs, nil)
	var e struct {
		Error   string
		Run     string `json:"run_id"`
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(errs.String()), &e); err != nil || e.Error != "interrupted" || e.Run != "run_1" ||
		e.Session != "ses_1" || code != exitInterrupted {
		t.Errorf("with --json: got %d, %q", code, errs.String())
	}
}

func TestDetach(t *testing.T) {
	url := answering(t, 201, `{"run_id":"run_1","session_id":"ses_1","status":"pending"}`)
	if out, errs, code := ao(t, url, "", "run", "a", "-d"); out != "run_1\tses_1\n" || errs != "" || code != 0 {
		t.Errorf("got %d, %q, %q", code, out, errs)
	}
}

// TestRequestsOfCommands: what is sent is what was typed.
func TestRequestsOfCommands(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	marked := filepath.Join(t.TempDir(), "marked.json")
	if err := os.WriteFile(marked, []byte("\ufeff{\"z\":2}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, in, want string }{
		{"run a --project-dir .", "",
			`{"type":"start_session","agent_name":"a","parameters":{},"mode":"async_poll","project_dir":"` + here +
				`"}`},
		{"run a --project-dir ../command/x/", "",
			`{"type":"start_session","agent_name":"a","parameters":{},"mode":"async_poll","project_dir":"` + here +
				`/x"}`},
		{"run a", "", `{"type":"start_session","agent_name":"a","parameters":{},"mode":"async_poll"}`},
		{"run a --prompt 5", "",
			`{"type":"start_session","agent_name":"a","parameters":{"prompt":"5"},"mode":"async_poll"}`},
		{"run a --prompt -", "two\nlines\n",
			`{"type":"start_session","agent_name":"a","parameters":{"prompt":"two\nlines"},"mode":"async_poll"}`},
		{"run a --prompt -", "\ufefftext", // as editors of Windows write it
			`{"type":"start_session","agent_name":"a","parameters":{"prompt":"text"},"mode":"async_poll"}`},
		{"run a --params -", "\ufeff{\"z\":1}",
			`{"type":"start_session","agent_name":"a","parameters":{"z":1},"mode":"async_poll"}`},
		{"run a --params " + marked, "",
			`{"type":"start_session","agent_name":"a","parameters":{"z":2},"mode":"async_poll"}`},
		{"run a --params - -p b:=2.0", `{"z":1e2,"a":"<"}`,
			`{"type":"start_session","agent_name":"a","parameters":{"z":1e2,"a":"<","b":2.0},"mode":"async_poll"}`},
		{`run a --params {"z":1.0}`, "",
			`{"type":"start_session","agent_name":"a","parameters":{"z":1.0},"mode":"async_poll"}`},
		{`run a --output-schema {"z":1.0,"a":"<"} --output-retries 0 --strict-json`, "",
			`{"type":"start_session","agent_name":"a","parameters":{},"mode":"async_poll","output_schema":{"z":1.0,` +
				`"a":"<"},"output_schema_options":{"max_retries":0,"strict_json_only":true}}`},
		{`run a --output-schema -`, `{"type":"object"}`, `{"type":"start_session","agent_name":"a","parameters":{},` +
			`"mode":"async_poll","output_schema":{"type":"object"}}`},
		{`run a --output-schema-name findings --output-retries 3`, "",
			`{"type":"start_session","agent_name":"a","parameters":{},"mode":"async_poll",` +
				`"output_schema_name":"findings","output_schema_options":{"max_retries":3}}`},
		{`run --resume ses_1 -p prompt=5 --output-schema-name findings`, "",
			`{"type":"resume_session","session_id":"ses_1","parameters":{"prompt":"5"},"mode":"async_poll",` +
				`"output_schema_name":"findings"}`},
		{"run --resume ses_1 -p prompt=5", "",
			`{"type":"resume_session","session_id":"ses_1","parameters":{"prompt":"5"},"mode":"async_poll"}`},
		{"run a --session ses_x --project-dir /d --tag gpu --tag eu --hostname h --profile p --timeout " +
			"2m --parent ses_1", "",
			`{"type":"start_session","agent_name":"a","session_id":"ses_x","parameters":{},"mode":"async_poll",` +
				`"parent_session_id":"ses_1","project_dir":"/d","additional_demands":{"hostname":"h",` +
				`"executor_profile":"p","tags":["gpu","eu"]},"timeout_seconds":120}`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var got, key string
			url := serve(t, func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				got, key = string(body), req.Header.Get("Idempotency-Key")
				w.WriteHeader(201)
				_, _ = io.WriteString(w, `{"run_id":"run_1","session_id":"ses_1","status":"pending"}`)
			})
			_, errs, code := ao(t, url, tt.in, append(strings.Fields(tt.args), "--detach", "--idempotency-key",
				"k1")...)
			if got != tt.want || key != "k1" || code != 0 {
				t.Errorf("got %d, %s, key %q, %s\nwant %s", code, got, key, errs, tt.want)
			}
			if _, err := run.ReadRequest([]byte(got)); err != nil {
				t.Errorf("the coordinator would refuse it: %v", err)
			}
		})
	}
}
