package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/executor"
	"ao/worker/process"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	const ok = `"type":"procedural","command":"ao-procedural-exec","agents_dir":"../a"`
	for _, tt := range []struct{ name, text, want string }{
		{"good",
			`{` +
				ok +
				`,"config":{},"lifecycle":"oneshot","env":["LC_ALL"],"max_concurrent_runs":4,"timeout_seconds":60}`,
			`procedural ao-procedural-exec PARENT/a {} oneshot [LC_ALL] 4 60`},
		{"marked", "\ufeff" + `{"type":"autonomous","command":"x"}`, `autonomous x    [] 0 0`},
		{"absolute", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"/a"}`,
			`procedural ao-procedural-exec /a   [] 0 0`},
		{"autonomous", `{"type":"autonomous","command":"ao-claude-code-exec","config":{"model":"m"}}`,
			`autonomous ao-claude-code-exec  {"model":"m"}  [] 0 0`},
		{"syntax", `{"type":`, `profile file DIR/syntax.json: The body is not JSON: it ends too early`},
		{"unknown",
			`{` +
				ok +
				`,"comand":"x"}`,
			`profile file DIR/unknown.json: Unknown field "comand"; known are type, command, agents_dir, config, ` +
				`lifecycle, idle_seconds, max_sessions, env, max_concurrent_runs, timeout_seconds, resume_anywhere, ` +
				`models, system_prompts, limits, sandbox`},
		{"twice",
			`{` + ok + `,"type":"x"}`, `profile file DIR/twice.json: $ has the key "type" twice; send each key once`},
		{"no-type", `{"command":"x"}`, `profile file DIR/no-type.json: type must be autonomous or procedural`},
		{"no-command",
			`{"type":"autonomous"}`,
			`profile file DIR/no-command.json: command is required: the executor's program; for procedural agents ` +
				`ao-procedural-exec`},
		{"no-agents", `{"type":"procedural","command":"x"}`,
			`profile file DIR/no-agents.json: agents_dir is required in a procedural profile: the ` +
				`folder of its agents`},
		{"models", `{"type":"autonomous","command":"x","models":["a*",""]}`,
			`profile file DIR/models.json: models[1] "" must be a model's name, in which * may stand for any text, ` +
				`of at most 200 bytes`},
		{"models-procedural", `{` + ok + `,"models":[]}`,
			`profile file DIR/models-procedural.json: models belongs to autonomous profiles; a procedural agent has ` +
				`no model`},
		{"prompts", `{` + ok + `,"system_prompts":true}`,
			`profile file DIR/prompts.json: system_prompts belongs to autonomous profiles; a procedural agent has no ` +
				`model`},
		{"agents", `{"type":"autonomous","command":"x","agents_dir":"a"}`,
			`profile file DIR/agents.json: agents_dir belongs to procedural profiles; the coordinator has the ` +
				`autonomous agents`},
		{"config", `{` + ok + `,"config":[]}`, `profile file DIR/config.json: config must be an object`},
		{"lifecycle", `{` + ok + `,"lifecycle":"forever"}`,
			`profile file DIR/lifecycle.json: lifecycle must be oneshot or persistent`},
		{"persistent",
			`{"type":"autonomous","command":"x","lifecycle":"persistent","idle_seconds":60,"max_sessions":8,` +
				`"max_concurrent_runs":8}`, `autonomous x   persistent [] 8 0`},
		{"persistent-procedural", `{` + ok + `,"lifecycle":"persistent"}`,
			`profile file DIR/persistent-procedural.json: lifecycle persistent belongs to autonomous profiles whose ` +
				`command is a program of your own`},
		{"persistent-inside", `{"type":"autonomous","command":"ao-claude-code-exec","lifecycle":"persistent"}`,
			`profile file DIR/persistent-inside.json: lifecycle persistent belongs to autonomous profiles whose ` +
				`command is a program of your own`},
		{"idle", `{"type":"autonomous","command":"x","lifecycle":"persistent","idle_seconds":9999999}`,
			`profile file DIR/idle.json: idle_seconds must be from 1 to 604800`},
		{"idle-oneshot", `{"type":"autonomous","command":"x","idle_seconds":60}`,
			`profile file DIR/idle-oneshot.json: idle_seconds belongs to profiles with "lifecycle":"persistent"`},
		{"sessions",
			`{"type":"autonomous","command":"x","lifecycle":"persistent","max_sessions":3,"max_concurrent_runs":4}`,
			`profile file DIR/sessions.json: max_sessions must be at least max_concurrent_runs: each ` +
				`run has a process`},
		{"sessions-many", `{"type":"autonomous","command":"x","lifecycle":"persistent","max_sessions":10001}`,
			`profile file DIR/sessions-many.json: max_sessions must be from 1 to 10000`},
		{"slots", `{` + ok + `,"max_concurrent_runs":-1}`,
			`profile file DIR/slots.json: max_concurrent_runs must be from 1 to 10000`},
		{"slots-text", `{` + ok + `,"max_concurrent_runs":"4"}`,
			`profile file DIR/slots-text.json: max_concurrent_runs must be a whole number, got "4"`},
		{"timeout", `{` + ok + `,"timeout_seconds":99999999}`,
			`profile file DIR/timeout.json: timeout_seconds must be from 1 to 2592000`},
		{"env",
			`{` +
				ok +
				`,"env":["A","B=1"]}`,
			`profile file DIR/env.json: env[1] "B=1" must be the name of a variable; the worker has its value`},
		{"limits", `{` + ok + `,"limits":{"cpu_seconds":-1}}`,
			`profile file DIR/limits.json: limits.cpu_seconds must be from 1 to 1099511627776`},
		{"limits-unknown", `{` + ok + `,"limits":{"cpu":1}}`,
			`profile file DIR/limits-unknown.json: Unknown field "limits.cpu"; known are cpu_seconds, memory_mb, ` +
				`address_space_mb, file_mb, open_files, processes`},
		{"limits-text", `{` + ok + `,"limits":{"memory_mb":"1G"}}`,
			`profile file DIR/limits-text.json: limits.memory_mb must be a whole number, got "1G"`},
		{"limits-files", `{` + ok + `,"limits":{"open_files":3}}`,
			`profile file DIR/limits-files.json: limits.open_files must be at least 8: a program starts with three, ` +
				`and its loader needs some`},
		{"limits-list", `{` + ok + `,"limits":[]}`, `profile file DIR/limits-list.json: limits must be a JSON object`},
		{"sandbox-kind", `{` + ok + `,"sandbox":"docker"}`,
			`profile file DIR/sandbox-kind.json: sandbox.kind must be none or bubblewrap`},
		{"sandbox-none", `{` + ok + `,"sandbox":"none"}`, `procedural ao-procedural-exec PARENT/a   [] 0 0`},
		{"sandbox-no-kind", `{` + ok + `,"sandbox":{"network":false}}`,
			`profile file DIR/sandbox-no-kind.json: sandbox.kind is required: none or bubblewrap`},
		{"sandbox-none-with", `{` + ok + `,"sandbox":{"kind":"none","network":false}}`,
			`profile file DIR/sandbox-none-with.json: sandbox has settings that need "kind":"bubblewrap"`},
		{"sandbox-unknown", `{` + ok + `,"sandbox":{"kind":"bubblewrap","net":false}}`,
			`profile file DIR/sandbox-unknown.json: sandbox: Unknown field "net"; known are kind, read, write, hide, ` +
				`project_dir, network`},
		{"sandbox-path", `{` + ok + `,"sandbox":{"kind":"bubblewrap","write":["/a","b"]}}`,
			`profile file DIR/sandbox-path.json: sandbox.write[1] "b" must be an absolute path or begin with ~/`},
		{"sandbox-root", `{` + ok + `,"sandbox":{"kind":"bubblewrap","write":["/../"]}}`,
			`profile file DIR/sandbox-root.json: sandbox.write[0] must not be the root: that disables the sandbox`},
		{"sandbox-project", `{` + ok + `,"sandbox":{"kind":"bubblewrap","project_dir":"no"}}`,
			`profile file DIR/sandbox-project.json: sandbox.project_dir must be write or read`},
		{"sandbox-claude",
			`{"type":"autonomous","command":"ao-claude-code-exec","sandbox":{"kind":"bubblewrap","network":false}}`,
			`profile file DIR/sandbox-claude.json: sandbox.network must not be false: Claude Code needs it to ` +
				`reach its model`},
		{"../escape",
			``, `profile "../escape": use 1 to 60 letters, digits, '_' or '-', beginning with a letter or digit`},
		{"gone", ``, `profile "gone": DIR/gone.json does not exist; the folder has no profiles`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "profiles")
			if tt.text != "" {
				write(t, filepath.Join(dir, tt.name+".json"), tt.text, 0o600)
			}
			p, err := Read(dir, tt.name)
			got := fmt.Sprintf("%s %s %s %s %s %v %d %d", p.Type, p.Command, p.AgentsDir, p.Config, p.Lifecycle, p.Env,
				p.MaxConcurrentRuns, p.TimeoutSeconds)
			if err != nil {
				got = err.Error()
			}
			got = strings.ReplaceAll(strings.ReplaceAll(got, dir, "DIR"), filepath.Dir(dir), "PARENT")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRunnable(t *testing.T) {
	for _, tt := range []struct {
		p    Profile
		want string
	}{
		{Profile{Type: "procedural", Command: proceduralExec}, "<nil>"},
		{Profile{Type: "procedural", Command: proceduralExec, Lifecycle: "oneshot", Config: []byte("{ }")}, "<nil>"},
		{Profile{Type: "procedural", Command: proceduralExec, Config: []byte(`{"a":1}`)},
			`profile "p": ao-procedural-exec takes no config; remove it`},
		{Profile{Type: "procedural", Command: "sh", Config: []byte(`{"a":1}`)}, "<nil>"},
		{Profile{Type: "procedural", Command: "ao-other", Path: "/profiles/p.json"},
			`profile "p": command "ao-other": no such file in /profiles and no such program on PATH, nor in a folder ` +
				`of the worker`},
		{Profile{Type: "autonomous", Command: "sh", Config: []byte(`{"model":"m"}`)}, "<nil>"},
		{Profile{Type: "autonomous", Command: "sh", Lifecycle: "persistent"}, "<nil>"},
		{Profile{Type: "autonomous", Command: "./no-such-program", Path: "/profiles/p.json"},
			`profile "p": command "./no-such-program": /profiles/no-such-program does not exist, nor in a ` +
				`folder of the worker`},
	} {
		tt.p.Name = "p"
		if got := fmt.Sprint(tt.p.Runnable()); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestFoldersOfTheWorker: a relative path is looked for beside the profile and beside the worker's program. The last
// place is where the worker was started, where a bare name is no program.
func TestFoldersOfTheWorker(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, beside := t.TempDir(), filepath.Dir(self)
	t.Chdir(top)
	own, err := os.MkdirTemp(beside, "own")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(own) })
	inOwn := filepath.Base(own)
	for _, path := range []string{own + "/exec",
		top + "/x/here", top + "/x/both", top + "/profiles/x/both", top + "/bare"} {
		write(t, path, "#!/bin/sh\n", 0o700)
	}
	for _, tt := range []struct{ path, want string }{
		{"x/both", top + "/profiles/x/both"},
		{"x/here", top + "/x/here"},
		{inOwn + "/exec", own + "/exec"},
		{"x/none", ""},
		{"bare", ""},
		{top + "/x/here", top + "/x/here"},
	} {
		write(t, top+"/profiles/p.json", fmt.Sprintf(`{"type":"autonomous","command":%q}`, tt.path), 0o600)
		p, err := Read("profiles", "p")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Program(); got != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.path, got, err, tt.want)
		}
	}
	for dir, want := range map[string]string{"x": top + "/profiles/x", inOwn: own, "../x": top + "/x",
		"./agents": top + "/profiles/agents"} {
		write(t, top+"/profiles/p.json", fmt.Sprintf(`{"type":"procedural","command":"ao-procedural-exec",`+
			`"agents_dir":%q}`, dir), 0o600)
		if p, err := Read("profiles", "p"); err != nil || p.AgentsDir != want {
			t.Errorf("%s: got %s, %v, want %s", dir, p.AgentsDir, err, want)
		}
	}
}

