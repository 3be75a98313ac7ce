// Package agents tests the example agents as a worker runs them: loaded by the profile, run by the executor.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/procedural"
	"ao/worker/profile"
)

// profiles are the profiles of the agents that have one of their own.
var profiles = map[string]string{"echo": "echo", "test": "test-procedural"}

// start runs an example agent in a folder; its schema must accept the parameters.
func start(t *testing.T, name, params, dir string, progress func(string)) run.Outcome {
	t.Helper()
	p, err := profile.Read("../profiles", cmp.Or(profiles[name], "procedural"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Runnable(); err != nil {
		t.Fatal(err)
	}
	all, broken, err := profile.Agents(p.AgentsDir)
	if err != nil || len(broken) > 0 {
		t.Fatal(err, broken)
	}
	for _, a := range all {
		if a.Name != name {
			continue
		}
		s, err := a.InputSchema(t.Context(), run.Start, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bad := s.Check([]byte(params)); len(bad) > 0 {
			t.Fatalf("%s is not what %s takes: %v", params, name, bad)
		}
		v := executor.Invocation{RunID: "run_1", SessionID: "ses_1", AgentName: name,
			Parameters: json.RawMessage(params), ProjectDir: dir}
		job := procedural.Job{Invocation: v, Command: a.Program, Env: profile.RunEnv(p.BaseEnv(os.LookupEnv), v)}
		if progress != nil {
			job.OnEvent = func(_ string, body json.RawMessage) {
				var m run.Message
				json.Unmarshal(body, &m)
				progress(m.Content[0].Text)
			}
		}
		return procedural.Run(t.Context(), job)
	}
	t.Fatalf("there is no agent %s", name)
	return run.Outcome{}
}

// folder returns a folder for the examples, with odd names and bytes.
func folder(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"poem.txt":        "The rose is red\nthe violet is blue\n",
		"odd.txt":         "tab\t\"quote\" back\\slash\x01 é \xff\x00end\nno end of line",
		"empty.txt":       "",
		"-rf":             "a name like a flag\n",
		"$(touch x) 'q'":  "a name like a command\n",
		"a.log":           "INFO start\nERROR one: [x]\nerror two\n",
		"b.log":           "WARN a\nERROR three\n",
		"good.csv":        "id,name\r\n1,\"Doe, \"\"J\"\"\"\r\n2,\"two\r\nlines\"\r\n",
		"bad.csv":         "id,name\n1,a,b\n2\n\"x\"y,z\n\"open",
		"semi.csv":        "a;b\n1;2\n",
		"sub/new\nline":   "n",
		"sub/deep/\xff.x": "bytes",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestExamples(t *testing.T) {
	dir := folder(t)
	for _, tt := range []struct{ agent, params, want string }{
		{"hello", `{"name":"\"you\" é"}`, `completed 0 {"greeting":"Hello, \"you\" é!"}`},
		{"hello", `{"name":"--name"}`, `completed 0 {"greeting":"Hello, --name!"}`},
		{"hello", `{}`, `completed 0 {"greeting":"Hello, world!"}`},
		{"echo", `{"message":"\"hi\"\n é"}`, `completed 0 {"message":"\"hi\"\n é"}`},
		{"echo", `{"message":"--uppercase\n","uppercase":true}`, `completed 0 {"message":"--UPPERCASE\n"}`},
		{"echo", `{"message":""}`, `completed 0 {"message":""}`},
		{"test", `{"stdout":"\"hi\"","json":true}`, `completed 0 {"output":"\"hi\""}`},
		{"test", `{"stdout":"--half","stderr":"why","exit-code":3}`, `failed 3 why`},
		{"test", `{}`, `completed 0 {"return_code":0,"stdout":"","stderr":""}`},
		{"text-stats", `{"file":"poem.txt","top":2}`,
			`completed 0 {"file":"poem.txt","bytes":35,"lines":2,"words":8,"distinct_words":6,` +
				`"longest_line":{"number":2,"bytes":18,"text":"the violet is blue"},"top_words":[{"word":"is",` +
				`"count":2},{"word":"the","count":2}]}`},
		{"text-stats", `{"file":"odd.txt","top":1,"min_length":5}`,
			`completed 0 {"file":"odd.txt","bytes":47,"lines":1,"words":8,"distinct_words":2,` +
				`"longest_line":{"number":1,"bytes":31,"text":"tab\t\"quote\" back\\slash\u0001 é \ufffdend"},` +
				`"top_words":[{"word":"quote","count":1}]}`},
		{"text-stats",
			`{"file":"empty.txt"}`,
			`completed 0 {"file":"empty.txt","bytes":0,"lines":0,"words":0,"distinct_words":0,` +
				`"longest_line":{"number":0,"bytes":0,"text":""},"top_words":[]}`},
		{"text-stats",
			`{"file":"-rf","top":0}`,
			`completed 0 {"file":"-rf","bytes":19,"lines":1,"words":5,"distinct_words":4,"longest_line":{"number":1,` +
				`"bytes":18,"text":"a name like a flag"},"top_words":[]}`},
		{"text-stats", `{"file":"$(touch x) 'q'","top":0}`,
			`completed 0 {"file":"$(touch x) 'q'","bytes":22,"lines":1,"words":5,"distinct_words":4,` +
				`"longest_line":{"number":1,"bytes":21,"text":"a name like a command"},"top_words":[]}`},
		{"text-stats", `{"file":"gone.txt"}`, `failed 2 text-stats: gone.txt: there is no such file`},
		{"text-stats", `{"file":"sub"}`, `failed 2 text-stats: sub: is a directory, a file is needed`},

		{"log-grep", `{"files":["a.log","b.log"],"pattern":"ERROR"}`,
			`completed 0 {"matches":[{"file":"a.log","line":2,"text":"ERROR one: [x]"},{"file":"b.log","line":2,` +
				`"text":"ERROR three"}],"count":2,"listed":2,"files":2}`},
		{"log-grep", `{"files":["a.log","b.log"],"pattern":"ERROR","ignore_case":true,"max_matches":1,"fixed":false}`,
			`completed 0 {"matches":[{"file":"a.log","line":2,"text":"ERROR one: [x]"}],"count":3,` +
				`"listed":1,"files":2}`},
		{"log-grep", `{"files":["a.log"],"pattern":"[x]","fixed":true}`,
			`completed 0 {"matches":[{"file":"a.log","line":2,"text":"ERROR one: [x]"}],"count":1,` +
				`"listed":1,"files":1}`},
		{"log-grep", `{"files":["b.log"],"pattern":"WARN","invert":true,"max_matches":0}`,
			`completed 0 {"matches":[],"count":1,"listed":0,"files":1}`},
		{"log-grep", `{"files":["-rf"],"pattern":"-"}`, `completed 0 {"matches":[],"count":0,"listed":0,"files":1}`},
		{"log-grep", `{"files":["odd.txt"],"pattern":"quote"}`,
			`completed 0 {"matches":[{"file":"odd.txt","line":1,"text":"tab\t\"quote\" back\\slash\u0001 é ` +
				`\ufffdend"}],"count":1,"listed":1,"files":1}`},
		{"log-grep", `{"files":["a.log"],"pattern":"("}`,
			`failed 2 log-grep: pattern '(' is no regular expression that grep -E takes`},
		{"log-grep", `{"files":["a.log","gone.log"],"pattern":"x"}`,
			`failed 2 log-grep: gone.log: there is no such file`},

		{"csv-check", `{"file":"good.csv","columns":2}`,
			`completed 0 {"status":"valid","file":"good.csv","rows":2,"columns":2,"header":["id","name"],` +
				`"problem_count":0,"problems":[]}`},
		{"csv-check", `{"file":"semi.csv","delimiter":";","no_header":true}`,
			`completed 0 {"status":"valid","file":"semi.csv","rows":2,"columns":2,"problem_count":0,"problems":[]}`},
		{"csv-check", `{"file":"bad.csv"}`, `failed 3 csv-check: bad.csv: line 2: has 3 fields, expected 2
csv-check: bad.csv: line 3: has 1 field, expected 2
csv-check: bad.csv: line 4: text after the closing quote of a field
csv-check: bad.csv: line 5: a quote is opened and never closed`},
		{"csv-check", `{"file":"good.csv","columns":3,"delimiter":"-"}`,
			`failed 3 csv-check: good.csv: line 1: has 1 field, expected 3`},
		{"csv-check", `{"file":"empty.txt"}`, `failed 3 csv-check: empty.txt: line 1: the file is empty`},

		{"checksum-tree", `{"path":"sub","algorithm":"md5"}`,
			`completed 0 {"path":"sub","algorithm":"md5","tree":"TREE","unreadable":0,"bytes":6,"count":2,` +
				`"files":[{"path":"deep/\ufffd.x","bytes":5,"digest":"4b3a6218bb3e3a7303e8a171a60fcf92"},` +
				`{"path":"new\nline","bytes":1,"digest":"7b8b965ad4bca0e41ab51de7b31363a1"}]}`},
		{"checksum-tree", `{"path":"sub","name":"new*","summary":true,"pause_ms":1}`,
			`completed 0 {"path":"sub","algorithm":"sha256","tree":"TREE","unreadable":0,"bytes":1,"count":1}`},
		{"checksum-tree", `{"name":"nothing like this"}`,
			`completed 0 {"path":".","algorithm":"sha256","tree":"TREE","unreadable":0,"bytes":0,` +
				`"count":0,"files":[]}`},
		{"checksum-tree", `{"path":"gone"}`, `failed 2 checksum-tree: gone: there is no such folder`},
		{"checksum-tree", `{"path":"poem.txt"}`, `failed 2 checksum-tree: poem.txt: is not a folder`},

		{"disk-usage", `{"path":"gone"}`, `failed 2 disk-usage: gone: there is no such folder`},
	} {
		t.Run(tt.agent+" "+tt.params, func(t *testing.T) {
			t.Parallel()
			o := start(t, tt.agent, tt.params, dir, nil)
			var tree struct{ Tree string }
			json.Unmarshal(o.Result.Data, &tree)
			got := fmt.Sprintf("%s %d %s", o.Status, *o.Result.ExitCode, o.Result.Data)
			if tree.Tree != "" {
				got = strings.ReplaceAll(got, tree.Tree, "TREE")
			}
			if o.Error != nil {
				got = fmt.Sprintf("%s %d %s", o.Status, *o.Result.ExitCode, o.Error.Message)
			}
			if got != tt.want && !strings.HasPrefix(got, tt.want+"\n") {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a file's name was run as a command")
	}
}

// parent returns the folder of a path, as it is written.
func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// TestExamplesKeepToTheProjectFolder: a path that leads out of the folder, by its name or through a link, is refused
// by its name. A path inside is accepted, however it is written.
func TestExamplesKeepToTheProjectFolder(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "project")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("keys/nats.nk", "SECRET,x\n")
	write("project2/beside", "SECRET,x\n")
	write("project/in/a.csv", "inside,x\n")
	write("project/-x/a.csv", "inside,x\n")
	link("../keys/nats.nk", "leak")
	link("in/../../keys", "keys")
	link(filepath.Join(top, "keys", "gone"), "dangling")
	link("in/a.csv", "fine")
	link("in", "folder")

	for agent, params := range map[string]func(path string) map[string]any{
		"text-stats": func(p string) map[string]any { return map[string]any{"file": p} },
		"csv-check":  func(p string) map[string]any { return map[string]any{"file": p} },
		"log-grep": func(p string) map[string]any {
			return map[string]any{"files": []string{"in/a.csv", p}, "pattern": "."}
		},
		"disk-usage":    func(p string) map[string]any { return map[string]any{"path": parent(p)} },
		"checksum-tree": func(p string) map[string]any { return map[string]any{"path": parent(p)} },
	} {
		folders := agent == "disk-usage" || agent == "checksum-tree"
		try := func(path string) (run.Outcome, string) {
			raw, err := json.Marshal(params(path))
			if err != nil {
				t.Fatal(err)
			}
			if folders {
				path = parent(path)
			}
			return start(t, agent, string(raw), dir, nil), path
		}
		for _, out := range []string{
			"../keys/nats.nk", "in/../../keys/nats.nk", filepath.Join(top, "keys/nats.nk"), "/etc/passwd",
			"keys/nats.nk", "keys/../project2/beside",
			filepath.Join(top, "project2/beside"), "../project2/beside", "../gone/at/all", "/proc/self/environ",
		} {
			o, named := try(out)
			if o.Status != run.Failed || o.Error == nil || !strings.HasSuffix(o.Error.Message,
				agent+": "+named+": is not in the project folder") || strings.Contains(string(o.Result.Data),
				"SECRET") {
				t.Errorf("%s %s: got %s %s %v", agent, out, o.Status, o.Result.Data, o.Error)
			}
		}
		for _, in := range []string{"in/a.csv", "in/../in/./a.csv", filepath.Join(dir, "in/a.csv"), "folder/a.csv",
			"../project/in/a.csv", "-x/a.csv"} {
			if o, _ := try(in); o.Status != run.Completed {
				t.Errorf("%s %s: got %s %v", agent, in, o.Status, o.Error)
			}
		}
		if folders {
			continue
		}
		for _, out := range []string{"leak", "dangling"} {
			if o, _ := try(out); o.Status != run.Failed || !strings.HasSuffix(o.Error.Message,
				agent+": "+out+": is not in the project folder") {
				t.Errorf("%s %s: got %s %s %v", agent, out, o.Status, o.Result.Data, o.Error)
			}
		}
		if o, _ := try("fine"); o.Status != run.Completed {
			t.Errorf("%s fine: got %s %v", agent, o.Status, o.Error)
		}
	}
}

func TestFailedCheckKeepsItsList(t *testing.T) {
	o := start(t, "csv-check", `{"file":"bad.csv"}`, folder(t), nil)
	var r struct {
		Status   string
		Problems []struct{ Line int }
	}
	if err := json.Unmarshal(o.Result.Data, &r); err != nil || r.Status != "invalid" || len(r.Problems) != 4 {
		t.Errorf("got %s, %v", o.Result.Data, err)
	}
}

func TestDiskUsageIsText(t *testing.T) {
	o := start(t, "disk-usage", `{"depth":2,"top":2}`, folder(t), nil)
	var r struct{ Stdout string }
	if err := json.Unmarshal(o.Result.Data, &r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if o.Status != run.Completed || len(lines) != 4 || !strings.HasSuffix(lines[1], "KiB  .") ||
		!strings.HasSuffix(lines[3], "and 1 more") {
		t.Errorf("got %s %q", o.Status, lines)
	}
}

func TestProgress(t *testing.T) {
	var got []string
	start(t, "checksum-tree", `{}`, folder(t), func(text string) { got = append(got, text) })
	if len(got) < 3 || got[0] != "checksum-tree: 12 files to read" ||
		got[len(got)-1] != "checksum-tree: 12 files read" {
		t.Errorf("got %q", got)
	}
}

// TestStopCleansUp stops a scan; its temporary file must be removed.
func TestStopCleansUp(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	all, _, err := profile.Agents("procedural")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.Name != "checksum-tree" {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		o := procedural.Run(ctx, procedural.Job{
			Invocation: executor.Invocation{Parameters: json.RawMessage(`{"pause_ms":10000}`), ProjectDir: folder(t)},
			Command:    a.Program,
			Env:        []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp},
			OnEvent: func(_ string, body json.RawMessage) {
				if strings.Contains(string(body), "1 of 12") {
					cancel()
				}
			},
		})
		if o.Status != run.Stopped {
			t.Errorf("got %s", o.Status)
		}
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