// TestUnavailableSandboxIsRefused: at the start, by what is missing. Nothing runs outside instead.
func TestUnavailableSandboxIsRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p := Profile{Name: "p", Type: "procedural", Command: proceduralExec,
		Sandbox: process.Sandbox{Kind: process.Bubblewrap}}
	if err := p.Runnable(); err == nil || !strings.Contains(err.Error(),
		`profile "p": sandbox: bwrap is not on PATH; install bubblewrap`) {
		t.Errorf("got %v", err)
	}
	p.Sandbox.Write = []string{"/no/such/folder"}
	if err := p.Runnable(); err == nil || !strings.Contains(err.Error(),
		`profile "p": sandbox.write names "/no/such/folder"`) {
		t.Errorf("got %v", err)
	}
}

func TestAgents(t *testing.T) {
	dir := t.TempDir()
	const head = `{"description":"","type":"procedural","name":`
	write(t, dir+"/folder/agent.json", head+`"folder","command":"./run"}`, 0o600)
	write(t, dir+"/folder/run", "#!/bin/sh\n", 0o700)
	write(t, dir+"/path.json", head+`"path","command":"sh"}`, 0o600)
	write(t, dir+"/bare.json", `{"name":"bare","command":"tool"}`, 0o600)
	write(t, dir+"/tool", "#!/bin/sh\n", 0o700)
	write(t, dir+"/syntax.json", `{`, 0o600)
	write(t, dir+"/gone.json", head+`"gone","command":"./nothing"}`, 0o600)
	write(t, dir+"/plain/agent.json", head+`"plain","command":"./run"}`, 0o600)
	write(t, dir+"/plain/run", "#!/bin/sh\n", 0o600)
	write(t, dir+"/model.json", `{"name":"model","description":"","type":"autonomous"}`, 0o600)
	write(t, dir+"/notes.txt", "", 0o600)
	write(t, dir+"/lib/x.sh", "", 0o600)
	good, broken, err := Agents(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range good {
		got = append(got, a.Name+" "+a.Program)
	}
	for _, b := range broken {
		got = append(got, b.Name+" "+b.Path+": "+b.Reason)
	}
	text := strings.ReplaceAll(strings.Join(got, "\n"), dir, "DIR")
	for _, want := range []string{
		"bare DIR/tool",
		"folder DIR/folder/run",
		"path /",
		"syntax DIR/syntax.json: ",
		`gone DIR/gone.json: command "./nothing": DIR/nothing does not exist`,
		`plain DIR/plain/agent.json: command "./run": DIR/plain/run is not executable; chmod +x it`,
		"model DIR/model.json: type autonomous: a runner's own agents are procedural",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if len(good) != 3 || len(broken) != 4 {
		t.Errorf("got\n%s", text)
	}
	if _, _, err := Agents(dir + "/none"); err == nil || !strings.Contains(err.Error(), "agents folder") {
		t.Errorf("no folder: %v", err)
	}
}

func TestEnviron(t *testing.T) {
	own := map[string]string{"HOME": "/h", "SECRET": "s", "LC_ALL": "C", "AGENT_ORCHESTRATOR_PROCESS": "m",
		"PATH": "/bin", "AGENT_SESSION_ID": "forged", "AGENT_ORCHESTRATOR_API_URL": "forged"}
	lookup := func(k string) (string, bool) { v, ok := own[k]; return v, ok }
	p := Profile{Env: []string{"LC_ALL", "PATH", "NOT_SET", "AGENT_ORCHESTRATOR_PROCESS", "AGENT_SESSION_ID",
		"AGENT_ORCHESTRATOR_API_URL"}}
	v := executor.Invocation{SessionID: "ses_1", RunID: "run_1", AgentName: "a", Attempt: 2}
	got := strings.Join(RunEnv(p.BaseEnv(lookup), v), " ")
	if want := "PATH=/bin HOME=/h LC_ALL=C AGENT_SESSION_ID=ses_1 AGENT_ORCHESTRATOR_RUN_ID=run_1 " +
		"AGENT_ORCHESTRATOR_AGENT_NAME=a AGENT_ORCHESTRATOR_ATTEMPT=2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	delete(own, "PATH")
	if got := RunEnv(p.BaseEnv(lookup), v)[0]; got != "PATH="+defaultPath {
		t.Errorf("got %s", got)
	}
}

func TestBrokenFileReservesNoName(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a-dup", "agent.json"), `{"name":"stats","command":"./missing"}`, 0o600)
	write(t, filepath.Join(dir, "stats", "agent.json"), `{"name":"stats","command":"./run"}`, 0o600)
	write(t, filepath.Join(dir, "stats", "run"), "#!/bin/sh\n", 0o700)
	good, broken, err := Agents(dir)
	if err != nil || len(good) != 1 || good[0].Program != filepath.Join(dir, "stats", "run") || len(broken) != 1 ||
		broken[0].Name != "a-dup" {
		t.Errorf("good %v, broken %v, %v", good, broken, err)
	}
}

func TestSystemPromptSupport(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		profile string
		want    bool
	}{
		{`{"type":"autonomous","command":"./x"}`, false},
		{`{"type":"autonomous","command":"./x","system_prompts":false}`, false},
		{`{"type":"autonomous","command":"./x","system_prompts":true}`, true},
		{`{"type":"autonomous","command":"ao-test-exec"}`, true},
		{`{"type":"autonomous","command":"ao-claude-code-exec"}`, true},
	} {
		if err := os.WriteFile(filepath.Join(dir, "p.json"), []byte(tt.profile), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Read(dir, "p")
		if err != nil {
			t.Fatal(err)
		}
		if got := p.TakesSystemPrompts(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.profile, got, tt.want)
		}
	}
}
